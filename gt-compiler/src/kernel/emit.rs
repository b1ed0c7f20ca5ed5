//! Writes a nest as one function of Cranelift IR: `fn(args, p_lo, p_hi, r_lo, r_hi, host)`.
//!
//! `args` points to the buffer addresses followed by the scalar slots, eight bytes each; the two ranges bound the split loops;
//! `host` is the table of the host's functions. Values are
//! computed in the outermost loop they depend on. The vectorized loop runs in blocks of `lanes * unroll` elements and finishes element by
//! element through the same formulas. The accumulators of rows lie on the stack, where blocks and single elements find them by position;
//! those of columns are registers. It does not choose anything: that is `nest`'s work.

use cranelift_codegen::ir::{
    BlockArg, InstBuilder, StackSlotData, StackSlotKind, Type as Clif, Value, condcodes::IntCC,
    types,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use gt_ir::DType;
use smallvec::{SmallVec, smallvec};

use super::{
    formulas::Formulas,
    lanes::{Lanes, MEMORY, Target, scalar_type},
    nest::Nest,
    spec::{Access, Binary, Expr, ExprId, FoldOrder, Store},
};

/// The values of one node: one for each vector handled together, or one scalar.
type Regs = SmallVec<[Value; 4]>;

/// Whether code is for whole blocks of the vectorized loop or for single elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Block,
    Single,
}

/// An operation no register can do: the spec is malformed.
#[derive(Debug)]
pub(super) struct Unsupported(pub(super) String);

pub(super) fn emit(
    b: &mut FunctionBuilder<'_>,
    nest: &Nest,
    target: Target,
) -> Result<(), Unsupported> {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    b.seal_block(entry);
    let params: SmallVec<[Value; 6]> = b.block_params(entry).iter().copied().collect();
    let (depth, varying) = nest.depths();
    let n = nest.spec.nodes.len();
    let mut emitter = Emitter {
        b,
        nest,
        target: Target { host: Some(params[5]), ..target },
        ranges: [(params[1], params[2]), (params[3], params[4])],
        depth,
        varying,
        values: vec![Regs::new(); n],
        splats: vec![None; n],
        load_at: vec![None; n],
        store_at: Vec::new(),
        sums: Vec::new(),
        along_row: None,
    };
    emitter.scale_range();
    emitter.prologue(params[0])?;
    emitter.nest_from(0, Mode::Single)?;
    emitter.b.ins().return_(&[]);
    Ok(())
}

struct Emitter<'e, 'f> {
    b: &'e mut FunctionBuilder<'f>,
    nest: &'e Nest,
    target: Target,
    /// Of the split parallel and the split reduce loop.
    ranges: [(Value, Value); 2],
    /// For each node, how many loops (in running order) it stands inside of.
    depth: Vec<usize>,
    /// Whether a node changes along the vectorized loop.
    varying: Vec<bool>,
    values: Vec<Regs>,
    /// Loop-invariant values spread over the lanes, made where the value is.
    splats: Vec<Option<Value>>,
    /// The address (or index) of each load and store at the current position.
    load_at: Vec<Option<Value>>,
    store_at: Vec<Value>,
    /// Accumulators of each store.
    sums: Vec<Sum>,
    /// The index of the innermost walk.
    along_row: Option<Value>,
}

/// The accumulators of one store.
#[derive(Clone)]
enum Sum {
    /// It keeps every value.
    None,
    /// One for each result: of a block or of a single element.
    Registers(SmallVec<[Variable; 4]>),
    /// Several for each result, where the address says; those of a block lie together.
    Stack(Value),
}

/// The dtype accumulators have: 16-bit floats add up in `f32`.
fn sum_dtype(dtype: DType) -> DType {
    match dtype {
        DType::Bf16 | DType::F16 => DType::F32,
        DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => dtype,
    }
}

impl<'f> Emitter<'_, 'f> {
    fn lanes(&mut self, mode: Mode) -> Lanes<'_, 'f> {
        let lanes = if mode == Mode::Block { self.nest.lanes } else { 1 };
        Lanes { b: self.b, lanes, target: self.target }
    }

    fn block_len(&self) -> usize {
        self.nest.lanes * self.nest.unroll
    }

    fn unroll(&self, mode: Mode) -> usize {
        if mode == Mode::Block { self.nest.unroll } else { 1 }
    }

    /// The parallel range, in iterations of its walk.
    fn scale_range(&mut self) {
        let (low, high) = self.ranges[0];
        if let Some((_, scale)) = self.nest.split_parallel
            && scale > 1
        {
            self.ranges[0] = [low, high].map(|v| self.b.ins().imul_imm_s(v, scale as i64)).into();
        }
    }

    /// Addresses at the origin, scalar arguments, and what depends on no loop.
    fn prologue(&mut self, args: Value) -> Result<(), Unsupported> {
        let spec = &self.nest.spec;
        let buffers: Vec<Value> = (0..spec.buffers.len())
            .map(|i| self.b.ins().load(types::I64, MEMORY, args, 8 * i as i32))
            .collect();
        for (id, node) in spec.nodes.iter().enumerate() {
            match &node.expr {
                Expr::Load { buffer, access } => {
                    let bytes = access.offset * spec.buffers[usize::from(*buffer)].size() as i64;
                    self.load_at[id] =
                        Some(self.b.ins().iadd_imm_s(buffers[usize::from(*buffer)], bytes));
                }
                Expr::Index(access) => {
                    self.load_at[id] = Some(self.b.ins().iconst(types::I64, access.offset))
                }
                Expr::Scalar(slot) => {
                    let at = 8 * (spec.buffers.len() as i32 + i32::from(*slot));
                    let value = self.b.ins().load(scalar_type(node.dtype), MEMORY, args, at);
                    self.values[id] = smallvec![value];
                }
                Expr::Unary(..) | Expr::Binary(..) | Expr::Select(..) | Expr::Cast(_) => (),
            }
        }
        for store in &spec.stores {
            let bytes = store.access.offset * spec.buffers[usize::from(store.buffer)].size() as i64;
            let at = self.b.ins().iadd_imm_s(buffers[usize::from(store.buffer)], bytes);
            self.store_at.push(at);
        }
        self.nodes_at(0, Mode::Single)
    }

    /// The loops from position `at` inwards.
    fn nest_from(&mut self, at: usize, mode: Mode) -> Result<(), Unsupported> {
        if self.nest.first_reduce() == Some(at) {
            self.start_sums(mode);
            self.loops_at(at, mode)?;
            return self.finish_sums(mode);
        }
        self.loops_at(at, mode)
    }

    fn loops_at(&mut self, at: usize, mode: Mode) -> Result<(), Unsupported> {
        if at == self.nest.order.len() {
            return self.leaf(mode);
        }
        let (low, high) = self.range(at);
        if self.nest.vector != Some(at) || self.block_len() == 1 {
            return self.counted(at, (low, high), 1, mode);
        }
        let len = self.b.ins().isub(high, low);
        let mask = -(self.block_len() as i64);
        let whole = self.b.ins().band_imm_s(len, mask);
        let middle = self.b.ins().iadd(low, whole);
        self.counted(at, (low, middle), self.block_len(), Mode::Block)?;
        self.counted(at, (middle, high), 1, Mode::Single)
    }

    fn range(&mut self, at: usize) -> (Value, Value) {
        if self.nest.split_parallel.is_some_and(|(split, _)| split == at) {
            return self.ranges[0];
        }
        if self.nest.split_reduce == Some(at) {
            return self.ranges[1];
        }
        let extent = self.nest.extent(at) as i64;
        (self.b.ins().iconst(types::I64, 0), self.b.ins().iconst(types::I64, extent))
    }

    fn counted(
        &mut self,
        at: usize,
        (low, high): (Value, Value),
        step: usize,
        mode: Mode,
    ) -> Result<(), Unsupported> {
        let (body, exit) = (self.b.create_block(), self.b.create_block());
        let index = self.b.append_block_param(body, types::I64);
        let any = self.b.ins().icmp(IntCC::SignedLessThan, low, high);
        self.b.ins().brif(any, body, &[BlockArg::Value(low)], exit, &[]);
        self.b.switch_to_block(body);
        let saved = (self.load_at.clone(), self.store_at.clone(), self.along_row);
        self.along_row = Some(index);
        self.step_into(at, index);
        self.nodes_at(at + 1, mode)?;
        self.nest_from(at + 1, mode)?;
        (self.load_at, self.store_at, self.along_row) = saved;
        let next = self.b.ins().iadd_imm_s(index, step as i64);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, high);
        self.b.ins().brif(more, body, &[BlockArg::Value(next)], exit, &[]);
        self.b.seal_block(body);
        self.b.switch_to_block(exit);
        self.b.seal_block(exit);
        Ok(())
    }

    /// Moves every address along the walk at position `at`.
    fn step_into(&mut self, at: usize, index: Value) {
        let walk = &self.nest.order[at];
        let mut rest = index;
        for (i, &l) in walk.iter().enumerate() {
            let inner: usize =
                walk[i + 1..].iter().map(|&l| self.nest.spec.loops[l].extent).product();
            if inner <= 1 {
                self.step_along(l, rest); // also of an empty walk, which takes no steps
                continue;
            }
            let own = self.b.ins().udiv_imm_u(rest, inner as i64);
            self.step_along(l, own);
            let before = self.b.ins().imul_imm_s(own, inner as i64);
            rest = self.b.ins().isub(rest, before);
        }
    }

    /// Moves every address along loop `l`.
    fn step_along(&mut self, l: usize, index: Value) {
        let nest = self.nest;
        for (id, node) in nest.spec.nodes.iter().enumerate() {
            let (access, size) = match &node.expr {
                Expr::Load { buffer, access } => {
                    (access, nest.spec.buffers[usize::from(*buffer)].size())
                }
                Expr::Index(access) => (access, 1),
                Expr::Scalar(_)
                | Expr::Unary(..)
                | Expr::Binary(..)
                | Expr::Select(..)
                | Expr::Cast(_) => continue,
            };
            if let Some(base) = self.load_at[id] {
                self.load_at[id] = Some(self.advance(base, index, access.strides[l] * size as i64));
            }
        }
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let size = nest.spec.buffers[usize::from(store.buffer)].size() as i64;
            self.store_at[i] =
                self.advance(self.store_at[i], index, store.access.strides[l] * size);
        }
    }

    fn advance(&mut self, base: Value, index: Value, stride: i64) -> Value {
        if stride == 0 {
            return base;
        }
        let distance = match stride.unsigned_abs().is_power_of_two() && stride > 0 {
            true => self.b.ins().ishl_imm_s(index, i64::from(stride.trailing_zeros())),
            false => self.b.ins().imul_imm_s(index, stride),
        };
        self.b.ins().iadd(base, distance)
    }

    /// Computes the nodes that stand inside of exactly `depth` loops.
    fn nodes_at(&mut self, depth: usize, mode: Mode) -> Result<(), Unsupported> {
        for id in (0..self.nest.spec.nodes.len())
            .filter(|&id| self.depth[id] == depth)
            .collect::<Vec<_>>()
        {
            if mode == Mode::Block && self.varying[id] {
                let regs: Result<Regs, Unsupported> =
                    (0..self.nest.unroll).map(|u| self.node(id, u, mode)).collect();
                self.values[id] = regs?;
            } else {
                let value = self.node(id, 0, Mode::Single)?;
                self.values[id] = smallvec![value];
                self.splats[id] =
                    (self.nest.lanes > 1 && mode == Mode::Single && !self.varying[id]
                        || mode == Mode::Block)
                        .then(|| self.splat(id, value));
            }
        }
        Ok(())
    }

    fn splat(&mut self, id: usize, value: Value) -> Value {
        let dtype = self.nest.spec.nodes[id].dtype;
        let fits = match self.nest.lanes {
            2 => matches!(dtype, DType::F64 | DType::I64 | DType::Bool),
            4 => !matches!(dtype, DType::F64 | DType::I64),
            _ => true,
        };
        // A value of another width never meets vectors directly: `nest::lanes` looked at all that do.
        if fits { self.lanes(Mode::Block).splat(dtype, value) } else { value }
    }

    /// The register of operand `id` for vector `u`.
    fn operand(&self, id: ExprId, u: usize, mode: Mode) -> Value {
        let id = id.0 as usize;
        match mode {
            Mode::Block if self.varying[id] => self.values[id][u],
            Mode::Block => self.splats[id].unwrap_or(self.values[id][0]),
            Mode::Single => self.values[id][0],
        }
    }

    fn node(&mut self, id: usize, u: usize, mode: Mode) -> Result<Value, Unsupported> {
        let nest = self.nest;
        let node = &nest.spec.nodes[id];
        let dtype_of = |o: ExprId| nest.spec.node(o).dtype;
        let at = self.load_at[id];
        let value = match (&node.expr, at) {
            (Expr::Load { buffer, access }, Some(at)) => {
                Some(self.load(nest.spec.buffers[usize::from(*buffer)], access, at, u, mode))
            }
            (Expr::Index(access), Some(at)) => Some(self.index(access, at, u, mode)),
            (Expr::Load { .. } | Expr::Index(_), None) => None,
            (Expr::Scalar(_), _) => Some(self.values[id][0]),
            (Expr::Unary(op, a), _) => {
                let v = self.operand(*a, u, mode);
                self.lanes(mode).unary(*op, dtype_of(*a), v)
            }
            (Expr::Binary(op, a, b), _) => {
                let (x, y) = (self.operand(*a, u, mode), self.operand(*b, u, mode));
                self.lanes(mode).binary_or_call(*op, dtype_of(*a), x, y)
            }
            (Expr::Select(c, a, b), _) => {
                let [c, x, y] = [c, a, b].map(|&o| self.operand(o, u, mode));
                Some(self.lanes(mode).select(c, x, y))
            }
            (Expr::Cast(a), _) => {
                let v = self.operand(*a, u, mode);
                Some(self.lanes(mode).cast(dtype_of(*a), node.dtype, v))
            }
        };
        value.ok_or_else(|| Unsupported(format!("{:?} on {}", node.expr, node.dtype)))
    }

    fn vector_stride(&self, access: &Access) -> i64 {
        self.nest.vector.map_or(0, |v| self.nest.stride(access, v))
    }

    fn load(&mut self, dtype: DType, access: &Access, at: Value, u: usize, mode: Mode) -> Value {
        let (lanes, size) = (self.nest.lanes, dtype.size() as i64);
        if mode == Mode::Single {
            return self.lanes(mode).load(dtype, at, 0);
        }
        let stride = self.vector_stride(access) * size;
        let (at, offset) = self.displace(at, stride * (u * lanes) as i64);
        if stride == size {
            return self.lanes(mode).load(dtype, at, offset);
        }
        let elements: Regs = (0..lanes)
            .map(|lane| {
                let (at, offset) = self.displace(at, i64::from(offset) + stride * lane as i64);
                self.lanes(Mode::Single).load(dtype, at, offset)
            })
            .collect();
        self.lanes(mode).pack(dtype, &elements)
    }

    /// An address and an offset that fits an instruction.
    fn displace(&mut self, at: Value, bytes: i64) -> (Value, i32) {
        match i32::try_from(bytes) {
            Ok(offset) if offset.unsigned_abs() < 1 << 30 => (at, offset),
            _ => (self.b.ins().iadd_imm_s(at, bytes), 0),
        }
    }

    fn index(&mut self, access: &Access, at: Value, u: usize, mode: Mode) -> Value {
        if mode == Mode::Single {
            return at;
        }
        let (lanes, stride) = (self.nest.lanes, self.vector_stride(access));
        let elements: Regs = (0..lanes)
            .map(|lane| self.b.ins().iadd_imm_s(at, stride * (u * lanes + lane) as i64))
            .collect();
        self.lanes(mode).pack(DType::I64, &elements)
    }

    /// The innermost point: keep values, or add them up.
    fn leaf(&mut self, mode: Mode) -> Result<(), Unsupported> {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            for u in 0..self.unroll(mode) {
                let value = self.operand(store.value, u, mode);
                match store.fold {
                    Some(op) => self.accumulate(op, i, store, value, u, mode)?,
                    None => self.store(i, store, value, u, mode),
                }
            }
        }
        Ok(())
    }

    fn accumulate(
        &mut self,
        op: Binary,
        i: usize,
        store: &Store,
        value: Value,
        u: usize,
        mode: Mode,
    ) -> Result<(), Unsupported> {
        let dtype = sum_dtype(self.nest.spec.node(store.value).dtype);
        match self.sums[i] {
            Sum::None => (),
            Sum::Registers(ref variables) => {
                let variable = variables[u];
                let before = self.b.use_var(variable);
                let after = self.combine(op, dtype, before, value, mode)?;
                self.b.def_var(variable, after);
            }
            Sum::Stack(base) => {
                let at = self.accumulator(base, dtype, mode);
                let offset = (u * self.block_lanes(mode) * dtype.size()) as i32;
                let before = self.lanes(mode).load(dtype, at, offset);
                let after = self.combine(op, dtype, before, value, mode)?;
                self.lanes(mode).store(dtype, after, at, offset);
            }
        }
        Ok(())
    }

    /// Where the accumulators are that the elements at this position of the row go to.
    fn accumulator(&mut self, base: Value, dtype: DType, mode: Mode) -> Value {
        let Some(index) = self.along_row else { return base };
        let n = self.nest.accumulators(dtype) as i64;
        let position = self.b.ins().band_imm_s(index, n - 1);
        self.advance(base, position, (self.width(mode) * dtype.size()) as i64)
    }

    fn block_lanes(&self, mode: Mode) -> usize {
        if mode == Mode::Block { self.nest.lanes } else { 1 }
    }

    /// How many rows are summed together.
    fn width(&self, mode: Mode) -> usize {
        if self.nest.gathers_rows() && mode == Mode::Block { self.block_len() } else { 1 }
    }

    fn combine(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Value,
        b: Value,
        mode: Mode,
    ) -> Result<Value, Unsupported> {
        self.lanes(mode)
            .binary(op, dtype, a, b)
            .ok_or_else(|| Unsupported(format!("reduction by {op:?} of {dtype}")))
    }

    fn store(&mut self, i: usize, store: &Store, value: Value, u: usize, mode: Mode) {
        let dtype = self.nest.spec.buffers[usize::from(store.buffer)];
        let at = self.store_at[i];
        if mode == Mode::Single {
            return self.lanes(mode).store(dtype, value, at, 0);
        }
        let (lanes, size) = (self.nest.lanes, dtype.size() as i64);
        let stride = self.vector_stride(&store.access) * size;
        let (at, offset) = self.displace(at, stride * (u * lanes) as i64);
        if stride == size {
            return self.lanes(mode).store(dtype, value, at, offset);
        }
        for lane in 0..lanes {
            let element = self.lanes(mode).extract(dtype, value, lane);
            let (at, offset) = self.displace(at, i64::from(offset) + stride * lane as i64);
            self.lanes(Mode::Single).store(dtype, element, at, offset);
        }
    }

    fn start_sums(&mut self, mode: Mode) {
        let nest = self.nest;
        self.sums.clear();
        for store in &nest.spec.stores {
            let Some(op) = store.fold else {
                self.sums.push(Sum::None);
                continue;
            };
            let dtype = sum_dtype(nest.spec.node(store.value).dtype);
            let initial = self.identity(op, dtype);
            let sum = match nest.spec.fold_order {
                FoldOrder::Rows => self.start_stack(dtype, initial, mode),
                FoldOrder::Columns => {
                    let initial = self.lanes(mode).splat(dtype, initial);
                    let ty = self.lanes(mode).reg(dtype);
                    let n = self.unroll(mode);
                    Sum::Registers((0..n).map(|_| self.variable(ty, initial)).collect())
                }
            };
            self.sums.push(sum);
        }
    }

    fn start_stack(&mut self, dtype: DType, initial: Value, mode: Mode) -> Sum {
        let n = self.nest.accumulators(dtype) * self.width(mode);
        let bytes = (n * dtype.size()) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
        let slot = self.b.create_sized_stack_slot(slot);
        let base = self.b.ins().stack_addr(types::I64, slot, 0);
        let lanes = vector_lanes(dtype, n);
        let mut l = Lanes { b: self.b, lanes, target: self.target };
        let value = l.splat(dtype, initial);
        for i in (0..n).step_by(lanes) {
            l.store(dtype, value, base, (i * dtype.size()) as i32);
        }
        Sum::Stack(base)
    }

    fn variable(&mut self, ty: Clif, initial: Value) -> Variable {
        let variable = self.b.declare_var(ty);
        self.b.def_var(variable, initial);
        variable
    }

    /// The value that changes nothing when combined.
    fn identity(&mut self, op: Binary, dtype: DType) -> Value {
        let (float, int): (f64, i64) = match (op, dtype) {
            (Binary::Max, DType::I64) => (0.0, i64::MIN),
            (Binary::Min, DType::I64) => (0.0, i64::MAX),
            (Binary::Max, DType::I32) => (0.0, i64::from(i32::MIN)),
            (Binary::Min, DType::I32) => (0.0, i64::from(i32::MAX)),
            (Binary::Min, DType::U8) => (0.0, 255),
            (Binary::Min, DType::Bool) => (0.0, 1),
            (Binary::Max, _) => (f64::NEG_INFINITY, 0),
            (Binary::Min, _) => (f64::INFINITY, 0),
            _ => (0.0, 0),
        };
        match scalar_type(dtype) {
            types::F32 => self.b.ins().f32const(float as f32),
            types::F64 => self.b.ins().f64const(float),
            ty => self.b.ins().iconst(ty, int),
        }
    }

    /// Folds the accumulators and stores the results.
    fn finish_sums(&mut self, mode: Mode) -> Result<(), Unsupported> {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let Some(op) = store.fold else { continue };
            let from = nest.spec.node(store.value).dtype;
            let dtype = sum_dtype(from);
            let to = nest.spec.buffers[usize::from(store.buffer)];
            for u in 0..self.unroll(mode) {
                let value = match self.sums[i] {
                    Sum::None => continue,
                    Sum::Registers(ref variables) => self.b.use_var(variables[u]),
                    Sum::Stack(base) if self.width(mode) > 1 => {
                        self.fold_rows(op, dtype, base, u)?
                    }
                    Sum::Stack(base) => self.fold_row(op, dtype, base)?,
                };
                let value = self.lanes(mode).cast(dtype, to, value);
                self.store(i, store, value, u, mode);
            }
        }
        Ok(())
    }

    /// Folds the accumulators of a block of rows by halves, in place.
    fn fold_rows(
        &mut self,
        op: Binary,
        dtype: DType,
        base: Value,
        u: usize,
    ) -> Result<Value, Unsupported> {
        let (row, own) = (self.block_len() * dtype.size(), u * self.nest.lanes * dtype.size());
        let mut half = self.nest.accumulators(dtype) / 2;
        while half > 0 {
            for j in 0..half {
                let at = [j, j + half].map(|j| (j * row + own) as i32);
                let [a, b] = at.map(|at| self.lanes(Mode::Block).load(dtype, base, at));
                let sum = self.combine(op, dtype, a, b, Mode::Block)?;
                self.lanes(Mode::Block).store(dtype, sum, base, at[0]);
            }
            half /= 2;
        }
        Ok(self.lanes(Mode::Block).load(dtype, base, own as i32))
    }

    /// Folds the accumulators of one row by halves.
    fn fold_row(&mut self, op: Binary, dtype: DType, base: Value) -> Result<Value, Unsupported> {
        let n = self.nest.accumulators(dtype);
        let lanes = vector_lanes(dtype, n);
        let unsupported = || Unsupported(format!("reduction by {op:?} of {dtype}"));
        let mut l = Lanes { b: self.b, lanes, target: self.target };
        let load = |i: usize| l.load(dtype, base, (i * lanes * dtype.size()) as i32);
        let mut vectors: Vec<Value> = (0..n / lanes).map(load).collect();
        halve(&mut vectors, |a, b| l.binary(op, dtype, a, b)).ok_or_else(unsupported)?;
        let mut elements: Vec<Value> =
            (0..lanes).map(|i| l.extract(dtype, vectors[0], i)).collect();
        let mut l = Lanes { b: self.b, lanes: 1, target: self.target };
        halve(&mut elements, |a, b| l.binary(op, dtype, a, b)).ok_or_else(unsupported)?;
        Ok(elements[0])
    }
}

/// Lanes of the widest vector of a dtype, among `n` elements.
fn vector_lanes(dtype: DType, n: usize) -> usize {
    let lanes = if dtype.size() == 8 { 2 } else { 4 };
    if n < lanes { 1 } else { lanes }
}

/// Combines the upper half of a power of two of values with the lower until one is left.
fn halve(
    values: &mut Vec<Value>,
    mut combine: impl FnMut(Value, Value) -> Option<Value>,
) -> Option<()> {
    while values.len() > 1 {
        let upper = values.split_off(values.len() / 2);
        for (a, b) in values.iter_mut().zip(upper) {
            *a = combine(*a, b)?;
        }
    }
    Some(())
}
