//! The first phase of scheduling: which values are materialized, in which order, in which buffers.
//!
//! The *roots* are the values that the cost model names. Below them a kernel may need others in
//! memory, the *cuts*: operands of views that are not affine in its loops, and what it would read
//! across rows again and again (`turned`). They are found by walking down from each root as its
//! kernel will be built, and are computed before it. A value that was cut is loaded by every kernel
//! from then on. Nothing is built here.

mod attention;
mod turned;

use std::collections::HashSet;

use gt_ir::{Graph, NodeId, NodeKind, Op, Type};
use smallvec::SmallVec;

use super::{
    index::{self, Map},
    piece::BufferId,
    updates::{Found, Update, Updates},
    work::{self, Kernel, Work, work},
};
use crate::{
    action::{Action, action},
    error::EngineError,
    kernel::{Cut, Loop, accumulated},
};
use attention::Attentions;
pub(super) use attention::Call;

/// Strides of a node's dimensions in its buffer.
pub(super) type Strides = SmallVec<[i64; 8]>;

/// Something to be computed.
pub(super) enum Task {
    Kernel {
        /// The node that it computes, or a part of it.
        of: NodeId,
        kernel: Box<Kernel>,
        out: BufferId,
        /// Of a long reduction, where its partial results go.
        partials: Option<(Cut, BufferId)>,
    },
    /// The node is a matrix product of these two.
    Product(NodeId, [NodeId; 2], BufferId),
    Routine(NodeId, Op, BufferId),
    /// The node is a table with some rows updated.
    Update(NodeId, Update, BufferId),
    Attention(Call),
}

/// A point in the order of tasks: what was materialized by those before it is in memory.
pub(super) type Time = usize;
/// After all tasks so far.
const NOW: Time = usize::MAX;

/// How a kernel reaches a value.
#[expect(clippy::large_enum_variant, reason = "taken apart where it is returned")]
pub(super) enum Reach {
    /// In memory.
    Load,
    /// As an argument.
    Scalar,
    /// In another value, by this map.
    View(NodeId, Map),
    /// By computing it from its operands at the same position.
    Compute(Action),
}

/// What is materialized.
pub(super) struct Materialized<'g> {
    pub(super) graph: &'g Graph,
    pub(super) tasks: Vec<Task>,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<usize>,
    /// The buffer of each contiguous node, and the time from which on it is there.
    places: Vec<Option<(BufferId, Time)>>,
    attentions: Attentions,
    updates: Found,
}

impl<'g> Materialized<'g> {
    pub(super) fn of(graph: &'g Graph, updates: Updates) -> Result<Materialized<'g>, EngineError> {
        let mut m = Materialized {
            graph,
            tasks: Vec::new(),
            sizes: Vec::new(),
            places: vec![None; graph.len()],
            attentions: Attentions::default(),
            updates: Found::of(graph, updates),
        };
        for &id in graph.inputs() {
            let buffer = m.buffer(m.ty(id).bytes());
            m.placed(id, buffer);
        }
        let roots = m.updates.roots(graph);
        graph.ids().filter(|id| roots[id.index()]).try_for_each(|id| m.hold(id))?;
        graph.outputs().iter().try_for_each(|&id| m.materialize(id).map(drop))?;
        Ok(m)
    }

    pub(super) fn ty(&self, id: NodeId) -> Type {
        self.graph.node(id).ty
    }

    /// The buffer of a node that is contiguous, if it is there.
    pub(super) fn place(&self, id: NodeId, time: Time) -> Option<BufferId> {
        let (buffer, since) = self.places[id.index()]?;
        (since <= time).then_some(buffer)
    }

    /// Where a node's elements are, and the strides of its dimensions: those it has when it is
    /// contiguous, but for the results of calls.
    pub(super) fn held(&self, id: NodeId, time: Time) -> Option<(BufferId, Strides)> {
        if self.is_call(id) {
            return self.attentions.result(id);
        }
        Some((self.place(id, time)?, work::contiguous(&self.ty(id)).collect()))
    }

    /// How a kernel of these loops reaches a node.
    pub(super) fn reach(&self, id: NodeId, map: &Map, loops: &[Loop], time: Time) -> Reach {
        if self.place(id, time).is_some() {
            return Reach::Load;
        }
        let NodeKind::Op(op) = self.graph.node(id).kind else { return Reach::Scalar };
        match action(&op) {
            Action::View | Action::Reshape => match self.through(id, map, loops) {
                Some((from, next)) => Reach::View(from, next),
                None => Reach::Load,
            },
            Action::Reduce(..)
            | Action::MatMul
            | Action::Cat(_)
            | Action::Pad
            | Action::Routine
            | Action::Call => Reach::Load,
            computed @ (Action::Unary(_)
            | Action::Binary(_)
            | Action::Where
            | Action::Cast
            | Action::Iota) => Reach::Compute(computed),
        }
    }

    /// The operand of a view, and its map; `None` where that is not affine, or the node is no view.
    fn through(&self, id: NodeId, map: &Map, loops: &[Loop]) -> Option<(NodeId, Map)> {
        let NodeKind::Op(op) = self.graph.node(id).kind else { return None };
        let from = *self.graph.operands(id).first()?;
        let shapes = [self.ty(from).shape, self.ty(id).shape];
        Some((from, index::through(&op, map, &shapes[0], &shapes[1], loops)?))
    }

    /// What an operand of a library's work is a view of: the first node below it that is in memory,
    /// or has to be, and the map of the operand's dimensions.
    pub(super) fn base(&self, id: NodeId, time: Time) -> (NodeId, Map) {
        let sizes = self.ty(id).shape;
        let loops = work::parallel(sizes.sizes());
        let all: SmallVec<[usize; 8]> = (0..sizes.rank()).collect();
        let (mut at, mut map) = (id, index::along(&all, loops.len()));
        while self.place(at, time).is_none()
            && !self.is_flip(at)
            && let Some(next) = self.through(at, &map, &loops)
        {
            (at, map) = next;
        }
        (at, map)
    }

    /// Whether a value is read against the direction of memory, which no library does.
    fn is_flip(&self, id: NodeId) -> bool {
        matches!(self.graph.node(id).kind, NodeKind::Op(Op::Flip(_)))
    }

    fn is_call(&self, id: NodeId) -> bool {
        let kind = self.graph.node(id).kind;
        matches!(kind, NodeKind::Op(op) if matches!(action(&op), Action::Call))
    }

    fn buffer(&mut self, bytes: usize) -> BufferId {
        self.sizes.push(bytes);
        BufferId(self.sizes.len() as u32 - 1)
    }

    fn placed(&mut self, id: NodeId, buffer: BufferId) {
        self.places[id.index()] = Some((buffer, self.tasks.len()));
    }

    /// Has a node's elements in memory, with whatever strides.
    fn hold(&mut self, id: NodeId) -> Result<(), EngineError> {
        if self.is_call(id) { self.call(id) } else { self.materialize(id).map(drop) }
    }

    /// Has what an operand of a library's work is a view of in memory.
    fn hold_base(&mut self, id: NodeId) -> Result<(), EngineError> {
        let (base, _) = self.base(id, NOW);
        self.hold(base)
    }

    /// Has a node in memory that is contiguous.
    fn materialize(&mut self, id: NodeId) -> Result<BufferId, EngineError> {
        if let Some(buffer) = self.place(id, NOW) {
            return Ok(buffer);
        }
        if let Some(update) = self.updates.get(id) {
            return self.update(id, update);
        }
        let work = work(self.graph, id, &|id| self.place(id, NOW).is_some());
        let buffer = match work {
            Work::Alias(of) => self.materialize(of)?,
            Work::Kernels(_) | Work::Product(..) | Work::Routine(_) => {
                self.buffer(self.ty(id).bytes())
            }
        };
        match work {
            Work::Alias(_) => (),
            Work::Kernels(kernels) => {
                kernels.into_iter().try_for_each(|kernel| self.kernel(id, kernel, buffer))?;
            }
            Work::Product(a, b) => {
                if self.is_turned_often(b) {
                    self.materialize(b)?;
                }
                self.hold_base(a)?;
                self.hold_base(b)?;
                self.tasks.push(Task::Product(id, [a, b], buffer));
            }
            Work::Routine(op) => {
                if !is_of_literals(self.graph, id) {
                    let operands = self.graph.operands(id);
                    operands.iter().try_for_each(|&id| self.materialize(id).map(drop))?;
                }
                self.tasks.push(Task::Routine(id, op, buffer));
            }
        }
        self.placed(id, buffer);
        Ok(buffer)
    }

    /// Has a table in memory in which some rows are updated.
    fn update(&mut self, id: NodeId, update: Update) -> Result<BufferId, EngineError> {
        update.operands().into_iter().try_for_each(|id| self.materialize(id).map(drop))?;
        let buffer = self.buffer(self.ty(id).bytes());
        self.tasks.push(Task::Update(id, update, buffer));
        self.placed(id, buffer);
        Ok(buffer)
    }

    fn kernel(&mut self, of: NodeId, kernel: Kernel, out: BufferId) -> Result<(), EngineError> {
        let mut walk = Walk { kernel: &kernel, seen: HashSet::new() };
        for (id, along) in &kernel.values {
            self.walk(*id, index::along(along, kernel.loops.len()), &mut walk)?;
        }
        let bytes = |cut: &Cut| cut.n_chunks * kernel.len() * accumulated(kernel.dtype).size();
        let partials = kernel.cut().map(|cut| (cut, self.buffer(bytes(&cut))));
        self.tasks.push(Task::Kernel { of, kernel: Box::new(kernel), out, partials });
        Ok(())
    }

    /// Has in memory what a kernel will load to compute a node. Returns whether it would read some
    /// of it across rows.
    fn walk(&mut self, id: NodeId, map: Map, walk: &mut Walk<'_>) -> Result<bool, EngineError> {
        if !walk.seen.insert((id, map.clone())) {
            return Ok(false);
        }
        let across = match self.reach(id, &map, &walk.kernel.loops, NOW) {
            Reach::Load => {
                self.hold(id)?;
                return Ok(self.is_across(id, &map, walk.kernel));
            }
            Reach::Scalar => false,
            Reach::View(from, next) => self.walk(from, next, walk)?,
            Reach::Compute(_) => {
                let mut any = false;
                for id in self.graph.operands(id) {
                    any |= self.walk(id, map.clone(), walk)?;
                }
                any
            }
        };
        if across && self.is_better_turned(id, &map, walk.kernel) {
            self.materialize(id)?;
            return Ok(false);
        }
        Ok(across)
    }
}

/// The way down from a kernel to what it loads.
struct Walk<'k> {
    kernel: &'k Kernel,
    seen: HashSet<(NodeId, Map)>,
}

/// Whether all operands of a routine are numbers that the caller has: numbers are all of that kind,
/// or all in memory. Those of a loop are in memory.
pub(super) fn is_of_literals(graph: &Graph, id: NodeId) -> bool {
    let is_literal =
        |id: &NodeId| matches!(graph.node(*id).kind, NodeKind::Scalar(_) | NodeKind::Const(_));
    let is_loop = matches!(graph.node(id).kind, NodeKind::Op(Op::Scan(_)));
    !is_loop && graph.operands(id).iter().all(is_literal)
}
