//! Addresses, and what goes through them: loads, stores and positions.

use gt_ir::DType;

use super::{
    Unsupported,
    emit::{Emitter, Part, Place, Rest},
    ir::{Base, Class, Inst, Mem, Op, Reg, Source, Width},
    isa::Vectors,
    lanes::Value,
};
use crate::kernel::spec::{Access, Binary, Expr, Store};

fn width(dtype: DType) -> Width {
    match dtype {
        DType::Bool | DType::U8 => Width::Byte,
        DType::Bf16 => Width::Half,
        DType::F16 => Width::Float16,
        DType::F32 | DType::I32 => Width::Word,
        DType::F64 | DType::I64 => Width::Double,
    }
}

impl Emitter<'_> {
    /// Moves every address along the loop at position `at`.
    pub(super) fn step_into(&mut self, at: usize, index: Reg) -> Result<(), Unsupported> {
        let spec = &self.nest.spec;
        let mut known = Vec::new();
        for id in 0..spec.nodes.len() {
            let (access, size) = match &spec.nodes[id].expr {
                Expr::Load { buffer, access } => {
                    (access, spec.buffers[usize::from(*buffer)].size())
                }
                Expr::Index(access) => (access, 1),
                Expr::Scalar(_)
                | Expr::Unary(..)
                | Expr::Binary(..)
                | Expr::Select(..)
                | Expr::Cast(_) => continue,
            };
            if let Some(place) = self.load_at[id] {
                let stride = self.nest.stride(access, at) * size as i64;
                self.load_at[id] = Some(self.step(place, index, stride, &mut known)?);
            }
        }
        for (i, store) in spec.stores.iter().enumerate() {
            let stride = self.nest.stride(&store.access, at)
                * spec.buffers[usize::from(store.buffer)].size() as i64;
            self.store_at[i] = self.step(self.store_at[i], index, stride, &mut known)?;
        }
        Ok(())
    }

    /// `known` holds what this step has computed for others.
    pub(super) fn step(
        &mut self,
        place: Place,
        index: Reg,
        stride: i64,
        known: &mut Vec<((Reg, i64), Reg)>,
    ) -> Result<Place, Unsupported> {
        if stride == 0 {
            return Ok(place);
        }
        let base = match place.index {
            Some(before) => self.sum(place.base, Some(before), 0),
            None => place.base,
        };
        if matches!(stride, 1 | 2 | 4 | 8) {
            return Ok(Place { base, index: Some((index, stride as u8)), ..place });
        }
        let found = known.iter().find(|(key, _)| *key == (base, stride)).map(|(_, r)| *r);
        let base = match found {
            Some(moved) => moved,
            None => {
                let by = i32::try_from(stride).map_err(|_| Unsupported("a huge stride"))?;
                let distance = self.general(Op::Multiply(by), &[index], None);
                let moved = self.sum(base, Some((distance, 1)), 0);
                known.push(((base, stride), moved));
                moved
            }
        };
        Ok(Place { base, index: None, ..place })
    }

    /// The distance between lanes, in bytes; 0 outside of vectors.
    pub(super) fn lane_stride(&self, access: &Access, dtype: DType, part: Part) -> i64 {
        match (part, self.nest.vector) {
            (Part::Outside, _) | (_, None) => 0,
            (_, Some(v)) => self.nest.stride(access, v) * dtype.size() as i64,
        }
    }

    /// The distance of vector `u` of a block, of lanes that are `stride` apart.
    pub(super) fn to_vector(&self, u: usize, stride: i64) -> i64 {
        stride * (u * self.f.vectors.lanes()) as i64
    }

    pub(super) fn mem(&self, place: Place, bytes: i64) -> Result<Mem, Unsupported> {
        let disp = i32::try_from(place.disp + bytes).map_err(|_| Unsupported("a huge offset"))?;
        Ok(Mem { base: Base::Reg(place.base), index: place.index, disp })
    }

    pub(super) fn load(
        &mut self,
        dtype: DType,
        access: &Access,
        place: Place,
        u: usize,
        part: Part,
    ) -> Result<Value, Unsupported> {
        let stride = self.lane_stride(access, dtype, part);
        let mem = self.mem(place, self.to_vector(u, stride))?;
        if dtype.size() == 8 {
            return self.load_pair(stride, mem, part);
        }
        if stride == 0 {
            let op = match width(dtype) {
                Width::Word => Op::Splat { wide: false },
                narrow @ (Width::Byte | Width::Half | Width::Float16 | Width::Double) => {
                    Op::SplatNarrow(narrow)
                }
            };
            let value = self.loading(op, mem, None);
            return Ok(self.f.loaded(dtype, value));
        }
        let value = self.load_lanes(dtype, stride, mem, rest(part))?;
        Ok(self.f.loaded(dtype, value))
    }

    pub(super) fn loading(&mut self, op: Op, mem: Mem, mask: Option<Reg>) -> Source {
        let dst = self.f.reg(Class::Vector);
        self.f.push(Inst { mem: Some(mem), mask, ..Inst::new(op, Some(dst), &[]) });
        Source::Reg(dst)
    }

    /// Elements of eight bytes.
    fn load_pair(&mut self, stride: i64, mem: Mem, part: Part) -> Result<Value, Unsupported> {
        if stride == 0 {
            return Ok(Value::Pair([self.loading(Op::Splat { wide: true }, mem, None); 2]));
        }
        let mut pair = [Source::Wide(0); 2];
        for (half, out) in pair.iter_mut().enumerate() {
            let (mem, rest) = (self.half_mem(mem, stride, half)?, self.half_rest(part, half));
            *out = self.load_lanes(DType::F64, stride, mem, rest)?;
        }
        Ok(Value::Pair(pair))
    }

    /// The lanes of one vector from memory, all of them or the rest; zeros where none count.
    fn load_lanes(
        &mut self,
        dtype: DType,
        stride: i64,
        mem: Mem,
        rest: Option<Rest>,
    ) -> Result<Source, Unsupported> {
        let (size, wide) = (dtype.size(), dtype.size() == 8);
        if rest == Some(Rest::First(0)) {
            return Ok(Source::Wide(0));
        }
        if stride == -(size as i64)
            && let Some(value) = self.load_reversed(dtype, mem, rest)
        {
            return Ok(value);
        }
        if stride != size as i64 {
            if let Some((n, stride)) = self.one_by_one(dtype, stride, mem, rest) {
                let width = width(dtype);
                return Ok(self.loading(Op::LoadApart { n, stride, width }, mem, None));
            }
            let (mem, mask) = self.spread(dtype, stride, mem, rest)?;
            return Ok(self.loading(Op::Gather { wide }, mem, Some(mask)));
        }
        if let (Some(Rest::First(n)), 1 | 2, Vectors::Ymm) = (rest, size, self.f.vectors) {
            return Ok(self.loading(Op::LoadFirst(width(dtype), n), mem, None));
        }
        let mask = rest.map(|rest| self.mask(rest));
        Ok(self.loading(Op::Load(width(dtype)), mem, mask))
    }

    /// The lanes from an address backwards, as they lie in memory and then turned around; `None`
    /// where not all of them count and a mask cannot say so.
    fn load_reversed(&mut self, dtype: DType, mem: Mem, rest: Option<Rest>) -> Option<Source> {
        let (size, words) = (dtype.size(), dtype.size().div_ceil(4));
        let n = self.f.vectors.lanes() / words;
        let mask = match (rest, size, self.f.vectors) {
            (None, ..) => None,
            (Some(Rest::First(first)), 1 | 2, Vectors::Zmm) => {
                let others = self.mask(Rest::First(n - first));
                Some(self.f.make_in(Class::Mask, Op::MaskNot, &[Source::Reg(others)]))
            }
            (Some(_), ..) => return None,
        };
        let disp = mem.disp.checked_sub(((n - 1) * size) as i32)?;
        let mut value = self.loading(Op::Load(width(dtype)), Mem { disp, ..mem }, mask);
        let mut distance = words;
        while distance < self.f.vectors.lanes() {
            value = self.f.exchanged(value, distance);
            distance *= 2;
        }
        Some(value)
    }

    /// How many lanes are moved one by one and how far apart they are, if their number is known.
    fn one_by_one(
        &self,
        dtype: DType,
        stride: i64,
        mem: Mem,
        rest: Option<Rest>,
    ) -> Option<(usize, i32)> {
        let n = match rest {
            None => self.f.vectors.bytes() as usize / dtype.size().max(4),
            Some(Rest::First(n)) => n,
            Some(Rest::Where(_)) => return None,
        };
        let end = i64::from(mem.disp) + self.to_vector(1, stride);
        let stride = i32::try_from(stride).ok()?;
        i32::try_from(end).is_ok().then_some((n, stride))
    }

    /// Half of the addresses of a vector's elements `stride` bytes apart.
    fn half_mem(&self, mem: Mem, stride: i64, half: usize) -> Result<Mem, Unsupported> {
        let disp = i64::from(mem.disp) + self.to_vector(half, stride) / 2;
        Ok(Mem { disp: i32::try_from(disp).map_err(|_| Unsupported("a huge offset"))?, ..mem })
    }

    /// Which of half of the lanes count.
    fn half_rest(&mut self, part: Part, half: usize) -> Option<Rest> {
        let n_half = self.f.vectors.lanes() / 2;
        Some(match rest(part)? {
            Rest::First(n) if half == 1 => Rest::First(n.saturating_sub(n_half)),
            Rest::First(n) => Rest::First(n.min(n_half)),
            Rest::Where(mask) if half == 1 => Rest::Where(self.f.upper(mask)),
            Rest::Where(mask) => Rest::Where(mask),
        })
        .filter(|rest| *rest != Rest::First(n_half))
    }

    /// The mask of half of the lanes.
    pub(super) fn half_mask(&mut self, part: Part, half: usize) -> Option<Reg> {
        let mask = rest(part).map(|rest| self.mask(rest))?;
        Some(if half == 1 { self.f.upper(mask) } else { mask })
    }

    /// Positions as values.
    pub(super) fn index(
        &mut self,
        dtype: DType,
        access: &Access,
        place: Place,
        u: usize,
        part: Part,
    ) -> Result<Value, Unsupported> {
        let stride = match (part, self.nest.vector) {
            (Part::Outside, _) | (_, None) => 0,
            (_, Some(v)) => self.nest.stride(access, v),
        };
        let mem = self.mem(place, self.to_vector(u, stride))?;
        let first = self.general(Op::Address, &[], Some(mem));
        let wide = dtype == DType::I64;
        let first = self.f.make(Op::SplatGeneral { wide }, &[Source::Reg(first)]);
        if !wide {
            if stride == 0 {
                return Ok(Value::Lanes(first));
            }
            let ramp = Source::Reg(self.f.constant(Op::Ramp(stride as i32), &[]));
            return self.f.binary(Binary::Add, dtype, Value::Lanes(first), Value::Lanes(ramp));
        }
        if stride == 0 {
            return Ok(Value::Pair([first; 2]));
        }
        let ramp = Source::Reg(self.f.constant(Op::WideRamp(stride), &[]));
        let half = stride.wrapping_mul(self.f.vectors.lanes() as i64 / 2) as u64;
        let low = self.f.long_sum(first, ramp);
        Ok(Value::Pair([low, self.f.long_sum(low, Source::Wide(half))]))
    }

    /// The address and the mask (to be used up) of lanes that do not lie side by side.
    fn spread(
        &mut self,
        dtype: DType,
        stride: i64,
        mem: Mem,
        rest: Option<Rest>,
    ) -> Result<(Mem, Reg), Unsupported> {
        let reach = i32::try_from(self.to_vector(1, stride));
        let (4 | 8, Ok(_)) = (dtype.size(), reach) else {
            return Err(Unsupported("strided narrow elements"));
        };
        let base = match (mem.index, mem.base) {
            (Some(_), _) => Base::Reg(self.general(Op::Address, &[], Some(Mem { disp: 0, ..mem }))),
            (None, base) => base,
        };
        let distances = self.f.constant(Op::Ramp(stride as i32), &[]);
        let mask = match rest.map(|rest| self.mask(rest)) {
            Some(mask) => self.f.make_in(Class::Mask, Op::MaskMove, &[Source::Reg(mask)]),
            None => self.f.make_in(Class::Mask, Op::MaskOnes, &[]),
        };
        Ok((Mem { base, index: Some((distances, 1)), disp: mem.disp }, mask))
    }

    pub(super) fn store(
        &mut self,
        i: usize,
        store: &Store,
        value: Value,
        u: usize,
        part: Part,
    ) -> Result<(), Unsupported> {
        let dtype = self.nest.spec.buffers[usize::from(store.buffer)];
        let stride = self.lane_stride(&store.access, dtype, part);
        let mem = self.mem(self.store_at[i], self.to_vector(u, stride))?;
        if stride == 0 && part != Part::Outside {
            return Err(Unsupported("lanes stored to one place"));
        }
        let rest = if stride == 0 { Some(Rest::First(1)) } else { rest(part) };
        let Value::Pair(pair) = value else {
            let value = self.f.stored(dtype, value)?;
            return self.store_lanes((i, dtype), stride, mem, (value, rest));
        };
        if stride == 0 {
            return self.store_lanes((i, dtype), stride, mem, (pair[0], rest));
        }
        for (half, value) in pair.into_iter().enumerate() {
            let (mem, rest) = (self.half_mem(mem, stride, half)?, self.half_rest(part, half));
            self.store_lanes((i, dtype), stride, mem, (value, rest))?;
        }
        Ok(())
    }

    /// The lanes of one vector to memory, all of them or the rest.
    fn store_lanes(
        &mut self,
        (i, dtype): (usize, DType),
        stride: i64,
        mem: Mem,
        (value, rest): (Source, Option<Rest>),
    ) -> Result<(), Unsupported> {
        let (value, wide) = (Source::Reg(self.f.register(value)), dtype.size() == 8);
        let (op, mem, mask) = match rest {
            Some(Rest::First(0)) => return Ok(()),
            rest if stride != 0 && stride != dtype.size() as i64 => {
                if let Some((n, stride)) = self.one_by_one(dtype, stride, mem, rest) {
                    (Op::StoreApart { n, stride, width: width(dtype) }, mem, None)
                } else {
                    let (mem, mask) = self.spread(dtype, stride, mem, rest)?;
                    (Op::Scatter { wide }, mem, Some(mask))
                }
            }
            Some(Rest::First(n)) => (Op::StoreFirst(width(dtype), n), mem, None),
            Some(Rest::Where(mask)) => (Op::Store(width(dtype)), mem, Some(mask)),
            None => (self.storing(i, width(dtype)), mem, None),
        };
        self.f.push(Inst { mem: Some(mem), mask, ..Inst::new(op, None, &[value]) });
        Ok(())
    }
}

/// Which lanes of a vector count, if not all of them.
fn rest(part: Part) -> Option<Rest> {
    match part {
        Part::Tail(_, rest) => Some(rest),
        Part::Outside | Part::Block => None,
    }
}
