//! Addresses, and what goes through them: loads, stores and positions.

use gt_ir::DType;

use super::{
    Unsupported,
    emit::{Emitter, Part, Place},
    ir::{Base, Class, Inst, Mem, Op, Reg, Source, Width},
    lanes::Value,
};
use crate::kernel::spec::{Access, Binary, Expr, Store};

fn width(dtype: DType) -> Width {
    match dtype.size() {
        1 => Width::Byte,
        2 => Width::Half,
        8 => Width::Double,
        _ => Width::Word,
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
    fn to_vector(&self, u: usize, stride: i64) -> i64 {
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
        let mask = if let Part::Tail(_, mask) = part { Some(mask) } else { None };
        let dst = self.f.reg(Class::Vector);
        if stride == dtype.size() as i64 {
            self.f.push(Inst {
                mem: Some(mem),
                mask,
                ..Inst::new(Op::Load(width(dtype)), Some(dst), &[])
            });
        } else if stride == 0 {
            let op = match width(dtype) {
                Width::Word => Op::Splat { wide: false },
                narrow @ (Width::Byte | Width::Half | Width::Double) => Op::SplatNarrow(narrow),
            };
            self.f.push(Inst { mem: Some(mem), ..Inst::new(op, Some(dst), &[]) });
        } else {
            let (mem, mask) = self.spread(dtype, stride, mem, mask)?;
            self.f.push(Inst {
                mem: Some(mem),
                mask: Some(mask),
                ..Inst::new(Op::Gather { wide: false }, Some(dst), &[])
            });
        }
        Ok(self.f.loaded(dtype, Source::Reg(dst)))
    }

    /// Elements of eight bytes.
    pub(super) fn load_pair(
        &mut self,
        stride: i64,
        mem: Mem,
        part: Part,
    ) -> Result<Value, Unsupported> {
        if stride == 0 {
            let dst = self.f.reg(Class::Vector);
            let op = Op::Splat { wide: true };
            self.f.push(Inst { mem: Some(mem), ..Inst::new(op, Some(dst), &[]) });
            return Ok(Value::Pair([Source::Reg(dst); 2]));
        }
        let mut pair = [Source::Wide(0); 2];
        for (half, out) in pair.iter_mut().enumerate() {
            let (mut mem, mut mask) =
                (self.half_mem(mem, stride, half)?, self.half_mask(part, half));
            let dst = self.f.reg(Class::Vector);
            let mut op = Op::Load(Width::Double);
            if stride != 8 {
                let (spread, used) = self.spread(DType::F64, stride, mem, mask)?;
                (mem, mask, op) = (spread, Some(used), Op::Gather { wide: true });
            }
            self.f.push(Inst { mem: Some(mem), mask, ..Inst::new(op, Some(dst), &[]) });
            *out = Source::Reg(dst);
        }
        Ok(Value::Pair(pair))
    }

    /// Half of the addresses of a vector's elements `stride` bytes apart.
    fn half_mem(&self, mem: Mem, stride: i64, half: usize) -> Result<Mem, Unsupported> {
        let disp = i64::from(mem.disp) + self.to_vector(half, stride) / 2;
        Ok(Mem { disp: i32::try_from(disp).map_err(|_| Unsupported("a huge offset"))?, ..mem })
    }

    /// Which of half of the lanes count.
    pub(super) fn half_mask(&mut self, part: Part, half: usize) -> Option<Reg> {
        match part {
            Part::Tail(_, mask) if half == 1 => Some(self.f.upper(mask)),
            Part::Tail(_, mask) => Some(mask),
            Part::Outside | Part::Block => None,
        }
    }

    pub(super) fn store_pair(
        &mut self,
        stride: i64,
        mem: Mem,
        value: [Source; 2],
        part: Part,
    ) -> Result<(), Unsupported> {
        for (half, value) in value.into_iter().enumerate() {
            let value = self.f.held(value);
            if part == Part::Outside {
                let op = Op::StoreFirst(Width::Double);
                self.f.push(Inst { mem: Some(mem), ..Inst::new(op, None, &[value]) });
                return Ok(());
            }
            let (mut mem, mut mask) =
                (self.half_mem(mem, stride, half)?, self.half_mask(part, half));
            let mut op = Op::Store(Width::Double);
            if stride != 8 {
                let (spread, used) = self.spread(DType::F64, stride, mem, mask)?;
                (mem, mask, op) = (spread, Some(used), Op::Scatter { wide: true });
            }
            self.f.push(Inst { mem: Some(mem), mask, ..Inst::new(op, None, &[value]) });
        }
        Ok(())
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
    pub(super) fn spread(
        &mut self,
        dtype: DType,
        stride: i64,
        mem: Mem,
        mask: Option<Reg>,
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
        let mask = match mask {
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
        if let Value::Pair(value) = value {
            return self.store_pair(stride, mem, value, part);
        }
        let value = self.f.stored(dtype, value)?;
        let value = Source::Reg(self.f.register(value));
        let mask = if let Part::Tail(_, mask) = part { Some(mask) } else { None };
        let mut op = Op::Store(width(dtype));
        if stride == 0 {
            op = Op::StoreFirst(width(dtype));
        } else if stride != dtype.size() as i64 {
            let (mem, mask) = self.spread(dtype, stride, mem, mask)?;
            self.f.push(Inst {
                mem: Some(mem),
                mask: Some(mask),
                ..Inst::new(Op::Scatter { wide: false }, None, &[value])
            });
            return Ok(());
        }
        self.f.push(Inst { mem: Some(mem), mask, ..Inst::new(op, None, &[value]) });
        Ok(())
    }
}
