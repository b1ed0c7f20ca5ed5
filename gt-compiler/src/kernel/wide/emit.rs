//! Writes a nest as linear code: loops, addresses, and each value in the outermost loop it depends on.
//!
//! The vectorized loop runs in blocks of several vectors and ends with masked vectors. Rows are summed in as many lanes as they have
//! accumulators, columns in one lane each. Refused: functions the host computes, strided narrow elements, and rows
//! summed across.

use gt_ir::DType;
use smallvec::{SmallVec, smallvec};

use super::{
    Unsupported,
    ir::{Base, Class, Function, Inst, Mem, Op, Reg, Source, Width},
    lanes::Value,
};
use crate::kernel::{
    nest::Nest,
    spec::{Access, Binary, Expr, ExprId, FoldOrder, Store, Unary},
};

const LANES: usize = 16;

/// A value in each vector handled together, or once for all.
type Values = SmallVec<[Value; 4]>;

/// An accumulator of sixteen lanes; elements of four bytes need the first register only.
type Sum = [Reg; 2];

/// Which part of the vectorized loop is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// None: values are the same in all lanes.
    Outside,
    /// All vectors of a block.
    Block,
    /// One vector with some lanes left out, in place of the given one of a block.
    Tail(usize, Reg),
}

/// An address or an index at the current position.
#[derive(Clone, Copy, Debug)]
struct Place {
    base: Reg,
    index: Option<(Reg, u8)>,
    disp: i64,
}

struct Emitter<'n> {
    nest: &'n Nest,
    f: Function,
    depth: Vec<usize>,
    varying: Vec<bool>,
    unroll: usize,
    values: Vec<Values>,
    load_at: Vec<Option<Place>>,
    store_at: Vec<Place>,
    /// The accumulators of each store.
    sums: Vec<SmallVec<[Sum; 4]>>,
    /// Of the split parallel and the split reduce loop.
    ranges: [(Reg, Reg); 2],
}

pub(super) fn emit(nest: &Nest) -> Result<Function, Unsupported> {
    check(nest)?;
    let (depth, varying) = nest.depths();
    let mut f = Function::default();
    let argument = |f: &mut Function, i: i32| {
        let dst = f.reg(Class::General);
        let mem = Some(Mem { base: Base::Frame, index: None, disp: 8 * i });
        f.push(Inst { mem, ..Inst::new(Op::LoadPointer, Some(dst), &[]) });
        dst
    };
    let arguments = argument(&mut f, 0);
    let ranges = [1, 3].map(|i| (argument(&mut f, i), argument(&mut f, i + 1)));
    let n = nest.spec.nodes.len();
    let unroll = unroll(nest);
    let mut e = Emitter {
        nest,
        f,
        depth,
        varying,
        unroll,
        values: vec![Values::new(); n],
        load_at: vec![None; n],
        store_at: Vec::new(),
        sums: Vec::new(),
        ranges,
    };
    e.prologue(arguments)?;
    e.nest_from(0, Part::Outside)?;
    e.f.finish();
    Ok(e.f)
}

/// Refuses early what would be refused on the way.
fn check(nest: &Nest) -> Result<(), Unsupported> {
    let spec = &nest.spec;
    if nest.gathers_rows()
        || (nest.folds() && spec.fold_order == FoldOrder::Rows && nest.vector.is_none())
    {
        return Err(Unsupported("rows summed across"));
    }
    if nest.order.iter().any(|walk| walk.len() > 1) {
        return Err(Unsupported("loops that do not merge"));
    }
    Ok(())
}

/// Vectors in a block.
fn unroll(nest: &Nest) -> usize {
    let Some(vector) = nest.vector else { return 1 };
    let vectors = nest.extent(vector).div_ceil(LANES);
    if nest.folds() && nest.is_reduce(vector) {
        return nest.accumulators(DType::F32).div_ceil(LANES);
    }
    let weight: usize = nest.spec.nodes.iter().map(|n| weight(&n.expr)).sum();
    let has_pairs = nest.spec.nodes.iter().any(|n| n.dtype.size() == 8);
    let most = match weight << u32::from(has_pairs) {
        0..24 => 4,
        24..80 => 2,
        _ => 1,
    };
    match vectors {
        0..4 => 1,
        4..8 => most.min(2),
        _ => most,
    }
}

fn weight(expr: &Expr) -> usize {
    match expr {
        Expr::Unary(Unary::Exp | Unary::Log | Unary::Tanh | Unary::Erf, _) => 16,
        _ => 1,
    }
}

/// The dtype accumulators have: 16-bit floats add up in `f32`.
fn sum_dtype(dtype: DType) -> DType {
    match dtype {
        DType::Bf16 | DType::F16 => DType::F32,
        _ => dtype,
    }
}

fn width(dtype: DType) -> Width {
    match dtype.size() {
        1 => Width::Byte,
        2 => Width::Half,
        8 => Width::Double,
        _ => Width::Word,
    }
}

impl Emitter<'_> {
    fn general(&mut self, op: Op, sources: &[Reg], mem: Option<Mem>) -> Reg {
        let sources: SmallVec<[Source; 2]> = sources.iter().map(|&r| Source::Reg(r)).collect();
        let dst = self.f.reg(Class::General);
        self.f.push(Inst { mem, ..Inst::new(op, Some(dst), &sources) });
        dst
    }

    fn number(&mut self, v: i64) -> Reg {
        self.general(Op::Constant(v), &[], None)
    }

    fn sum(&mut self, base: Reg, index: Option<(Reg, u8)>, disp: i32) -> Reg {
        self.general(Op::Address, &[], Some(Mem { base: Base::Reg(base), index, disp }))
    }

    /// Addresses at the origin, scalar arguments, and what depends on no loop.
    fn prologue(&mut self, arguments: Reg) -> Result<(), Unsupported> {
        let spec = &self.nest.spec;
        let at =
            |i: usize| Some(Mem { base: Base::Reg(arguments), index: None, disp: 8 * i as i32 });
        let buffers: Vec<Reg> =
            (0..spec.buffers.len()).map(|i| self.general(Op::LoadPointer, &[], at(i))).collect();
        let place = |buffer: u16, access: &Access| {
            let (base, size) =
                (buffers[usize::from(buffer)], spec.buffers[usize::from(buffer)].size());
            Place { base, index: None, disp: access.offset * size as i64 }
        };
        for (id, node) in spec.nodes.iter().enumerate() {
            match &node.expr {
                Expr::Load { buffer, access } => self.load_at[id] = Some(place(*buffer, access)),
                Expr::Index(access) => {
                    let base = self.number(access.offset);
                    self.load_at[id] = Some(Place { base, index: None, disp: 0 });
                }
                Expr::Scalar(slot) => {
                    let dst = self.f.reg(Class::Vector);
                    let mem = at(spec.buffers.len() + usize::from(*slot));
                    let op = Op::Splat { wide: node.dtype.size() == 8 };
                    self.f.push(Inst { mem, ..Inst::new(op, Some(dst), &[]) });
                    let v = Source::Reg(dst);
                    self.values[id] = smallvec![match node.dtype {
                        DType::Bool => Value::Mask(self.f.nonzero(v)),
                        DType::F64 | DType::I64 => Value::Pair([v; 2]),
                        _ => Value::Lanes(v),
                    }];
                }
                _ => (),
            }
        }
        self.store_at = spec.stores.iter().map(|s| place(s.buffer, &s.access)).collect();
        if let Some((_, scale)) = self.nest.split_parallel
            && scale > 1
        {
            let scale = i32::try_from(scale).map_err(|_| Unsupported("a huge loop"))?;
            let (low, high) = self.ranges[0];
            self.ranges[0] =
                [low, high].map(|v| self.general(Op::Multiply(scale), &[v], None)).into();
        }
        self.nodes_at(0, Part::Outside)
    }

    /// The loops from position `at` inwards.
    fn nest_from(&mut self, at: usize, part: Part) -> Result<(), Unsupported> {
        if self.nest.first_reduce() == Some(at) {
            self.start_sums(part);
            self.loops_at(at, part)?;
            return self.finish_sums(part);
        }
        self.loops_at(at, part)
    }

    fn loops_at(&mut self, at: usize, part: Part) -> Result<(), Unsupported> {
        if at == self.nest.order.len() {
            return self.leaf(part);
        }
        let (low, high) = self.range(at);
        let index = self.sum(low, None, 0);
        if self.nest.vector != Some(at) {
            return self.counted(at, index, high, 1, |_, _| Ok(part));
        }
        let block = LANES * self.unroll;
        let fixed = !self.is_split(at);
        let extent = self.nest.extent(at);
        if !fixed || extent >= block {
            let last = self.sum(high, None, 1 - block as i32);
            self.counted(at, index, last, block, |_, _| Ok(Part::Block))?;
        }
        if fixed && extent.is_multiple_of(block) {
            return Ok(());
        }
        if !self.nest.is_reduce(at) || self.unroll == 1 {
            return self
                .counted(at, index, high, LANES, |e, i| Ok(Part::Tail(0, e.lanes_left(high, i))));
        }
        // Each vector has its own accumulators.
        let exit = self.f.label();
        for u in 0..self.unroll {
            self.jump(index, high, false, exit);
            let mask = self.lanes_left(high, index);
            self.iteration(at, index, Part::Tail(u, mask))?;
            self.advance(index, LANES);
        }
        self.f.push(Inst::new(Op::Label(exit), None, &[]));
        Ok(())
    }

    fn lanes_left(&mut self, high: Reg, index: Reg) -> Reg {
        let left = self.general(Op::Subtract, &[high, index], None);
        self.f.make_in(Class::Mask, Op::MaskCount, &[Source::Reg(left)])
    }

    fn is_split(&self, at: usize) -> bool {
        self.nest.split_parallel.is_some_and(|(split, _)| split == at)
            || self.nest.split_reduce == Some(at)
    }

    fn range(&mut self, at: usize) -> (Reg, Reg) {
        if self.nest.split_parallel.is_some_and(|(split, _)| split == at) {
            return self.ranges[0];
        }
        if self.nest.split_reduce == Some(at) {
            return self.ranges[1];
        }
        (self.number(0), self.number(self.nest.extent(at) as i64))
    }

    fn jump(&mut self, a: Reg, b: Reg, holds: bool, label: u32) {
        let op = Op::JumpIfLess { holds, label };
        self.f.push(Inst::new(op, None, &[Source::Reg(a), Source::Reg(b)]));
    }

    fn advance(&mut self, index: Reg, by: usize) {
        let mem = Some(Mem { base: Base::Reg(index), index: None, disp: by as i32 });
        self.f.push(Inst { mem, ..Inst::new(Op::Address, Some(index), &[]) });
    }

    /// Iterations while `index` is below `high`.
    fn counted(
        &mut self,
        at: usize,
        index: Reg,
        high: Reg,
        step: usize,
        part: impl FnOnce(&mut Self, Reg) -> Result<Part, Unsupported>,
    ) -> Result<(), Unsupported> {
        let (body, exit) = (self.f.label(), self.f.label());
        self.jump(index, high, false, exit);
        let start = self.f.insts.len();
        self.f.push(Inst::new(Op::Label(body), None, &[]));
        let part = part(self, index)?;
        self.iteration(at, index, part)?;
        self.advance(index, step);
        self.jump(index, high, true, body);
        self.f.loops.push((start, self.f.insts.len()));
        self.f.push(Inst::new(Op::Label(exit), None, &[]));
        Ok(())
    }

    fn iteration(&mut self, at: usize, index: Reg, part: Part) -> Result<(), Unsupported> {
        let saved = (self.load_at.clone(), self.store_at.clone());
        self.step_into(at, index)?;
        if at + 1 == self.nest.order.len() && part == Part::Block {
            // One vector after the other keeps few registers busy; the processor overlaps them.
            for u in 0..self.unroll {
                self.nodes_for(at + 1, part, u)?;
                self.leaf_for(part, u)?;
            }
        } else {
            self.nodes_at(at + 1, part)?;
            self.nest_from(at + 1, part)?;
        }
        (self.load_at, self.store_at) = saved;
        Ok(())
    }

    /// Moves every address along the loop at position `at`.
    fn step_into(&mut self, at: usize, index: Reg) -> Result<(), Unsupported> {
        let spec = &self.nest.spec;
        let mut known = Vec::new();
        for id in 0..spec.nodes.len() {
            let (access, size) = match &spec.nodes[id].expr {
                Expr::Load { buffer, access } => {
                    (access, spec.buffers[usize::from(*buffer)].size())
                }
                Expr::Index(access) => (access, 1),
                _ => continue,
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
    fn step(
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

    /// Which vectors a part has.
    fn vectors(&self, part: Part) -> std::ops::Range<usize> {
        if part == Part::Block { 0..self.unroll } else { 0..1 }
    }

    /// Computes the nodes that stand inside of exactly `depth` loops.
    fn nodes_at(&mut self, depth: usize, part: Part) -> Result<(), Unsupported> {
        self.vectors(part).try_for_each(|u| self.nodes_for(depth, part, u))
    }

    /// Of those, the values for vector `u`; the first brings what is the same for all.
    fn nodes_for(&mut self, depth: usize, part: Part, u: usize) -> Result<(), Unsupported> {
        for id in 0..self.nest.spec.nodes.len() {
            let skip = self.depth[id] != depth
                || matches!(self.nest.spec.nodes[id].expr, Expr::Scalar(_))
                || u > 0 && !self.varying[id];
            if skip {
                continue;
            }
            let value = self.node(id, u, part)?;
            if u == 0 {
                self.values[id].clear();
            }
            self.values[id].push(value);
        }
        Ok(())
    }

    /// Operand `id` for vector `u`.
    fn operand(&self, id: ExprId, u: usize) -> Value {
        let values = &self.values[id.0 as usize];
        values.get(u).copied().unwrap_or(values[0])
    }

    fn node(&mut self, id: usize, u: usize, part: Part) -> Result<Value, Unsupported> {
        let nest = self.nest;
        let node = &nest.spec.nodes[id];
        let dtype_of = |o: ExprId| nest.spec.node(o).dtype;
        match (&node.expr, self.load_at[id]) {
            (Expr::Load { buffer, access }, Some(place)) => {
                self.load(nest.spec.buffers[usize::from(*buffer)], access, place, u, part)
            }
            (Expr::Unary(op, a), _) => {
                let a_value = self.operand(*a, u);
                self.f.unary(*op, dtype_of(*a), a_value)
            }
            (Expr::Binary(op, a, b), _) => {
                let (x, y) = (self.operand(*a, u), self.operand(*b, u));
                self.f.binary(*op, dtype_of(*a), x, y)
            }
            (Expr::Select(c, a, b), _) => {
                let [c, x, y] = [c, a, b].map(|&o| self.operand(o, u));
                self.f.choose(c, x, y)
            }
            (Expr::Cast(a), _) => {
                let v = self.operand(*a, u);
                self.f.cast(dtype_of(*a), node.dtype, v)
            }
            (Expr::Index(access), Some(place)) => self.index(access, place, u, part),
            (Expr::Load { .. } | Expr::Scalar(_) | Expr::Index(_), _) => {
                Err(Unsupported("a value without a place"))
            }
        }
    }

    /// The distance between lanes, in bytes; 0 outside of vectors.
    fn lane_stride(&self, access: &Access, dtype: DType, part: Part) -> i64 {
        match (part, self.nest.vector) {
            (Part::Outside, _) | (_, None) => 0,
            (_, Some(v)) => self.nest.stride(access, v) * dtype.size() as i64,
        }
    }

    fn mem(&self, place: Place, bytes: i64) -> Result<Mem, Unsupported> {
        let disp = i32::try_from(place.disp + bytes).map_err(|_| Unsupported("a huge offset"))?;
        Ok(Mem { base: Base::Reg(place.base), index: place.index, disp })
    }

    fn load(
        &mut self,
        dtype: DType,
        access: &Access,
        place: Place,
        u: usize,
        part: Part,
    ) -> Result<Value, Unsupported> {
        let stride = self.lane_stride(access, dtype, part);
        let mem = self.mem(place, stride * (u * LANES) as i64)?;
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
                narrow => Op::SplatNarrow(narrow),
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

    /// Sixteen elements of eight bytes.
    fn load_pair(&mut self, stride: i64, mem: Mem, part: Part) -> Result<Value, Unsupported> {
        if stride == 0 {
            let dst = self.f.reg(Class::Vector);
            let op = Op::Splat { wide: true };
            self.f.push(Inst { mem: Some(mem), ..Inst::new(op, Some(dst), &[]) });
            return Ok(Value::Pair([Source::Reg(dst); 2]));
        }
        let mut pair = [Source::Wide(0); 2];
        for (half, out) in pair.iter_mut().enumerate() {
            let (mut mem, mut mask) = (half_mem(mem, stride, half)?, self.half_mask(part, half));
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

    /// Which of eight lanes count.
    fn half_mask(&mut self, part: Part, half: usize) -> Option<Reg> {
        match part {
            Part::Tail(_, mask) if half == 1 => Some(self.f.upper(mask)),
            Part::Tail(_, mask) => Some(mask),
            Part::Outside | Part::Block => None,
        }
    }

    fn store_pair(
        &mut self,
        stride: i64,
        mem: Mem,
        value: [Source; 2],
        part: Part,
    ) -> Result<(), Unsupported> {
        for (half, value) in value.into_iter().enumerate() {
            let value = self.f.held(value);
            if part == Part::Outside {
                let mask = Some(self.f.make_in(Class::Mask, Op::MaskFirst, &[]));
                let op = Op::Store(Width::Double);
                self.f.push(Inst { mem: Some(mem), mask, ..Inst::new(op, None, &[value]) });
                return Ok(());
            }
            let (mut mem, mut mask) = (half_mem(mem, stride, half)?, self.half_mask(part, half));
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
    fn index(
        &mut self,
        access: &Access,
        place: Place,
        u: usize,
        part: Part,
    ) -> Result<Value, Unsupported> {
        let stride = match (part, self.nest.vector) {
            (Part::Outside, _) | (_, None) => 0,
            (_, Some(v)) => self.nest.stride(access, v),
        };
        let mem = self.mem(place, stride * (u * LANES) as i64)?;
        let first = self.general(Op::Address, &[], Some(mem));
        let first = self.f.make(Op::SplatGeneral, &[Source::Reg(first)]);
        if stride == 0 {
            return Ok(Value::Pair([first; 2]));
        }
        let ramp = Source::Reg(self.f.constant(Op::WideRamp(stride), &[]));
        let half = stride.wrapping_mul(LANES as i64 / 2) as u64;
        let low = self.f.long_sum(first, ramp);
        Ok(Value::Pair([low, self.f.long_sum(low, Source::Wide(half))]))
    }

    /// The address and the mask (to be used up) of lanes that do not lie side by side.
    fn spread(
        &mut self,
        dtype: DType,
        stride: i64,
        mem: Mem,
        mask: Option<Reg>,
    ) -> Result<(Mem, Reg), Unsupported> {
        let reach = i32::try_from(stride * LANES as i64);
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

    fn store(
        &mut self,
        i: usize,
        store: &Store,
        value: Value,
        u: usize,
        part: Part,
    ) -> Result<(), Unsupported> {
        let dtype = self.nest.spec.buffers[usize::from(store.buffer)];
        let stride = self.lane_stride(&store.access, dtype, part);
        let mem = self.mem(self.store_at[i], stride * (u * LANES) as i64)?;
        if stride == 0 && part != Part::Outside {
            return Err(Unsupported("lanes stored to one place"));
        }
        if let Value::Pair(value) = value {
            return self.store_pair(stride, mem, value, part);
        }
        let value = self.f.stored(dtype, value)?;
        let value = Source::Reg(self.f.register(value));
        let mut mask = if let Part::Tail(_, mask) = part { Some(mask) } else { None };
        if stride == 0 {
            mask = Some(self.f.make_in(Class::Mask, Op::MaskFirst, &[]));
        } else if stride != dtype.size() as i64 {
            let (mem, mask) = self.spread(dtype, stride, mem, mask)?;
            self.f.push(Inst {
                mem: Some(mem),
                mask: Some(mask),
                ..Inst::new(Op::Scatter { wide: false }, None, &[value])
            });
            return Ok(());
        }
        self.f.push(Inst {
            mem: Some(mem),
            mask,
            ..Inst::new(Op::Store(width(dtype)), None, &[value])
        });
        Ok(())
    }

    /// The innermost point: keep values, or add them up.
    fn leaf(&mut self, part: Part) -> Result<(), Unsupported> {
        self.vectors(part).try_for_each(|u| self.leaf_for(part, u))
    }

    fn leaf_for(&mut self, part: Part, u: usize) -> Result<(), Unsupported> {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let value = self.operand(store.value, u);
            match store.fold {
                Some(op) => self.accumulate(op, i, store, value, u, part)?,
                None => self.store(i, store, value, u, part)?,
            }
        }
        Ok(())
    }

    /// Whether vectors walk along what is reduced.
    fn reduces_vectors(&self) -> bool {
        self.nest.vector.is_some_and(|v| self.nest.is_reduce(v))
    }

    /// A value as accumulators hold it.
    fn summand(&mut self, value: Value) -> Value {
        match value {
            Value::Mask(m) => Value::Lanes(self.f.of_mask(m, 1)),
            other => other,
        }
    }

    fn accumulate(
        &mut self,
        op: Binary,
        i: usize,
        store: &Store,
        value: Value,
        u: usize,
        part: Part,
    ) -> Result<(), Unsupported> {
        let dtype = self.nest.spec.node(store.value).dtype;
        let value = self.summand(value);
        let masked = self.reduces_vectors() && matches!(part, Part::Tail(..));
        let at = match part {
            Part::Tail(at, _) if masked => at,
            _ => u,
        };
        let sums = self.sums[i][at % self.sums[i].len()];
        let after = self.combine(op, dtype, held_sum(sums, dtype), value)?;
        let (after, wide): (SmallVec<[Source; 2]>, bool) = match after {
            Value::Pair(pair) => (pair.into_iter().collect(), true),
            Value::Lanes(v) => (smallvec![v], false),
            Value::Mask(_) => return Err(Unsupported("a fold by comparison")),
        };
        for (half, after) in after.into_iter().enumerate() {
            let mask = if masked { self.half_mask(part, half) } else { None };
            let inst = Inst::new(Op::Move { wide }, Some(sums[half]), &[after]);
            self.f.push(Inst { mask, merge: mask.is_some(), ..inst });
        }
        Ok(())
    }

    fn combine(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Value,
        b: Value,
    ) -> Result<Value, Unsupported> {
        let (op, dtype) = match (op, sum_dtype(dtype)) {
            (Binary::Add, DType::Bool) => (Binary::Max, DType::I32),
            (op, DType::Bool) => (op, DType::I32),
            (op, dtype) => (op, dtype),
        };
        self.f.binary(op, dtype, a, b)
    }

    fn start_sums(&mut self, part: Part) {
        let nest = self.nest;
        self.sums.clear();
        for store in &nest.spec.stores {
            let mut sums = SmallVec::new();
            if let Some(op) = store.fold {
                let dtype = sum_dtype(nest.spec.node(store.value).dtype);
                let (identity, wide) = (identity(op, dtype), dtype.size() == 8);
                let across = part == Part::Outside && self.reduces_vectors();
                let n = match across {
                    true => nest.accumulators(dtype).div_ceil(LANES),
                    false => self.vectors(part).len(),
                };
                for _ in 0..n {
                    let sum = [0, 1].map(|_| self.f.reg(Class::Vector));
                    for &half in if wide { &sum[..] } else { &sum[..1] } {
                        self.f.push(Inst::new(Op::Move { wide }, Some(half), &[identity]));
                    }
                    sums.push(sum);
                }
            }
            self.sums.push(sums);
        }
    }

    /// Folds the accumulators and stores the results.
    fn finish_sums(&mut self, part: Part) -> Result<(), Unsupported> {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let Some(op) = store.fold else { continue };
            let dtype = nest.spec.node(store.value).dtype;
            let to = nest.spec.buffers[usize::from(store.buffer)];
            let mut sums: SmallVec<[Value; 4]> =
                self.sums[i].iter().map(|&r| held_sum(r, dtype)).collect();
            if self.reduces_vectors() {
                sums = smallvec![self.fold(op, dtype, &sums)?];
            }
            for (u, sum) in sums.into_iter().enumerate() {
                let value = match (dtype, sum) {
                    (DType::Bool, Value::Lanes(v)) => Value::Mask(self.f.nonzero(v)),
                    _ => sum,
                };
                let value = self.f.cast(sum_dtype(dtype), to, value)?;
                self.store(i, store, value, u, part)?;
            }
        }
        Ok(())
    }

    /// By halves, down to the first lane.
    fn fold(&mut self, op: Binary, dtype: DType, sums: &[Value]) -> Result<Value, Unsupported> {
        let mut total = sums[0];
        for &other in &sums[1..] {
            total = self.combine(op, dtype, total, other)?;
        }
        let n = self.nest.accumulators(sum_dtype(dtype));
        if let Value::Pair([low, high]) = total {
            total = Value::Pair([low; 2]);
            if n == LANES {
                total = self.combine(op, dtype, total, Value::Pair([high; 2]))?;
            }
        }
        // In lanes of four bytes.
        let (mut distance, last) = match total {
            Value::Pair(_) => (n.min(LANES / 2), 1),
            _ => (n.min(LANES) / 2, 0),
        };
        while distance > last {
            let other = match total {
                Value::Pair([v, _]) => Value::Pair([self.f.exchanged(v, distance); 2]),
                Value::Lanes(v) => Value::Lanes(self.f.exchanged(v, distance)),
                Value::Mask(_) => break,
            };
            total = self.combine(op, dtype, total, other)?;
            distance /= 2;
        }
        Ok(total)
    }
}

/// Half of the addresses of sixteen elements `stride` bytes apart.
fn half_mem(mem: Mem, stride: i64, half: usize) -> Result<Mem, Unsupported> {
    let disp = i64::from(mem.disp) + stride * (half * LANES / 2) as i64;
    Ok(Mem { disp: i32::try_from(disp).map_err(|_| Unsupported("a huge offset"))?, ..mem })
}

/// The lanes of an accumulator.
fn held_sum(sum: Sum, dtype: DType) -> Value {
    match dtype.size() {
        8 => Value::Pair(sum.map(Source::Reg)),
        _ => Value::Lanes(Source::Reg(sum[0])),
    }
}

/// What changes nothing when combined.
fn identity(op: Binary, dtype: DType) -> Source {
    let wide = |v: f64, i: i64| match dtype {
        DType::F64 => Source::Wide(v.to_bits()),
        _ => Source::Wide(i as u64),
    };
    match (op, dtype) {
        (Binary::Max, DType::F64 | DType::I64) => wide(f64::NEG_INFINITY, i64::MIN),
        (Binary::Min, DType::F64 | DType::I64) => wide(f64::INFINITY, i64::MAX),
        (_, DType::F64 | DType::I64) => Source::Wide(0),
        (Binary::Max, DType::I32) => Source::Const(i32::MIN as u32),
        (Binary::Min, DType::I32) => Source::Const(i32::MAX as u32),
        (Binary::Min, DType::U8) => Source::Const(255),
        (Binary::Min, DType::Bool) => Source::Const(1),
        (Binary::Max, _) if dtype.is_float() => Source::Const(f32::NEG_INFINITY.to_bits()),
        (Binary::Min, _) if dtype.is_float() => Source::Const(f32::INFINITY.to_bits()),
        _ => Source::Const(0),
    }
}
