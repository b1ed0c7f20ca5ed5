//! What expansions and gradient rules are written against: something that takes instructions and
//! knows the types of values.
//!
//! The graph builder and the client's recorder implement [`Emit`]; `Build` gives every implementor
//! the ops by name.

use crate::{
    attr::{Axis, AxisSet, Keep, Pad, Perm, Reduce, Slice},
    dtype::DType,
    error::OpError,
    op::{Op, Operand, OperandType},
    shape::{Shape, Type},
    tape::ValueId,
};

/// A sink of instructions.
pub trait Emit {
    /// Adds `op` applied to `inputs` and names its result.
    ///
    /// # Errors
    /// The op's type rule refuses the operands.
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError>;

    /// The type of a value given to or returned by [`Emit::emit`].
    fn ty(&self, value: ValueId) -> Type;

    /// What a type rule sees of an operand.
    fn operand_type(&self, operand: Operand) -> OperandType {
        match operand {
            Operand::Value(v) => OperandType::Tensor(self.ty(v)),
            Operand::Scalar(s) => OperandType::Scalar(s),
        }
    }
}

/// The result of emitting one instruction.
pub type Emitted = Result<ValueId, OpError>;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $op:ident),* $(,)?) => { $(
        $(#[$doc])*
        fn $name(&mut self, x: impl Into<Operand>) -> Emitted { self.emit(Op::$op, &[x.into()]) }
    )* };
}
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident => $op:ident),* $(,)?) => { $(
        $(#[$doc])*
        fn $name(&mut self, x: impl Into<Operand>, y: impl Into<Operand>) -> Emitted {
            self.emit(Op::$op, &[x.into(), y.into()])
        }
    )* };
}

/// The ops as methods, for rules. Each emits one instruction unless it says otherwise.
pub(crate) trait Build: Emit {
    unary! {
        neg => Neg, abs => Abs, exp => Exp, log => Log, sqrt => Sqrt, rsqrt => Rsqrt, sin => Sin,
        cos => Cos, tanh => Tanh, erf => Erf, sigmoid => Sigmoid, logical_not => LogicalNot,
    }
    binary! {
        add => Add, sub => Sub, mul => Mul, div => Div, pow => Pow, maximum => Maximum,
        minimum => Minimum, eq => Eq, lt => Lt, gt => Gt, ge => Ge, le => Le,
        logical_or => LogicalOr, logical_and => LogicalAnd, matmul => MatMul,
    }

    /// x where the condition holds, else y.
    fn select(&mut self, c: ValueId, x: impl Into<Operand>, y: impl Into<Operand>) -> Emitted {
        self.emit(Op::Where, &[c.into(), x.into(), y.into()])
    }

    /// Nothing when the dtype is right already.
    fn cast(&mut self, x: ValueId, dtype: DType) -> Emitted {
        if self.ty(x).dtype == dtype { Ok(x) } else { self.emit(Op::Cast(dtype), &[x.into()]) }
    }

    /// One number everywhere.
    fn full(&mut self, ty: Type, value: impl Into<Operand>) -> Emitted {
        self.emit(Op::Full(ty), &[value.into()])
    }

    /// The sum over axes.
    fn sum(&mut self, x: ValueId, axes: AxisSet, keep: Keep) -> Emitted {
        self.emit(Op::Sum(Reduce { axes, keep }), &[x.into()])
    }

    /// The mean over axes.
    fn mean(&mut self, x: ValueId, axes: AxisSet, keep: Keep) -> Emitted {
        self.emit(Op::Mean(Reduce { axes, keep }), &[x.into()])
    }

    /// The maximum over axes.
    fn max(&mut self, x: ValueId, axes: AxisSet, keep: Keep) -> Emitted {
        self.emit(Op::Max(Reduce { axes, keep }), &[x.into()])
    }

    /// Nothing when the shape, names included, is right already.
    fn reshape(&mut self, x: ValueId, shape: Shape) -> Emitted {
        if self.ty(x).shape == shape { Ok(x) } else { self.emit(Op::Reshape(shape), &[x.into()]) }
    }

    /// Nothing when the shape, names included, is right already.
    fn expand(&mut self, x: ValueId, shape: Shape) -> Emitted {
        if self.ty(x).shape == shape { Ok(x) } else { self.emit(Op::Expand(shape), &[x.into()]) }
    }

    fn permute(&mut self, x: ValueId, perm: Perm) -> Emitted {
        self.emit(Op::Permute(perm), &[x.into()])
    }

    /// An axis moved to another place; the others keep their order.
    fn movedim(&mut self, x: ValueId, from: usize, to: usize) -> Emitted {
        let rank = self.ty(x).shape.rank();
        let mut order: Vec<usize> = (0..rank).filter(|a| *a != from).collect();
        order.insert(to.min(order.len()), from);
        let perm = Perm::new(&order);
        self.permute(x, perm.ok_or_else(|| OpError::new("movedim: the axis is out of range"))?)
    }

    /// The last two axes exchanged; `x` has at least two.
    fn transpose_last(&mut self, x: ValueId) -> Emitted {
        let rank = self.ty(x).shape.rank();
        let perm = Perm::swap(rank, rank.wrapping_sub(2), rank.wrapping_sub(1));
        self.permute(
            x,
            perm.ok_or_else(|| OpError::new("transpose: needs at least two dimensions"))?,
        )
    }

    fn slice(&mut self, x: ValueId, slice: Slice) -> Emitted {
        self.emit(Op::Slice(slice), &[x.into()])
    }

    fn pad(&mut self, x: ValueId, pad: Pad) -> Emitted {
        self.emit(Op::Pad(pad), &[x.into(), 0_i64.into()])
    }

    /// The elements of x that the index names along an axis.
    fn gather(&mut self, x: ValueId, axis: Axis, index: Operand) -> Emitted {
        self.emit(Op::Gather(axis), &[x.into(), index])
    }

    /// Axes put back with size 1 where a reduction without `keep` took them from `like`; nothing
    /// when they are there.
    fn unreduce(&mut self, x: ValueId, like: Shape, axes: AxisSet) -> Emitted {
        let dims = like
            .dims()
            .enumerate()
            .map(|(i, d)| if axes.contains(i) { crate::shape::Dim::new(1) } else { d });
        self.reshape(x, Shape::collect(dims)?)
    }

    /// The adjoint of broadcasting and casting: sums and casts `x` back to type `to`.
    fn sum_to(&mut self, x: ValueId, to: Type) -> Emitted {
        let from = self.ty(x).shape;
        let lead = from.rank() - to.shape.rank();
        let axes: AxisSet = (0..from.rank())
            .filter(|&i| i < lead || (to.shape.sizes()[i - lead] == 1 && from.sizes()[i] != 1))
            .collect();
        let summed = if axes.is_empty() { x } else { self.sum(x, axes, Keep::No)? };
        let shaped = if self.ty(summed).shape.same_sizes(&to.shape) {
            summed
        } else {
            self.reshape(summed, to.shape)?
        };
        self.cast(shaped, to.dtype)
    }
}

impl<E: Emit + ?Sized> Build for E {}
