//! How engines compute a primitive: the class of loop, view, product or routine it is.
//!
//! This is the one exhaustive match of scheduling and of the cost model, so that a new primitive is
//! a compile error here. It says nothing of types, shapes or costs.

use gt_ir::{Op, attr, op::Primitive};

use crate::kernel::{Binary, Unary};

/// How an engine computes a primitive.
pub(crate) enum Action {
    Unary(Unary),
    Binary(Binary),
    Where,
    Cast,
    View,
    Reshape,
    Iota,
    Reduce(Binary, attr::Reduce),
    MatMul,
    Cat(attr::Axis),
    Pad,
    Routine,
    /// A derived op that is no loop: an expanded graph has one where the engine's library has a
    /// call for it.
    Call,
}

/// What an engine does with a derived op that it keeps.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other ops are calls")]
fn kept(op: &Op) -> Action {
    match *op {
        Op::Scan(_)
        | Op::Scatter(_)
        | Op::ScatterMax(_)
        | Op::ScatterMin(_)
        | Op::ScatterMul(_)
        | Op::IndexCopy(_)
        | Op::CumProd(_)
        | Op::CumMax(_)
        | Op::CumMin(_) => Action::Routine,
        Op::Flip(_) => Action::View,
        Op::Prod(reduce) => Action::Reduce(Binary::Mul, reduce),
        _ => Action::Call,
    }
}

/// The action of an op.
pub(crate) fn action(op: &Op) -> Action {
    let Some(primitive) = op.primitive() else {
        return kept(op);
    };
    match primitive {
        Primitive::Unary(op) => Action::Unary(op),
        Primitive::Binary(op) => Action::Binary(op),
        Primitive::Where => Action::Where,
        Primitive::Cast(_) => Action::Cast,
        Primitive::Permute(_)
        | Primitive::Expand(_)
        | Primitive::Slice(_)
        | Primitive::Unfold(_) => Action::View,
        Primitive::Reshape(_) => Action::Reshape,
        Primitive::Iota(_) => Action::Iota,
        Primitive::Sum(reduce) => Action::Reduce(Binary::Add, reduce),
        Primitive::Max(reduce) => Action::Reduce(Binary::Maximum, reduce),
        Primitive::Min(reduce) => Action::Reduce(Binary::Minimum, reduce),
        Primitive::MatMul => Action::MatMul,
        Primitive::Cat(axis) => Action::Cat(axis),
        Primitive::Pad(_) => Action::Pad,
        Primitive::CumSum(_)
        | Primitive::ArgSort(_)
        | Primitive::Cholesky
        | Primitive::TriangularSolve(_)
        | Primitive::Solve
        | Primitive::Determinant
        | Primitive::Qr(_)
        | Primitive::Eigh(_)
        | Primitive::Svd(_)
        | Primitive::MatrixExp
        | Primitive::Fft(_)
        | Primitive::Gather(_)
        | Primitive::ScatterAdd(_)
        | Primitive::IndexSelect(_)
        | Primitive::IndexAdd(_) => Action::Routine,
        Primitive::Rand(_) | Primitive::Randn(_) | Primitive::Randint(_) => Action::Routine,
    }
}
