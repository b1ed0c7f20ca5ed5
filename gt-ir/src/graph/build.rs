//! From instructions to graphs: one node an instruction ([`lower`]), or primitives with every cast
//! and broadcast spelled out ([`expand`]).
//!
//! Three things happen on the way to primitives, in this order: a weak scalar gets the dtype that
//! promotion decides, operands are cast and broadcast as the class of the op wants them, and a
//! derived op is replaced by its expansion. The result satisfies
//! [`Graph::validate_expanded`](super::Graph::validate_expanded), so that engines need none of
//! these rules.

use std::{collections::BTreeMap, sync::Arc};

use petgraph::{Direction, graph::NodeIndex};
use smallvec::SmallVec;

use super::{Graph, Node, NodeId, NodeKind, Stage};
use crate::{
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    intern::Loc,
    op::{Class, Meaning, Op, Operand, OperandType, infer},
    rules::{derive::wide, promote::promote},
    scalar::Scalar,
    shape::{Dim, MAX_RANK, Shape, Type},
    tape::{Entry, Instr, Tape, ValueId},
};

/// The dimensions of a shape in the making.
type Dims = SmallVec<[Dim; MAX_RANK]>;

/// Why a tape has no graph: the entry at fault and the reason. A verified tape always has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry}: {error}")]
pub struct LowerError {
    /// Index into [`Tape::entries`].
    pub entry: usize,
    /// What is wrong with it.
    pub error: OpError,
}

/// The graph of primitives that computes one instruction. Tensor operands become inputs and
/// literals scalar slots, each in order.
///
/// ```
/// use gt_ir::{Op, OperandType, Scalar, graph::expand};
/// let x = OperandType::Tensor("bf16[4]".parse()?);
/// let two = OperandType::Scalar(Scalar::I64(2));
/// let graph = expand(&Op::Mul, &[x, two])?;
/// // The literal has become a slot of the other operand's dtype, spread over four elements.
/// assert!(graph.to_string().contains("expand[4] n1 : bf16[4]"), "{graph}");
/// assert_eq!(graph.stage(), gt_ir::graph::Stage::Expanded);
/// # Ok::<(), gt_ir::OpError>(())
/// ```
///
/// # Errors
/// The op's type rule refuses the operands.
pub fn expand(op: &Op, ins: &[OperandType]) -> Result<Graph, OpError> {
    expand_with(op, ins, none)
}

/// As [`expand`], but derived ops for which `calls` holds stay as they are, as in
/// [`Graph::expanded_with`].
///
/// # Errors
/// As [`expand`].
pub fn expand_with(op: &Op, ins: &[OperandType], calls: Calls) -> Result<Graph, OpError> {
    let mut b = Builder { calls, ..Builder::default() };
    let operands: Vec<Operand> = ins
        .iter()
        .map(|i| match i {
            OperandType::Tensor(t) => b.input(*t),
            OperandType::Scalar(s) => b.slot(*s),
        })
        .map(|id| id.value().into())
        .collect();
    let out = b.emit(*op, &operands)?;
    Ok(b.finish(&[NodeId::of(out)], Stage::Expanded))
}

/// The graph of primitives of a function that emits ops on inputs of these types and gives the
/// outputs.
pub(super) fn function(
    inputs: &[Type],
    calls: Calls,
    f: impl FnOnce(&mut dyn Emit, &[Operand]) -> Result<Vec<ValueId>, OpError>,
) -> Result<Graph, OpError> {
    let mut b = Builder { calls, ..Builder::default() };
    let operands: Vec<Operand> = inputs.iter().map(|ty| b.input(*ty).value().into()).collect();
    let outputs: Vec<NodeId> = f(&mut b, &operands)?.into_iter().map(NodeId::of).collect();
    Ok(b.finish(&outputs, Stage::Expanded))
}

/// The graph of a whole tape: one node an instruction, derived ops as they are. Values read are
/// outputs, in order.
///
/// ```
/// let tape = gt_ir::text::load(
///     "gt tape 1\n%0 = input : f32[2,3]\n%1 = relu %0\n%2 = sum[1] %1\noutput %2\n",
/// )
/// .unwrap()
/// .tape;
/// let traced = gt_ir::lower(&tape)?;
/// assert_eq!(traced.len(), 3); // one node an entry that defines a value
/// let expanded = traced.expanded()?;
/// assert!(expanded.len() > 3); // relu is a maximum with a constant, cast and broadcast
/// expanded.validate_expanded()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The first entry that is not valid.
pub fn lower(tape: &Tape) -> Result<Graph, LowerError> {
    let mut l = Lowering::default();
    for (entry, e) in tape.entries.iter().enumerate() {
        l.entry(e).map_err(|error| LowerError { entry, error })?;
    }
    Ok(l.b.finish(&l.outputs, Stage::Traced))
}

/// A graph in the making, one node an instruction.
#[derive(Default)]
pub(super) struct Lowering {
    b: Builder,
    values: BTreeMap<ValueId, NodeId>,
    outputs: Vec<NodeId>,
    scopes: Vec<Arc<str>>,
}

impl Lowering {
    /// A value given from outside.
    pub(super) fn input(&mut self, value: ValueId, ty: Type) {
        let id = self.b.input(ty);
        self.values.insert(value, id);
    }

    /// The graph of what was lowered, with these values as outputs; those that do not exist are
    /// left out.
    pub(super) fn finish(self, outputs: &[ValueId]) -> Graph {
        let outputs: Vec<NodeId> =
            outputs.iter().filter_map(|v| self.values.get(v).copied()).collect();
        self.b.finish(&outputs, Stage::Traced)
    }

    /// Adds what one entry means: a node for an input or an instruction, an output, or a scope. A
    /// free means nothing in a graph, which has no order of execution.
    pub(super) fn entry(&mut self, entry: &Entry) -> Result<(), OpError> {
        match entry {
            Entry::Input { out, ty, .. } => self.input(*out, *ty),
            Entry::Instr(i) => self.instr(i)?,
            Entry::Output { value, .. } => self.outputs.push(self.value(*value)?),
            Entry::Enter(name) => {
                self.scopes.push(name.clone());
                self.scoped();
            }
            Entry::Exit(_) => {
                self.scopes.pop();
                self.scoped();
            }
            Entry::Free(_) => (),
        }
        Ok(())
    }

    /// Notes the open scopes, joined by `/`, for the nodes to come.
    fn scoped(&mut self) {
        self.b.signal = (!self.scopes.is_empty()).then(|| self.scopes.join("/").into());
    }

    /// The node of a value.
    pub(super) fn value(&self, v: ValueId) -> Result<NodeId, OpError> {
        self.values
            .get(&v)
            .copied()
            .ok_or_else(|| OpError::new(format!("{v} is not defined before its use")))
    }

    /// Adds an instruction as one node, whatever its op. Each literal gets a scalar slot of its
    /// own, even if two are equal: they may differ in the next run.
    fn instr(&mut self, i: &Instr) -> Result<(), OpError> {
        self.b.loc = i.loc;
        let ids = i
            .inputs
            .iter()
            .map(|o| match o {
                Operand::Value(v) => self.value(*v),
                Operand::Scalar(s) => Ok(self.b.slot(*s)),
            })
            .collect::<Result<SmallVec<[NodeId; 3]>, _>>()?;
        let types: SmallVec<[OperandType; 3]> = ids.iter().map(|id| self.b.seen(*id)).collect();
        let ty = infer(&i.op, &types)?;
        let id = self.b.push(NodeKind::Op(i.op), ty, &ids);
        self.values.insert(i.out, id);
        Ok(())
    }
}

impl Graph {
    /// The same computation in primitives. Inputs, slots and outputs keep their positions.
    ///
    /// # Errors
    /// Only if the graph was not made by [`lower`] or [`expand`].
    pub fn expanded(&self) -> Result<Graph, OpError> {
        self.expanded_with(none)
    }

    /// As [`Graph::expanded`], but derived contractions for which `calls` holds stay as they are,
    /// their literals in the dtype that sums of their operands have: an engine has a call for them.
    ///
    /// # Errors
    /// As [`Graph::expanded`].
    pub fn expanded_with(&self, calls: Calls) -> Result<Graph, OpError> {
        if self.stage == Stage::Expanded {
            return Ok(self.clone());
        }
        let mut b = Builder {
            graph: Graph { slots: self.slots.clone(), ..Graph::default() },
            calls,
            ..Builder::default()
        };
        let mut map: Vec<ValueId> = Vec::with_capacity(self.len());
        for id in self.ids() {
            let node = self.node(id);
            (b.loc, b.signal) = (node.loc, node.signal.clone());
            b.origin = Some(id.0);
            map.push(match node.kind {
                NodeKind::Input(_) => b.input(node.ty).value(),
                NodeKind::Scalar(k) if self.is_weak(id) => b.weak(NodeKind::Scalar(k)).value(),
                NodeKind::Scalar(_) | NodeKind::Const(_) => b.push(node.kind, node.ty, &[]).value(),
                NodeKind::Op(op) => {
                    let ins: SmallVec<[Operand; 3]> =
                        self.operands(id).iter().map(|o| map[o.index()].into()).collect();
                    b.emit(op, &ins)?
                }
            });
        }
        let outputs: Vec<NodeId> =
            self.outputs.iter().map(|o| NodeId::of(map[o.index()])).collect();
        Ok(b.finish(&outputs, Stage::Expanded))
    }
}

/// Whether an engine has a call for an op on operands like these.
pub type Calls = fn(&Op, &[OperandType]) -> bool;

/// The choice of an engine without calls.
const fn none(_: &Op, _: &[OperandType]) -> bool {
    false
}

impl NodeId {
    /// The node under the name by which expansions know it. [`Emit`] speaks of values, and in a
    /// graph the number of a value is the number of its node.
    fn value(self) -> ValueId {
        ValueId(self.0.into())
    }

    fn of(v: ValueId) -> NodeId {
        NodeId(v.0 as u32)
    }
}

/// Builds graphs of primitives; as an [`Emit`] it takes any op and spells it out.
struct Builder {
    graph: Graph,
    calls: Calls,
    /// Scalars whose dtype is not decided yet: they become typed nodes where they are used.
    weak: BTreeMap<NodeId, Scalar>,
    typed: BTreeMap<(NodeId, DType), NodeId>,
    loc: Loc,
    signal: Option<Arc<str>>,
    /// What new nodes stand for: a node of another graph, or themselves.
    origin: Option<u32>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            graph: Graph::default(),
            calls: none,
            weak: BTreeMap::new(),
            typed: BTreeMap::new(),
            loc: Loc::default(),
            signal: None,
            origin: None,
        }
    }
}

impl Builder {
    /// Adds a node with its operands at the ports 0, 1, ..
    fn push(&mut self, kind: NodeKind, ty: Type, operands: &[NodeId]) -> NodeId {
        let origin = self.origin.unwrap_or(self.graph.dag.node_count() as u32);
        let node = Node { kind, ty, loc: self.loc, signal: self.signal.clone(), origin };
        let id = self.graph.dag.add_node(node);
        for (port, operand) in operands.iter().enumerate() {
            self.graph.dag.add_edge(operand.raw(), id, port as u32);
        }
        id.into()
    }

    /// The next input, by position.
    fn input(&mut self, ty: Type) -> NodeId {
        let id = self.push(NodeKind::Input(self.graph.inputs.len() as u32), ty, &[]);
        self.graph.inputs.push(id);
        id
    }

    /// The next scalar slot.
    fn slot(&mut self, value: Scalar) -> NodeId {
        self.graph.slots.push(value);
        self.weak(NodeKind::Scalar(self.graph.slots.len() as u32 - 1))
    }

    /// A scalar whose dtype is decided where it is used; until then it has the dtype it has alone.
    fn weak(&mut self, kind: NodeKind) -> NodeId {
        let value = match kind {
            NodeKind::Scalar(k) => self.graph.slots[k as usize],
            NodeKind::Const(s) => s,
            NodeKind::Input(_) | NodeKind::Op(_) => Scalar::Bool(false),
        };
        let id = self.push(kind, Type::scalar(value.weak_dtype()), &[]);
        self.weak.insert(id, value);
        id
    }

    /// What a type rule sees of a node.
    fn seen(&self, id: NodeId) -> OperandType {
        self.weak.get(&id).map_or_else(
            || OperandType::Tensor(self.graph.node(id).ty),
            |s| OperandType::Scalar(*s),
        )
    }

    /// A weak scalar as a node of this dtype.
    ///
    /// A scalar may be used in several dtypes, and has one node for each of them.
    fn typed(&mut self, weak: NodeId, dtype: DType) -> NodeId {
        if let Some(&id) = self.typed.get(&(weak, dtype)) {
            return id;
        }
        let kind = self.graph.node(weak).kind;
        let id = self.push(kind, Type::scalar(dtype), &[]);
        self.typed.insert((weak, dtype), id);
        id
    }

    /// The operand in this dtype.
    fn as_dtype(&mut self, v: ValueId, dtype: DType) -> Emitted {
        let id = NodeId::of(v);
        if self.weak.contains_key(&id) {
            return Ok(self.typed(id, dtype).value());
        }
        if self.ty(v).dtype == dtype {
            return Ok(v);
        }
        let ty = self.ty(v).with_dtype(dtype);
        Ok(self.push(NodeKind::Op(Op::Cast(dtype)), ty, &[id]).value())
    }

    /// The operand in these sizes.
    ///
    /// Both shapes are assumed to broadcast, and the names of dimensions do not count.
    fn as_shape(&mut self, v: ValueId, shape: Shape) -> ValueId {
        if self.ty(v).shape.same_sizes(&shape) {
            return v;
        }
        let ty = Type::new(self.ty(v).dtype, shape);
        self.push(NodeKind::Op(Op::Expand(shape)), ty, &[NodeId::of(v)]).value()
    }

    /// A primitive whose operands are as it wants them.
    ///
    /// No rule is applied here, so the caller answers for dtypes and shapes.
    fn primitive(&mut self, op: Op, ty: Type, ins: &[ValueId]) -> Emitted {
        let ids: SmallVec<[NodeId; 3]> = ins.iter().map(|v| NodeId::of(*v)).collect();
        Ok(self.push(NodeKind::Op(op), ty, &ids).value())
    }

    /// A primitive with casts and broadcasts before it, as its class wants them; see
    /// [`Graph`](super::Graph).
    fn legalize(&mut self, op: Op, ty: Type, ins: &[ValueId], seen: &[OperandType]) -> Emitted {
        match op.spec().class {
            Class::Pointwise => self.pointwise(op, ty, ins, seen),
            Class::Reduce => self.reduce(op, ty, ins[0]),
            Class::Contract => self.matmul(ty, ins[0], ins[1]),
            Class::Matrix => self.problems(op, ty, ins),
            Class::Move => self.movement(op, ty, ins),
            Class::Gather => self.gather(op, ty, ins),
            Class::Source => {
                let ins = ins
                    .iter()
                    .map(|v| self.as_dtype(*v, DType::I64))
                    .collect::<Result<SmallVec<[_; 3]>, _>>()?;
                self.primitive(op, ty, &ins)
            }
        }
    }

    /// Whether the engine has a call for this. It sees numbers as what they are, whatever made
    /// them.
    fn is_call(&self, op: &Op, ins: &[ValueId]) -> bool {
        let seen = |v: &ValueId| match self.graph.node(NodeId::of(*v)).kind {
            NodeKind::Scalar(k) => OperandType::Scalar(self.graph.slots[k as usize]),
            NodeKind::Const(s) => OperandType::Scalar(s),
            NodeKind::Input(_) | NodeKind::Op(_) => OperandType::Tensor(self.ty(*v)),
        };
        (self.calls)(op, &ins.iter().map(seen).collect::<SmallVec<[_; 6]>>())
    }

    /// A derived op as it is.
    ///
    /// Weak literals become nodes of the wide dtype, because a call computes its sums in this
    /// dtype.
    fn call(&mut self, op: Op, ty: Type, ins: &[ValueId]) -> Emitted {
        let typed = |b: &mut Builder, v: &ValueId| {
            let is_weak = b.weak.contains_key(&NodeId::of(*v));
            if is_weak { b.as_dtype(*v, wide(ty.dtype)) } else { Ok(*v) }
        };
        let ins = ins.iter().map(|v| typed(self, v)).collect::<Result<SmallVec<[_; 6]>, _>>()?;
        if !self.graph.calls.contains(&op) {
            self.graph.calls.push(op);
        }
        self.primitive(op, ty, &ins)
    }

    /// Operands of one dtype and of the sizes of the result. Comparisons compute in what their
    /// operands promote to; logical ops in `bool`.
    fn pointwise(&mut self, op: Op, ty: Type, ins: &[ValueId], seen: &[OperandType]) -> Emitted {
        let (op, dtype) = match op {
            Op::Cast(dtype) => return self.as_dtype(ins[0], dtype),
            Op::LogicalAnd | Op::LogicalOr | Op::LogicalXor | Op::LogicalNot => (op, DType::Bool),
            Op::Eq => (op, promote(seen)),
            // Bytes order as booleans do, and engines compare bytes.
            Op::Lt => (op, if promote(seen) == DType::Bool { DType::U8 } else { promote(seen) }),
            Op::Add | Op::Maximum if ty.dtype == DType::Bool => (Op::LogicalOr, DType::Bool),
            Op::Mul | Op::Minimum | Op::BitwiseAnd if ty.dtype == DType::Bool => {
                (Op::LogicalAnd, DType::Bool)
            }
            _ => (op, ty.dtype),
        };
        let mut operands: SmallVec<[ValueId; 3]> = SmallVec::new();
        for (i, v) in ins.iter().enumerate() {
            let dtype = if op == Op::Where && i == 0 { DType::Bool } else { dtype };
            let v = self.as_dtype(*v, dtype)?;
            operands.push(self.as_shape(v, ty.shape));
        }
        self.primitive(op, ty, &operands)
    }

    /// Positions are 64-bit integers. What adds up many elements does so in a wide dtype.
    fn gather(&mut self, op: Op, ty: Type, ins: &[ValueId]) -> Emitted {
        let mut ins: SmallVec<[ValueId; 3]> = ins.into();
        ins[1] = self.as_dtype(ins[1], DType::I64)?;
        if !(ty.dtype.is_float() && matches!(op, Op::ScatterAdd(_) | Op::IndexAdd(_))) {
            return self.primitive(op, ty, &ins);
        }
        let dtype = wide(ty.dtype);
        for i in [0, 2] {
            ins[i] = self.as_dtype(ins[i], dtype)?;
        }
        let sums = self.primitive(op, ty.with_dtype(dtype), &ins)?;
        self.as_dtype(sums, ty.dtype)
    }

    /// Engines fold numbers: sums of integers and `bool` are taken in `i64`, other folds of `bool`
    /// in `u8`. Running sums of narrow floats are taken in a wide dtype.
    fn reduce(&mut self, op: Op, ty: Type, x: ValueId) -> Emitted {
        let from = self.ty(x).dtype;
        match op {
            Op::Sum(_) | Op::CumSum(_) if !from.is_float() => {
                let x = self.as_dtype(x, DType::I64)?;
                self.primitive(op, ty, &[x])
            }
            // Each of its results is rounded once, as that of a sum.
            Op::CumSum(_) => {
                let dtype = wide(from);
                let x = self.as_dtype(x, dtype)?;
                let y = self.primitive(op, ty.with_dtype(dtype), &[x])?;
                self.as_dtype(y, ty.dtype)
            }
            _ if from == DType::Bool => {
                let x = self.as_dtype(x, DType::U8)?;
                let dtype = if ty.dtype == DType::Bool { DType::U8 } else { ty.dtype };
                let y = self.primitive(op, ty.with_dtype(dtype), &[x])?;
                self.as_dtype(y, ty.dtype)
            }
            _ => self.primitive(op, ty, &[x]),
        }
    }

    /// Operands of one dtype, of equal rank and at least two axes. Leading axes are broadcast, or
    /// joined to rows where the right operand is one matrix.
    fn matmul(&mut self, ty: Type, a: ValueId, b: ValueId) -> Emitted {
        let (a, b) = (self.as_dtype(a, ty.dtype)?, self.as_dtype(b, ty.dtype)?);
        let (a, b) = (self.matrix(a, 0)?, self.matrix(b, 1)?);
        let (sa, sb) = (self.ty(a).shape, self.ty(b).shape);
        // A plain matrix on the right multiplies all rows on the left at once.
        let (a, b) = if sb.rank() == 2 && sa.rank() > 2 {
            (self.flattened(a)?, b)
        } else {
            self.batched(a, b)?
        };
        let (sa, sb) = (self.ty(a).shape, self.ty(b).shape);
        let rank = sa.rank();
        let shape = Shape::collect(sa.dims().take(rank - 1).chain([sb.dim(rank - 1)]))?;
        let y = self.primitive(Op::MatMul, Type::new(ty.dtype, shape), &[a, b])?;
        self.reshape(y, ty.shape)
    }

    /// Operands of equal leading sizes.
    fn problems(&mut self, op: Op, ty: Type, ins: &[ValueId]) -> Emitted {
        let [a, b] = *ins else { return self.primitive(op, ty, ins) };
        let (a, b) = self.batched(a, b)?;
        self.primitive(op, ty, &[a, b])
    }

    /// A vector as a row (`at` = 0) or a column (`at` = 1).
    fn matrix(&mut self, v: ValueId, at: usize) -> Emitted {
        let shape = self.ty(v).shape;
        if shape.rank() != 1 {
            return Ok(v);
        }
        let n = shape.dim(0);
        let dims = if at == 0 { [Dim::new(1), n] } else { [n, Dim::new(1)] };
        self.reshape(v, Shape::from_dims(&dims)?)
    }

    /// All leading axes and rows as one axis of rows.
    fn flattened(&mut self, a: ValueId) -> Emitted {
        let shape = self.ty(a).shape;
        let k = shape.dim(shape.rank() - 1);
        let rows = shape.sizes()[..shape.rank() - 1].iter().product();
        self.reshape(a, Shape::from_dims(&[Dim::new(rows), k])?)
    }

    /// Both operands with the leading axes that they broadcast to.
    fn batched(&mut self, a: ValueId, b: ValueId) -> Result<(ValueId, ValueId), OpError> {
        let (sa, sb) = (self.ty(a).shape, self.ty(b).shape);
        let lead = |s: Shape| Shape::collect(s.dims().take(s.rank() - 2));
        let batch = lead(sa)?
            .broadcast(&lead(sb)?)
            .ok_or_else(|| OpError::new("matmul: leading dimensions do not broadcast"))?;
        let full = |s: Shape| {
            let dims: Dims = batch.dims().chain(s.dims().skip(s.rank() - 2)).collect();
            Shape::from_dims(&dims)
        };
        Ok((self.as_shape(a, full(sa)?), self.as_shape(b, full(sb)?)))
    }

    /// Operands of the dtype of the result: `cat` may promote, the literal of `pad` is cast.
    fn movement(&mut self, op: Op, ty: Type, ins: &[ValueId]) -> Emitted {
        let keeps_all = matches!(op, Op::Reshape(_) | Op::Expand(_))
            && self.ty(ins[0]).shape.same_sizes(&ty.shape);
        if keeps_all {
            return Ok(ins[0]);
        }
        let ins = ins
            .iter()
            .map(|v| self.as_dtype(*v, ty.dtype))
            .collect::<Result<SmallVec<[_; 3]>, _>>()?;
        self.primitive(op, ty, &ins)
    }

    /// Gives a node made after the first `since` the names of dimensions its op was inferred to
    /// have.
    fn rename(&mut self, v: ValueId, ty: Type, since: usize) {
        let id = NodeId::of(v);
        if id.index() >= since && self.graph.node(id).ty.same_layout(&ty) {
            self.graph.dag[id.raw()].ty = ty;
        }
    }

    /// The graph of the nodes that the outputs need.
    fn finish(self, outputs: &[NodeId], stage: Stage) -> Graph {
        compact(self.graph, outputs, stage)
    }
}

/// Drops nodes no output needs (inputs stay) and numbers the rest anew.
///
/// Nodes are in topological order, so one pass from the last to the first finds everything that is
/// needed. Inputs stay even if nothing uses them: their positions are part of a graph's signature.
pub(super) fn compact(mut old: Graph, outputs: &[NodeId], stage: Stage) -> Graph {
    let mut live = vec![false; old.len()];
    outputs.iter().chain(&old.inputs).for_each(|o| live[o.index()] = true);
    for id in old.ids().rev() {
        if live[id.index()] {
            old.dag
                .neighbors_directed(id.raw(), Direction::Incoming)
                .for_each(|o| live[o.index()] = true);
        }
    }
    if live.iter().all(|l| *l) {
        (old.stage, old.outputs) = (stage, outputs.to_vec());
        return old;
    }
    let mut map = vec![NodeIndex::end(); old.len()];
    let mut new =
        Graph { slots: old.slots.clone(), calls: old.calls.clone(), stage, ..Graph::default() };
    for id in old.ids().filter(|id| live[id.index()]) {
        map[id.index()] = new.dag.add_node(old.node(id).clone());
        for (port, operand) in old.operands(id).into_iter().enumerate() {
            new.dag.add_edge(map[operand.index()], map[id.index()], port as u32);
        }
    }
    let renamed = |ids: &[NodeId]| ids.iter().map(|i| map[i.index()].into()).collect();
    (new.inputs, new.outputs) = (renamed(&old.inputs), renamed(outputs));
    new
}

impl Emit for Builder {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Emitted {
        let ins: SmallVec<[ValueId; 3]> = inputs
            .iter()
            .map(|o| match o {
                Operand::Value(v) => *v,
                Operand::Scalar(s) => self.weak(NodeKind::Const(*s)).value(),
            })
            .collect();
        let seen: SmallVec<[OperandType; 3]> =
            ins.iter().map(|v| self.seen(NodeId::of(*v))).collect();
        if let (Op::Cast(dtype), [OperandType::Scalar(_)]) = (op, seen.as_slice()) {
            return self.as_dtype(ins[0], dtype);
        }
        let ty = infer(&op, &seen)?;
        match op.spec().meaning {
            Meaning::Primitive => self.legalize(op, ty, &ins, &seen),
            Meaning::Derived(_) if self.is_call(&op, &ins) => self.call(op, ty, &ins),
            Meaning::Derived(expansion) => {
                let operands: SmallVec<[Operand; 3]> = ins.iter().map(|v| (*v).into()).collect();
                let first = self.graph.len();
                let result = expansion(self, &op, &operands)?;
                self.rename(result, ty, first);
                Ok(result)
            }
        }
    }

    fn ty(&self, value: ValueId) -> Type {
        self.graph.node(NodeId::of(value)).ty
    }

    fn operand_type(&self, operand: Operand) -> OperandType {
        match operand {
            Operand::Value(v) => self.seen(NodeId::of(v)),
            Operand::Scalar(s) => OperandType::Scalar(s),
        }
    }
}
