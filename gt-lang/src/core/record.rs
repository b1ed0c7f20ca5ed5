//! How an operation becomes an instruction: operands are resolved, the result's type inferred, the
//! entry written.
//!
//! Guarantees: nothing is recorded when an operand carries an error, sessions are mixed, or the op
//! does not take its operands; the result then carries the first such error. Every method of a
//! tensor ends here.

use std::panic::Location;
use std::sync::Arc;

use gt_ir::attr::Axis;
use gt_ir::op::Grad;
use gt_ir::tape::MAX_OPERANDS;
use gt_ir::tape::Operands;
use gt_ir::{Loc, Op, OpError, Operand, OperandType, Scalar, Type, infer};
use smallvec::{SmallVec, smallvec};

use super::arg::{is_axis_of_scalar, resolve_axis};
use super::capture::{self, Noted};
use super::saved::save;
use super::tensor::{Held, Made, NO_TYPE, Node, Repr, TapeValue};
use super::{Arg, DynTensor};
use crate::autocast::{Cast, cast_for};
use crate::error::{Error, ErrorKind};
use crate::no_grad::is_grad_enabled;
use crate::session::{Place, Session};

/// The type of an operand not yet looked at.
const NO_OPERAND: OperandType = OperandType::Scalar(Scalar::Bool(false));

impl DynTensor {
    /// Records `op` on these operands; every operation goes through here. For ops and attributes
    /// the methods do not offer.
    #[must_use]
    #[track_caller]
    pub fn record(op: Op, args: &[Arg<'_>]) -> DynTensor {
        record_at(&op, args, Location::caller())
    }

    /// Records an op whose attribute depends on this tensor's type.
    #[track_caller]
    pub(crate) fn record_with(&self, op: impl FnOnce(&Type) -> Result<Op, OpError>) -> DynTensor {
        self.record_with_args(&[Arg::Tensor(self)], op)
    }

    /// Records an op along one axis of this tensor, whose operands are this tensor and the others.
    #[track_caller]
    pub(crate) fn along(&self, axis: i64, op: fn(Axis) -> Op, others: &[&DynTensor]) -> DynTensor {
        if let Some(line) = self.line(axis) {
            let given_rank = others.first().map_or(0, |index| index.rank());
            let others: SmallVec<[DynTensor; 2]> = others
                .iter()
                .map(|other| other.line(0).unwrap_or_else(|| (*other).clone()))
                .collect();
            let others: SmallVec<[&DynTensor; 2]> = others.iter().collect();
            let y = line.along(0, op, &others);
            // What is gathered has the shape of the index.
            let is_gathered = matches!(op(Axis(0)), Op::Gather(_));
            return if is_gathered && given_rank > 0 { y } else { y.reshape(()) };
        }
        let name = op(Axis(0)).name();
        let mut args: SmallVec<[Arg<'_>; 3]> = smallvec![Arg::Tensor(self)];
        args.extend(others.iter().map(|other| Arg::Tensor(other)));
        self.record_with_args(&args, |ty| Ok(op(Axis(resolve_axis(name, axis, ty)? as u8))))
    }

    /// This tensor as a line of one element, where it has no axes and one is asked for: as in
    /// PyTorch, 0 and -1 are axes of it.
    #[track_caller]
    pub(crate) fn line(&self, axis: i64) -> Option<DynTensor> {
        (self.rank() == 0 && is_axis_of_scalar(axis) && self.error().is_none())
            .then(|| self.reshape([1]))
    }

    /// Records an op whose attribute depends on this tensor's type.
    #[track_caller]
    pub(crate) fn record_with_args(
        &self,
        args: &[Arg<'_>],
        op: impl FnOnce(&Type) -> Result<Op, OpError>,
    ) -> DynTensor {
        let at = Location::caller();
        let value = self.0.hold();
        match value
            .place()
            .map_err(Error::clone)
            .and_then(|_| op(&value.ty).map_err(|e| Error::from_op(e, at)))
        {
            Ok(op) => record_at(&op, args, at),
            Err(error) => DynTensor::failed(error, value.ty),
        }
    }
}

/// Records an instruction for a call in the user's program; an error becomes the tensor.
pub(crate) fn record_at(op: &Op, args: &[Arg<'_>], at: &'static Location<'static>) -> DynTensor {
    match in_precision(op, args, at) {
        Ok(tensor) => tensor,
        Err(error) => DynTensor::failed(error, likely_type(args)),
    }
}

/// What the result of a failed operation pretends to be: the first of the operands that have most
/// axes.
fn likely_type(args: &[Arg<'_>]) -> Type {
    let types = args.iter().filter_map(|arg| match arg {
        Arg::Tensor(tensor) => Some(tensor.ty()),
        Arg::Scalar(_) => None,
    });
    let larger = |a: Type, b: Type| if b.shape.rank() > a.shape.rank() { b } else { a };
    types.reduce(larger).unwrap_or(NO_TYPE)
}

/// Records an instruction on the operands that [`autocast`](crate::autocast()) makes of these.
///
/// The casts are instructions like any other: gradients flow back through them to the dtype of the
/// operand.
fn in_precision(
    op: &Op,
    args: &[Arg<'_>],
    at: &'static Location<'static>,
) -> Result<DynTensor, Error> {
    let place = capture::place(at);
    let Some(cast) = cast_for(op) else { return try_record(op, args, place) };
    let Cast { from, to } = cast.map_err(|error| Error::from_op(error, at))?;
    let changes = |arg: &Arg<'_>| match arg {
        Arg::Tensor(x) => from.contains(&x.dtype()) && x.dtype() != to,
        Arg::Scalar(_) => false,
    };
    if !args.iter().any(changes) {
        return try_record(op, args, place);
    }
    let cast = |arg| changes(arg).then(|| record_at(&Op::Cast(to), &[*arg], at));
    let tensors: SmallVec<[Option<DynTensor>; 3]> = args.iter().map(cast).collect();
    let args = args.iter().zip(&tensors);
    let args = args.map(|(arg, tensor)| tensor.as_ref().map_or(*arg, Arg::Tensor));
    try_record(op, &args.collect::<SmallVec<[Arg<'_>; 3]>>(), place)
}

/// Records an instruction, tracked if an operand is; its first error is the result.
///
/// The order matters: an operand that carries an error gives its error, then sessions are compared,
/// then the type rule is asked. Nothing is on the tape unless all of them agree.
pub(crate) fn try_record(op: &Op, args: &[Arg<'_>], at: Place) -> Result<DynTensor, Error> {
    if args.len() > MAX_OPERANDS {
        let message = format!(
            "{}: {} operands are more than the {MAX_OPERANDS} an instruction takes",
            op.name(),
            args.len()
        );
        let error = Error::new(ErrorKind::Operation, message, at);
        return Err(error.hint("join them a few at a time, and the results then"));
    }
    let mut held: SmallVec<[Option<Held<'_>>; 3]> = SmallVec::new();
    let mut operands = Operands::new();
    // Types are large: each is copied once, to where it stays.
    let mut few = [NO_OPERAND; 3];
    let mut many = Vec::new();
    let types = match few.get_mut(..args.len()) {
        Some(few) => few,
        None => {
            many.resize(args.len(), NO_OPERAND);
            &mut many[..]
        }
    };
    for (arg, ty) in args.iter().zip(&mut *types) {
        match arg {
            Arg::Scalar(scalar) => {
                held.push(None);
                operands.push(Operand::Scalar(*scalar));
                *ty = OperandType::Scalar(*scalar);
            }
            Arg::Tensor(tensor) => {
                let value = tensor.0.hold();
                let (_, id) = value.place().map_err(Error::clone)?;
                operands.push(Operand::Value(id));
                *ty = OperandType::Tensor(value.ty);
                held.push(Some(value));
            }
        }
    }
    let session = one_session(op, &held, at)?;
    let ty = match infer(op, types) {
        Ok(ty) => ty,
        Err(error) => return Err(Error::from_op(error, at)),
    };
    let (id, loc) = session.instr(op, operands, types, &ty, at);
    let tracked = tracks(op, args, ty);
    let gradient = if tracked { Loc::NONE } else { gradient_among(args, &held) };
    let value = TapeValue::live(session, id, ty, Made { gradient, ..made(op, loc) });
    let result = if tracked {
        let node = Node::new(op, loc, id, save(op, args, &held, &value));
        DynTensor(Repr::Tracked(value, node))
    } else {
        DynTensor::plain(value)
    };
    capture::note(op, || args.iter().map(noted).collect(), &result, loc);
    Ok(result)
}

fn noted(arg: &Arg<'_>) -> Noted {
    match arg {
        Arg::Tensor(tensor) => Noted::Tensor(tensor.present()),
        Arg::Scalar(scalar) => Noted::Scalar(*scalar),
    }
}

/// The origin of a value that this op gives.
fn made(op: &Op, loc: Loc) -> Made {
    Made { op: Some(op.kind()), loc, gradient: Loc::NONE }
}

/// Where the gradient was asked for that the result of an instruction comes of, if it comes of an
/// untracked one.
fn gradient_among(args: &[Arg<'_>], held: &[Option<Held<'_>>]) -> Loc {
    let plain = args.iter().zip(held).filter_map(|(arg, held)| match (arg, held) {
        (Arg::Tensor(DynTensor(Repr::Plain(_))), Some(held)) => Some(held.made.gradient),
        _ => None,
    });
    plain.into_iter().find(|loc| *loc != Loc::NONE).unwrap_or(Loc::NONE)
}

/// Records an instruction whose operands are all literals in a given session; its result is `like`
/// that, even where it fails.
pub(crate) fn record_in(
    session: &Session,
    op: &Op,
    args: &[Scalar],
    like: Type,
    at: &'static Location<'static>,
) -> DynTensor {
    let operands: SmallVec<[Operand; 3]> = args.iter().map(|&s| Operand::Scalar(s)).collect();
    let types: SmallVec<[OperandType; 3]> = args.iter().map(|&s| OperandType::Scalar(s)).collect();
    match infer(op, &types) {
        Ok(ty) => {
            let (id, loc) = session.instr(op, operands, &types, &ty, capture::place(at));
            DynTensor::plain(TapeValue::live(session.clone(), id, ty, made(op, loc)))
        }
        Err(error) => DynTensor::failed(Error::from_op(error, at), like),
    }
}

/// The session of all operands; the current session where no operand is a tensor.
fn one_session(op: &Op, held: &[Option<Held<'_>>], at: Place) -> Result<Session, Error> {
    let mut sessions =
        held.iter().flatten().filter_map(|v| v.place().ok().map(|(session, _)| session));
    let Some(first) = sessions.next() else { return Session::current().map_err(|e| e.or_at(at)) };
    if sessions.all(|s| s.is(first)) {
        return Ok(first.clone());
    }
    let message = format!("{}: the operands belong to different sessions", op.name());
    let hint = "read one with `to_vec` and give it to the other session with `from_vec`";
    Err(Error::new(ErrorKind::Session, message, at).hint(hint))
}

/// Whether gradients flow through this instruction.
///
/// An op of gradient zero, such as a comparison, ends the history even of a leaf.
fn tracks(op: &Op, args: &[Arg<'_>], ty: Type) -> bool {
    let wanted = |arg: &Arg<'_>| match arg {
        Arg::Tensor(tensor) => tensor.is_tracked(),
        Arg::Scalar(_) => false,
    };
    args.iter().any(wanted)
        && ty.dtype.is_float()
        && is_grad_enabled()
        && !matches!(op.spec().grad, Grad::Zero)
}

/// Where an instruction of a walk stands, and where the walk was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Stands {
    pub(crate) at: Loc,
    pub(crate) walk: Loc,
}

/// Records an untracked instruction on given values: what `backward` does.
pub(crate) fn record_plain(
    session: &Session,
    op: &Op,
    operands: &[Operand],
    types: &[OperandType],
    stands: Stands,
) -> Result<Arc<TapeValue>, OpError> {
    let ty = infer(op, types)?;
    let place = Place::Known(stands.at);
    let (id, loc) = session.instr(op, Operands::from_slice(operands), types, &ty, place);
    let made = Made { gradient: stands.walk, ..made(op, loc) };
    Ok(TapeValue::live(session.clone(), id, ty, made))
}
