//! Writes a nest as one function of Cranelift IR: `fn(args, p_lo, p_hi, r_lo, r_hi, host)`.
//!
//! `args` points to the buffer addresses followed by the scalar slots, eight bytes each; the two
//! ranges bound the split loops; `host` is the table of the host's functions. Values are computed
//! in the outermost loop they depend on. The vectorized loop runs in blocks of `lanes * unroll`
//! elements and finishes element by element through the same formulas. It does not choose anything:
//! that is `nest`'s work.

mod memory;
mod sums;

use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, condcodes::IntCC, types};
use cranelift_frontend::FunctionBuilder;
use gt_ir::DType;
use smallvec::{SmallVec, smallvec};

use self::sums::Sum;
use super::{
    formulas::Formulas,
    lanes::{Lanes, MEMORY, Target, scalar_type},
    nest::Nest,
    spec::{Expr, ExprId},
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
    /// The ranges of the split parallel loop and of the split reduce loop.
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
        // A value of another width never meets vectors directly: `nest::lanes` looked at all that
        // do.
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
            (Expr::Index(access), Some(at)) => Some(self.index(node.dtype, access, at, u, mode)),
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
}
