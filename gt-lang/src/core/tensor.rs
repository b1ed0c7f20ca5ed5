//! The tensor itself: a name of a value in some session, or the error that kept the value from
//! being made.
//!
//! Guarantees: cloning copies two pointers at most; the last clone to go frees the value on the
//! tape. A tensor is one of three things: *plain* (no gradient flows through it), *tracked* (the
//! result of operations on something that requires a gradient) or a *variable* (a leaf that
//! collects a gradient and whose value can be replaced, so that every clone of it sees an
//! optimizer's update).

mod node;
pub(crate) mod substitute;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use gt_ir::{DType, Loc, OpKind, Shape, Type, ValueId};

use crate::error::Error;
use crate::session::Session;
pub(crate) use node::{
    ByHand, Call, Edge, Input, Inputs, Leaf, Node, Order, Rule, Saved, edge, tensor,
};
pub(crate) use watch::Watch;

/// What a failed operation without tensor operands pretends to be.
pub(crate) const NO_TYPE: Type = Type { dtype: DType::F32, shape: Shape::SCALAR };

/// A tensor whose dtype and shape are known at run time; see the [module](crate::core).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let x = DynTensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// let y = (x.softmax(-1) * 2.0 - 1.0).matmul(&x.t()); // recorded: nothing runs here
/// assert_eq!(y.sizes(), [2, 2]);
/// let values: Vec<f32> = y.to_vec()?; // a read waits, and raises what went wrong
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone)]
pub struct DynTensor(pub(crate) Repr);

/// How gradients concern a tensor.
///
/// A *variable* holds its value behind a lock, because all its clones see an update; the other two
/// are immutable.
#[derive(Clone)]
pub(crate) enum Repr {
    /// No gradient flows through it.
    Plain(Arc<TapeValue>),
    /// A result through which gradients flow.
    Tracked(Arc<TapeValue>, Arc<Node>),
    /// A leaf that requires a gradient.
    Variable(Arc<Variable>),
}

/// A leaf: its present value, and where its gradient gathers.
pub(crate) struct Variable {
    pub(crate) current: Mutex<Arc<TapeValue>>,
    pub(crate) leaf: Arc<Leaf>,
}

/// A value of a session. The last reference to go records that the value is free.
pub(crate) struct TapeValue {
    pub(crate) ty: Type,
    pub(crate) made: Made,
    pub(crate) state: State,
}

/// Who made a value, and where.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    /// The op; none made data from outside.
    pub(crate) op: Option<OpKind>,
    pub(crate) loc: Loc,
    /// Where the gradient was asked for that it is, or comes of, if nothing of it is tracked.
    pub(crate) gradient: Loc,
}

/// Whether a value exists on the tape.
pub(crate) enum State {
    /// Recorded, and alive until this is dropped.
    Live { session: Session, id: ValueId },
    /// Never recorded, for this reason.
    Failed(Error),
}

impl TapeValue {
    /// A value that was recorded under this name.
    pub(crate) fn live(session: Session, id: ValueId, ty: Type, made: Made) -> Arc<TapeValue> {
        Arc::new(TapeValue { ty, made, state: State::Live { session, id } })
    }

    /// A value that an error kept from being recorded; `like` is the type it pretends to have.
    pub(crate) fn failed(error: Error, ty: Type) -> Arc<TapeValue> {
        let made = Made { op: None, loc: error.loc(), gradient: Loc::NONE };
        Arc::new(TapeValue { ty, made, state: State::Failed(error) })
    }

    /// The session and the name of a recorded value, or the error that kept it from being recorded.
    pub(crate) fn place(&self) -> Result<(&Session, ValueId), &Error> {
        match &self.state {
            State::Live { session, id } => Ok((session, *id)),
            State::Failed(error) => Err(error),
        }
    }
}

impl Drop for TapeValue {
    fn drop(&mut self) {
        if let State::Live { session, id } = &self.state {
            session.free(*id);
        }
    }
}

impl Variable {
    /// The present value, or that of what stands for the leaf.
    pub(crate) fn get(&self) -> Arc<TapeValue> {
        if let Some(substitute) = substitute::of(self.leaf.order) {
            return substitute.value();
        }
        // Nothing can panic while the lock is held, and a replaced value is whole either way.
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value; the old one is dropped after the lock is released.
    pub(crate) fn set(&self, value: Arc<TapeValue>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, value);
        drop(current);
        drop(old);
    }
}

/// The value of an operand: a variable's present value is kept alive while it is recorded.
pub(crate) enum Held<'a> {
    Borrowed(&'a Arc<TapeValue>),
    Owned(Arc<TapeValue>),
}

impl std::ops::Deref for Held<'_> {
    type Target = Arc<TapeValue>;
    fn deref(&self) -> &Arc<TapeValue> {
        match self {
            Held::Borrowed(value) => value,
            Held::Owned(value) => value,
        }
    }
}

impl Repr {
    /// The value, kept alive while an instruction is recorded on it.
    pub(crate) fn hold(&self) -> Held<'_> {
        match self {
            Repr::Plain(value) | Repr::Tracked(value, _) => Held::Borrowed(value),
            Repr::Variable(variable) => Held::Owned(variable.get()),
        }
    }
}

impl DynTensor {
    /// A tensor without a history.
    pub(crate) fn plain(value: Arc<TapeValue>) -> DynTensor {
        DynTensor(Repr::Plain(value))
    }

    /// The present value, shared.
    pub(crate) fn value(&self) -> Arc<TapeValue> {
        match &self.0 {
            Repr::Plain(value) | Repr::Tracked(value, _) => value.clone(),
            Repr::Variable(variable) => variable.get(),
        }
    }

    /// Reads the present value; a plain or tracked tensor is not cloned for it.
    pub(crate) fn with_value<R>(&self, read: impl FnOnce(&TapeValue) -> R) -> R {
        match &self.0 {
            Repr::Plain(value) | Repr::Tracked(value, _) => read(value),
            Repr::Variable(variable) => read(&variable.get()),
        }
    }

    /// A tensor that carries an error into everything derived from it; `like` is the dtype and
    /// shape it pretends to have.
    pub fn failed(error: Error, like: Type) -> DynTensor {
        DynTensor::plain(TapeValue::failed(error, like))
    }

    /// This tensor, in this shape if it carries an error: what the result would have had.
    #[must_use]
    pub(crate) fn or_failed_as(self, shape: Shape) -> DynTensor {
        match self.error() {
            Some(error) => DynTensor::failed(error, Type { dtype: self.dtype(), shape }),
            None => self,
        }
    }

    /// The error this tensor carries, if it or something it derives from could not be recorded.
    /// Does not wait: errors of the worker are reported by reads.
    pub fn error(&self) -> Option<Error> {
        self.with_value(|v| v.place().err().cloned())
    }

    /// Whether it is a value that was never recorded; leaves, whose value may be one, aside.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(&self.0, Repr::Plain(value) if matches!(value.state, State::Failed(_)))
    }

    /// Dtype and shape. Of a tensor that carries an error: those asked for where they are known
    /// (unknown sizes are 0), else those of the operand of what failed that has most axes.
    pub fn ty(&self) -> Type {
        self.with_value(|v| v.ty)
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.with_value(|v| v.ty.dtype)
    }

    /// The shape, with the names of its dimensions.
    pub fn shape(&self) -> Shape {
        self.with_value(|v| v.ty.shape)
    }

    /// The sizes, outermost first.
    pub fn sizes(&self) -> Vec<usize> {
        self.with_value(|v| v.ty.shape.sizes().to_vec())
    }

    /// The number of dimensions.
    #[doc(alias("dim", "ndim"))]
    pub fn rank(&self) -> usize {
        self.with_value(|v| v.ty.shape.rank())
    }

    /// The size of one axis, negative axes counting from the end; 0 where there is no such axis.
    pub fn size(&self, axis: i64) -> usize {
        let shape = self.shape();
        let axis = if axis < 0 { axis + shape.rank() as i64 } else { axis };
        usize::try_from(axis).ok().and_then(|a| shape.sizes().get(a).copied()).unwrap_or(0)
    }

    /// The number of elements.
    #[doc(alias = "nelement")]
    pub fn numel(&self) -> usize {
        self.with_value(|v| v.ty.shape.numel())
    }

    /// The session the tensor lives in; `None` if it carries an error.
    pub fn session(&self) -> Option<Session> {
        self.with_value(|v| v.place().ok().map(|(session, _)| session.clone()))
    }

    /// The name of the value on the tape; `None` if the tensor carries an error.
    pub fn value_id(&self) -> Option<ValueId> {
        self.with_value(|v| v.place().ok().map(|(_, id)| id))
    }
}
