//! The errors of failed work on a worker: their kinds and messages.

use gt_compiler::engine::{Arg, EngineError};
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::error::Hinted as _;
use gt_ir::{Instr, Loc, ValueId};

use crate::wire::codec::cut;

pub(super) fn kind(error: &EngineError) -> ErrorKind {
    match error {
        EngineError::Op(_) | EngineError::Index { .. } => ErrorKind::Instruction,
        EngineError::OutOfMemory { .. } | EngineError::Device(_) => ErrorKind::Resource,
        EngineError::Call(_)
        | EngineError::Missing { .. }
        | EngineError::Codegen(_)
        | EngineError::Torch(_) => ErrorKind::Internal,
    }
}

/// The engine's message, after the op and the operands' types.
pub(super) fn describe(error: &EngineError, instr: &Instr, args: &[Arg<'_>]) -> String {
    if let EngineError::Op(error) = error {
        return error.message.clone();
    }
    let operands: Vec<String> = args
        .iter()
        .map(|arg| match arg {
            Arg::Value(value) => value.ty.to_string(),
            Arg::Scalar(scalar) => scalar.to_string(),
        })
        .collect();
    let (error, op) = (error.message(), instr.op.to_string());
    let why = error.strip_prefix(&op).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&error);
    format!("{op} of {}: {why}", operands.join(", "))
}

/// The error of a value on the worker of this name.
pub(super) fn error(
    kind: ErrorKind,
    message: String,
    value: ValueId,
    loc: Loc,
    worker: &str,
) -> RunError {
    let (value, worker) = (Some(value), Some(worker.to_owned()));
    RunError { value, loc, worker, ..RunError::new(kind, cut(message)) }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason given".into())
}
