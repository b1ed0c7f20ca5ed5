//! Writes a nest as linear code: loops, addresses, and each value in the outermost loop it depends
//! on.
//!
//! The vectorized loop runs in blocks of several vectors and ends with masked vectors. Rows are
//! summed in as many lanes as they have accumulators, columns in one lane each. Refused: powers of
//! integers, sums of strided narrow elements where the number of lanes is known at run time only,
//! and loops that do not merge in short rows or in a part of a reduction that is not its last.

use gt_ir::DType;
use smallvec::{SmallVec, smallvec};

use super::{
    Unsupported,
    ir::{Base, Class, Function, Inst, Mem, Op, Reg, Source},
    isa::Vectors,
    lanes::Value,
};
use crate::kernel::{
    nest::Nest,
    spec::{ACCUMULATORS, Access, Expr, ExprId, FoldOrder, Store, accumulated},
};

/// An accumulator of a vector's lanes; elements of four bytes need the first register only.
pub(super) type Sum = [Reg; 2];

/// A value in each vector handled together, or once for all.
type Values = SmallVec<[Value; 4]>;

/// Which part of the vectorized loop is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// None: values are the same in all lanes.
    Outside,
    /// All vectors of a block.
    Block,
    /// One vector with some lanes left out, in place of the given one of a block.
    Tail(usize, Rest),
}

/// The lanes of a vector that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// So many, as is known when the code is written.
    First(usize),
    Where(Reg),
}

/// How far accumulators turn, in lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    By(usize),
    ByReg(Reg),
}

/// An address or an index at the current position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) base: Reg,
    pub(super) index: Option<(Reg, u8)>,
    pub(super) disp: i64,
}

pub(super) struct Emitter<'n> {
    pub(super) nest: &'n Nest,
    pub(super) f: Function,
    pub(super) depth: Vec<usize>,
    pub(super) varying: Vec<bool>,
    pub(super) unroll: usize,
    /// Whether the vectors of a block share words of memory, and the words that each load has read
    /// last.
    pub(super) by_words: bool,
    pub(super) words: Vec<Source>,
    pub(super) values: Vec<Values>,
    pub(super) load_at: Vec<Option<Place>>,
    pub(super) store_at: Vec<Place>,
    /// Whether a store goes past the caches.
    pub(super) streamed: Vec<bool>,
    /// The accumulators of each store.
    pub(super) sums: Vec<SmallVec<[Sum; 4]>>,
    /// The accumulators' places in the frame, if vectors walk across rows.
    pub(super) rows_at: Vec<i32>,
    /// The index of the innermost loop; in a row of several loops, the number of the element.
    pub(super) along_row: Option<Reg>,
    /// Where accumulators lie in the frame while they turn.
    pub(super) turns_at: i32,
    /// The ranges of the split parallel loop and of the split reduce loop.
    pub(super) ranges: [(Reg, Reg); 2],
}

pub(super) fn emit(nest: &Nest, vectors: Vectors) -> Result<Function, Unsupported> {
    let nest = &nest.loop_by_loop();
    check(nest)?;
    let (depth, varying) = nest.depths();
    let mut f = Function::new(vectors);
    let argument = |f: &mut Function, i: i32| {
        let dst = f.reg(Class::General);
        let mem = Some(Mem { base: Base::Frame, index: None, disp: 8 * i });
        f.push(Inst { mem, ..Inst::new(Op::LoadPointer, Some(dst), &[]) });
        dst
    };
    let arguments = argument(&mut f, 0);
    let ranges = [1, 3].map(|i| (argument(&mut f, i), argument(&mut f, i + 1)));
    let n = nest.spec.nodes.len();
    let unroll = unroll(nest, vectors);
    let mut e = Emitter {
        nest,
        f,
        depth,
        varying,
        unroll,
        by_words: nest.by_words(),
        words: vec![Source::Const(0); n],
        values: vec![Values::new(); n],
        load_at: vec![None; n],
        store_at: Vec::new(),
        streamed: vec![false; nest.spec.stores.len()],
        sums: Vec::new(),
        rows_at: Vec::new(),
        along_row: None,
        turns_at: 0,
        ranges,
    };
    if nest.gathers_rows() {
        e.reserve_rows();
    }
    if nest.row.is_some() {
        e.reserve_turns();
    }
    e.prologue(arguments)?;
    e.streaming_or_not()?;
    e.f.finish();
    Ok(e.f)
}

/// Refuses early what would be refused on the way.
fn check(nest: &Nest) -> Result<(), Unsupported> {
    let spec = &nest.spec;
    if nest.folds() && spec.fold_order == FoldOrder::Rows && nest.vector.is_none() {
        return Err(Unsupported("rows without vectors"));
    }
    if nest.order.iter().any(|walk| walk.len() > 1) {
        return Err(Unsupported("loops that do not merge"));
    }
    let is_short = nest.accumulators(DType::F32) < ACCUMULATORS;
    if nest.row.is_some() && spec.fold_order == FoldOrder::Rows && is_short {
        return Err(Unsupported("few elements in loops that do not merge"));
    }
    Ok(())
}

/// Vectors in a block.
fn unroll(nest: &Nest, vectors: Vectors) -> usize {
    let Some(vector) = nest.vector else { return 1 };
    let lanes = vectors.lanes();
    let n_vectors = nest.extent(vector).div_ceil(lanes);
    if nest.folds() && nest.is_reduce(vector) {
        return nest.accumulators(DType::F32).div_ceil(lanes);
    }
    if nest.spec.accesses().any(|a| !matches!(nest.stride(a, vector), 0 | 1)) {
        return 1; // more lanes far apart would not fit the first cache
    }
    if nest.gathers_rows() {
        return unroll_across(nest, n_vectors, vectors);
    }
    const LONGEST_POLYNOMIAL: u32 = 16;
    let instructions = || nest.spec.nodes.iter().map(|n| n.expr.instructions());
    let has_pairs = nest.spec.nodes.iter().any(|n| n.dtype.size() == 8);
    let most = match instructions().sum::<u32>() << u32::from(has_pairs) {
        // Longer ones call the host for unusual operands.
        _ if instructions().any(|n| n > LONGEST_POLYNOMIAL) => 1,
        0..24 => 4,
        24..80 => 2,
        _ => 1,
    };
    if nest.folds() {
        // Each vector waits for its own sum: twice as many hide that, even where some of the sums
        // do not lie in registers.
        return (nest.extent(vector) / lanes).clamp(1, 2 * most);
    }
    match n_vectors {
        2.. if most == 1 && nest.stores_pairs() => 2,
        2..4 if nest.stores_pairs() => 2,
        0..4 => 1,
        4..8 => most.min(2),
        _ => most,
    }
}

/// Bytes of the accumulators of a block: half of the first cache, so that what is summed passes
/// through the other half.
const ROWS_BLOCK: usize = 16 << 10;

/// Vectors of a block, of as many as a row has: neighbors share lines and pages of what is walked
/// down.
fn unroll_across(nest: &Nest, n_vectors: usize, vectors: Vectors) -> usize {
    let of = |store: &Store| {
        let dtype = accumulated(nest.spec.node(store.value).dtype);
        nest.accumulators(dtype) * bytes(dtype, vectors) as usize
    };
    let folds = nest.spec.stores.iter().filter(|s| s.fold.is_some());
    let fit = ROWS_BLOCK / folds.map(of).sum::<usize>().max(1);
    [4, 2].into_iter().find(|&u| u <= fit && u <= n_vectors).unwrap_or(1)
}

/// Bytes of one accumulator of a vector's lanes.
pub(super) fn bytes(dtype: DType, vectors: Vectors) -> i32 {
    if dtype.size() == 8 { 2 * vectors.bytes() } else { vectors.bytes() }
}

impl Emitter<'_> {
    pub(super) fn general(&mut self, op: Op, sources: &[Reg], mem: Option<Mem>) -> Reg {
        let sources: SmallVec<[Source; 2]> = sources.iter().map(|&r| Source::Reg(r)).collect();
        let dst = self.f.reg(Class::General);
        self.f.push(Inst { mem, ..Inst::new(op, Some(dst), &sources) });
        dst
    }

    pub(super) fn number(&mut self, v: i64) -> Reg {
        self.general(Op::Constant(v), &[], None)
    }

    pub(super) fn sum(&mut self, base: Reg, index: Option<(Reg, u8)>, disp: i32) -> Reg {
        self.general(Op::Address, &[], Some(Mem { base: Base::Reg(base), index, disp }))
    }

    /// Addresses at the origin, scalar arguments, and what depends on no loop.
    pub(super) fn prologue(&mut self, arguments: Reg) -> Result<(), Unsupported> {
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
                        DType::F32 | DType::Bf16 | DType::F16 | DType::I32 | DType::U8 =>
                            Value::Lanes(v),
                    }];
                }
                Expr::Unary(..) | Expr::Binary(..) | Expr::Select(..) | Expr::Cast(_) => (),
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
    pub(super) fn nest_from(&mut self, at: usize, part: Part) -> Result<(), Unsupported> {
        if self.nest.first_reduce() == Some(at) {
            self.start_sums(part)?;
            self.loops_at(at, part)?;
            return self.finish_sums(part);
        }
        self.loops_at(at, part)
    }

    pub(super) fn loops_at(&mut self, at: usize, part: Part) -> Result<(), Unsupported> {
        if at == self.nest.order.len() {
            return self.leaf(part);
        }
        if self.nest.row == Some(at) {
            return if self.is_split(at) {
                self.part_of_row(at, part)
            } else {
                self.whole_row(at, part)
            };
        }
        let range = self.range(at);
        self.loop_over(at, range, !self.is_split(at), part)
    }

    /// The loop at position `at` over a range, which is `fixed` if it is the whole loop.
    pub(super) fn loop_over(
        &mut self,
        at: usize,
        (low, high): (Reg, Reg),
        fixed: bool,
        part: Part,
    ) -> Result<(), Unsupported> {
        self.iterations(at, (low, high), fixed, part)?;
        if self.turns_after(at) {
            let turn = match fixed {
                true => Turn::By(self.nest.extent(at)),
                false => Turn::ByReg(self.general(Op::Subtract, &[high, low], None)),
            };
            self.turn(turn);
        }
        Ok(())
    }

    fn iterations(
        &mut self,
        at: usize,
        (low, high): (Reg, Reg),
        fixed: bool,
        part: Part,
    ) -> Result<(), Unsupported> {
        let index = self.sum(low, None, 0);
        if self.nest.vector != Some(at) {
            return self.counted(at, index, high, 1, |_, _| Ok(part));
        }
        let lanes = self.f.vectors.lanes();
        let block = lanes * self.unroll;
        let extent = self.nest.extent(at);
        if !fixed || extent >= block {
            let last = self.sum(high, None, 1 - block as i32);
            self.counted(at, index, last, block, |_, _| Ok(Part::Block))?;
        }
        if fixed {
            return self.rest(at, index, extent % block);
        }
        if !self.nest.is_reduce(at) || self.unroll == 1 {
            self.smaller_blocks(at, (index, high))?;
            if self.moves_narrow_apart(at) {
                let one = Part::Tail(0, Rest::First(1)); // a mask cannot leave out the others
                return self.counted(at, index, high, 1, |_, _| Ok(one));
            }
            let rest = |e: &mut Self, i| Ok(Part::Tail(0, e.lanes_left(high, i)));
            return self.counted(at, index, high, lanes, rest);
        }
        // Each vector has its own accumulators.
        let exit = self.f.label();
        for u in 0..self.unroll {
            self.jump(index, high, false, exit);
            let rest = self.lanes_left(high, index);
            self.iteration(at, index, Part::Tail(u, rest))?;
            self.advance(index, lanes);
        }
        self.f.push(Inst::new(Op::Label(exit), None, &[]));
        Ok(())
    }

    /// Whether narrow elements do not lie side by side along a loop.
    fn moves_narrow_apart(&self, at: usize) -> bool {
        let (nest, spec) = (self.nest, &self.nest.spec);
        let stores = spec.stores.iter().map(|s| (s.buffer, &s.access));
        spec.loads().chain(stores).any(|(buffer, access)| {
            let is_narrow = spec.buffers[usize::from(buffer)].size() < 4;
            is_narrow && !matches!(nest.stride(access, at), 0 | 1)
        })
    }

    /// A block of half as many vectors, and so on: where vectors wait for sums of their own, few at
    /// a time take as long as many.
    fn smaller_blocks(&mut self, at: usize, (index, high): (Reg, Reg)) -> Result<(), Unsupported> {
        if !self.nest.folds() || self.nest.gathers_rows() {
            return Ok(());
        }
        let unroll = self.unroll;
        while self.unroll > 3 {
            self.unroll /= 2;
            let len = self.f.vectors.lanes() * self.unroll;
            let (last, skip) = (self.sum(high, None, 1 - len as i32), self.f.label());
            self.jump(index, last, false, skip);
            self.iteration(at, index, Part::Block)?;
            self.advance(index, len);
            self.f.push(Inst::new(Op::Label(skip), None, &[]));
        }
        self.unroll = unroll;
        Ok(())
    }

    /// The last iterations of a loop whose extent is known: whole vectors, then some lanes of one.
    fn rest(&mut self, at: usize, index: Reg, n: usize) -> Result<(), Unsupported> {
        let lanes = self.f.vectors.lanes();
        let (n_whole, n_left) = (n / lanes, n % lanes);
        if n_whole > 0 {
            let unroll = std::mem::replace(&mut self.unroll, n_whole);
            self.iteration(at, index, Part::Block)?;
            self.unroll = unroll;
            self.advance(index, n_whole * lanes);
        }
        if n_left > 0 {
            self.iteration(at, index, Part::Tail(n_whole, Rest::First(n_left)))?;
        }
        Ok(())
    }

    pub(super) fn lanes_left(&mut self, high: Reg, index: Reg) -> Rest {
        let left = self.general(Op::Subtract, &[high, index], None);
        Rest::Where(self.f.make_in(Class::Mask, Op::MaskCount, &[Source::Reg(left)]))
    }

    pub(super) fn mask(&mut self, rest: Rest) -> Reg {
        match rest {
            Rest::First(n) => self.f.constant(Op::MaskOf(n), &[]),
            Rest::Where(mask) => mask,
        }
    }

    pub(super) fn is_split(&self, at: usize) -> bool {
        self.nest.split_parallel.is_some_and(|(split, _)| split == at)
            || self.nest.split_reduce == Some(at)
    }

    pub(super) fn range(&mut self, at: usize) -> (Reg, Reg) {
        if self.nest.split_parallel.is_some_and(|(split, _)| split == at) {
            return self.ranges[0];
        }
        if self.nest.split_reduce == Some(at) {
            return self.ranges[1];
        }
        (self.number(0), self.number(self.nest.extent(at) as i64))
    }

    pub(super) fn jump(&mut self, a: Reg, b: Reg, holds: bool, label: u32) {
        let op = Op::JumpIfLess { holds, label };
        self.f.push(Inst::new(op, None, &[Source::Reg(a), Source::Reg(b)]));
    }

    pub(super) fn advance(&mut self, index: Reg, by: usize) {
        let mem = Some(Mem { base: Base::Reg(index), index: None, disp: by as i32 });
        self.f.push(Inst { mem, ..Inst::new(Op::Address, Some(index), &[]) });
    }

    /// Iterations while `index` is below `high`.
    pub(super) fn counted(
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

    pub(super) fn iteration(
        &mut self,
        at: usize,
        index: Reg,
        part: Part,
    ) -> Result<(), Unsupported> {
        let saved = (self.load_at.clone(), self.store_at.clone());
        let along = self.along(at, index)?;
        let outer = self.along_row.replace(along);
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
        self.along_row = outer;
        Ok(())
    }

    /// The number of an element of a row, or of an innermost loop of it.
    fn along(&mut self, at: usize, index: Reg) -> Result<Reg, Unsupported> {
        match (self.nest.row, self.along_row) {
            (Some(row), Some(outer)) if at > row && self.nest.gathers_rows() => {
                let before = self.multiplied(outer, self.nest.extent(at))?;
                Ok(self.sum(before, Some((index, 1)), 0))
            }
            _ => Ok(index),
        }
    }

    /// Which vectors a part has.
    pub(super) fn vectors(&self, part: Part) -> std::ops::Range<usize> {
        if part == Part::Block { 0..self.unroll } else { 0..1 }
    }

    /// Computes the nodes that stand inside of exactly `depth` loops.
    pub(super) fn nodes_at(&mut self, depth: usize, part: Part) -> Result<(), Unsupported> {
        self.vectors(part).try_for_each(|u| self.nodes_for(depth, part, u))
    }

    /// The values of these nodes for vector `u`; the first vector makes the values that all share.
    pub(super) fn nodes_for(
        &mut self,
        depth: usize,
        part: Part,
        u: usize,
    ) -> Result<(), Unsupported> {
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
    pub(super) fn operand(&self, id: ExprId, u: usize) -> Value {
        let values = &self.values[id.0 as usize];
        values.get(u).copied().unwrap_or(values[0])
    }

    pub(super) fn node(&mut self, id: usize, u: usize, part: Part) -> Result<Value, Unsupported> {
        let nest = self.nest;
        let node = &nest.spec.nodes[id];
        let dtype_of = |o: ExprId| nest.spec.node(o).dtype;
        match (&node.expr, self.load_at[id]) {
            (Expr::Load { buffer, access }, Some(place)) => {
                if let Some(half) = self.load_half(id, place, (part, u))? {
                    return Ok(half);
                }
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
            (Expr::Index(access), Some(place)) => self.index(node.dtype, access, place, u, part),
            (Expr::Load { .. } | Expr::Scalar(_) | Expr::Index(_), _) => {
                Err(Unsupported("a value without a place"))
            }
        }
    }

    /// The innermost point: keep values, or add them up.
    pub(super) fn leaf(&mut self, part: Part) -> Result<(), Unsupported> {
        self.vectors(part).try_for_each(|u| self.leaf_for(part, u))
    }

    pub(super) fn leaf_for(&mut self, part: Part, u: usize) -> Result<(), Unsupported> {
        if self.shares_words(part, u) {
            return if u % 2 == 1 { self.store_pair(u) } else { Ok(()) };
        }
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let value = self.operand(store.value, u);
            match store.fold {
                Some(op) => self.accumulate(op, i, store, value, u, part)?,
                None if self.fills_line(i, (part, u)) => {
                    if u % 2 == 1 {
                        self.stream_line(i, u)?;
                    }
                }
                None => self.store(i, store, value, u, part)?,
            }
        }
        Ok(())
    }
}
