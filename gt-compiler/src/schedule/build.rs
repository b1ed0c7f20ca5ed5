//! The second phase of scheduling: the pieces of each task, from the graph and from what is
//! materialized by then.
//!
//! Kernels are built by `fuse`; products, routines and attention get their operands as they lie in
//! memory.

use std::ops::Range;

use gt_ir::{Graph, NodeId, NodeKind, Op, attr};
use smallvec::SmallVec;

use super::{
    fuse::{self, absent, scalar},
    index,
    materialize::{Call, Materialized, Task, Time, is_of_literals},
    piece::{Attention, Back, BufferId, MatMul, Matrix, Multiplier, Piece, Routine, RowUpdate},
    sources::Sources,
    updates::Update,
};
use crate::error::EngineError;

/// The pieces of a task, and the nodes that they compute.
pub(super) fn pieces(
    values: &Materialized<'_>,
    time: Time,
    task: &Task,
) -> Result<(SmallVec<[Piece; 2]>, Sources), EngineError> {
    let piece = match task {
        Task::Kernel { of, kernel, out, partials } => {
            let (pieces, computed) = fuse::pieces(values, time, kernel, *out, *partials)?;
            let nodes = computed.into_iter().chain([*of]);
            return Ok((pieces, Sources::of_kernel(values.graph, nodes, kernel)));
        }
        Task::Product(id, operands, out) => {
            Piece::MatMul(Box::new(product(values, *id, operands, *out, time)?))
        }
        Task::Routine(id, op, out) => {
            Piece::Routine(Box::new(routine(values, *id, *op, *out, time)?))
        }
        Task::Update(id, update, out) => {
            Piece::Routine(Box::new(row_update(values, *id, update, *out, time)?))
        }
        Task::Attention(call) => Piece::Attention(Box::new(attention(values, call, time)?)),
    };
    let sources = Sources::of_piece(values.graph, task, &piece);
    Ok((SmallVec::from_iter([piece]), sources))
}

fn product(
    values: &Materialized<'_>,
    id: NodeId,
    operands: &[NodeId; 2],
    out: BufferId,
    time: Time,
) -> Result<MatMul, EngineError> {
    let [a, b] = *operands;
    let ty = values.ty(id);
    let (sizes, rank) = (ty.shape.sizes(), ty.shape.rank());
    Ok(MatMul {
        dtype: ty.dtype,
        batch: sizes[..rank - 2].iter().copied().collect(),
        m: sizes[rank - 2],
        n: sizes[rank - 1],
        k: values.ty(a).shape.sizes()[rank - 1],
        lhs: matrix(values, a, time)?,
        rhs: matrix(values, b, time)?,
        out,
        by: Multiplier::Rows,
    })
}

fn routine(
    values: &Materialized<'_>,
    id: NodeId,
    op: Op,
    out: BufferId,
    time: Time,
) -> Result<Routine, EngineError> {
    let operands = values.graph.operands(id);
    let (mut inputs, mut scalars) = (SmallVec::new(), SmallVec::new());
    if is_of_literals(values.graph, id) {
        let all = operands.iter().map(|&id| scalar(values.graph, id));
        scalars = all.collect::<Result<_, _>>()?;
    } else {
        let operand = |&id| Ok((values.place(id, time).ok_or_else(absent)?, values.ty(id)));
        inputs = operands.iter().map(operand).collect::<Result<_, EngineError>>()?;
    }
    let read = read(values.graph, id, op);
    Ok(Routine { op, inputs, scalars, out, out_ty: values.ty(id), read, update: None })
}

fn row_update(
    values: &Materialized<'_>,
    id: NodeId,
    update: &Update,
    out: BufferId,
    time: Time,
) -> Result<Routine, EngineError> {
    let operand = |id| Ok((values.place(id, time).ok_or_else(absent)?, values.ty(id)));
    let inputs = update.operands().into_iter().map(operand).collect::<Result<_, EngineError>>()?;
    let literals = [Some(update.number), update.scale].into_iter().flatten();
    let scalars = literals.map(|id| scalar(values.graph, id)).collect::<Result<_, _>>()?;
    let Update { kind, is_checked, .. } = *update;
    let op = Op::IndexAdd(attr::Axis(0));
    let update = Some(RowUpdate { kind, is_checked });
    Ok(Routine { op, inputs, scalars, out, out_ty: values.ty(id), read: 0..0, update })
}

/// The positions from the first to the last that anybody reads: along the axis of an order, along
/// the first axis of random numbers.
#[expect(clippy::wildcard_enum_match_arm, reason = "other routines compute all of their result")]
fn read(graph: &Graph, id: NodeId, op: Op) -> Range<usize> {
    let axis = match op {
        Op::ArgSort(order) => order.axis,
        Op::Rand(_) | Op::Randn(_) | Op::Randint(_) => 0,
        _ => return 0..0,
    };
    let sizes = graph.node(id).ty.shape.sizes();
    let all = 0..sizes.get(usize::from(axis)).copied().unwrap_or(1);
    let slices = graph.users(id).into_iter().map(|user| match graph.node(user).kind {
        NodeKind::Op(Op::Slice(s)) if s.axis == axis => {
            s.start as usize..(s.stop as usize).min(all.end)
        }
        NodeKind::Op(_) | NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => {
            all.clone()
        }
    });
    match slices.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) {
        Some(slices) if !graph.outputs().contains(&id) => slices,
        Some(_) | None => all,
    }
}

/// An operand of a library's work as strides over what is materialized.
fn matrix(values: &Materialized<'_>, id: NodeId, time: Time) -> Result<Matrix, EngineError> {
    let (base, map) = values.base(id, time);
    let (buffer, strides) = values.held(base, time).ok_or_else(absent)?;
    let access = index::strided(&map, &strides, values.ty(id).shape.rank());
    Ok(Matrix { buffer, access })
}

/// The piece of a call.
fn attention(values: &Materialized<'_>, call: &Call, time: Time) -> Result<Attention, EngineError> {
    let (kind, [q, k, v, scale]) = call.operands;
    let [batch, heads, length, width] = values.sizes_of(q)?;
    let [_, _, positions, _] = values.sizes_of(k)?;
    let back = match call.back {
        Some((grad, grads)) => Some(Back { grad: matrix(values, grad, time)?, grads }),
        None => None,
    };
    Ok(Attention {
        dtype: values.ty(q).dtype,
        causal: kind == attr::Attention::Causal,
        batch,
        heads,
        length,
        positions,
        width,
        scale: scalar(values.graph, scale)?,
        query: matrix(values, q, time)?,
        key: matrix(values, k, time)?,
        value: matrix(values, v, time)?,
        out: call.out,
        sums: call.sums,
        back,
    })
}
