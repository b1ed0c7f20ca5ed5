//! The one error of the front end: what went wrong, at which line of the user's program, and what
//! would cure it.
//!
//! Guarantees: cheap to clone, since one cause travels into everything derived from a bad
//! operation. Prints as message, place, then a hint when one is known:
//!
//! ```text
//! matmul: inner sizes differ: f32[3,4] and f32[5,6]
//!   at src/main.rs:12:9
//!   hint: ...
//! ```
//!
//! `{:?}` prints the same, since that is what `fn main() -> Result<()>` and `unwrap` show.

use std::fmt;
use std::sync::Arc;

use gt_ir::backend::RunError;
use gt_ir::{Loc, OpError};

/// What reads of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a tensor could not be made or read.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let product = DynTensor::ones([2, 3], DType::F32).matmul(&DynTensor::ones([2], DType::F32));
/// if let Err(error) = product.item() {
///     println!("{} at line {}", error.message(), error.loc().line());
/// }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error(Arc<Cause>);

/// What every clone of an error shares.
#[derive(PartialEq, Eq)]
struct Cause {
    kind: ErrorKind,
    message: String,
    loc: Loc,
    hint: Option<String>,
    worker: Option<String>,
}

/// Whose fault an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An operation was given operands it does not take.
    Operation,
    /// Tensors of different sessions met, or no session could be opened.
    Session,
    /// A signal scope was ended that is not the innermost.
    Signal,
    /// A gradient was asked for of a tensor that has none.
    Gradient,
    /// Data was given or read with the wrong size or dtype.
    Data,
    /// The running system failed: an instruction at run time, a worker, the connection.
    Run,
}

impl Error {
    /// An error at a place of the user's program.
    pub fn new(kind: ErrorKind, message: impl Into<String>, loc: impl Into<Loc>) -> Error {
        Error(Arc::new(Cause {
            kind,
            message: message.into(),
            loc: loc.into(),
            hint: None,
            worker: None,
        }))
    }

    /// The error of an op that does not take its operands.
    pub fn from_op(error: OpError, loc: impl Into<Loc>) -> Error {
        let OpError { message, hint } = error;
        Error(Arc::new(Cause {
            kind: ErrorKind::Operation,
            message,
            loc: loc.into(),
            hint,
            worker: None,
        }))
    }

    /// The error of the running system; `at` is the line that asked, used when the system knows no
    /// better one.
    pub fn from_run(error: RunError, at: impl Into<Loc>) -> Error {
        let RunError { message, hint, loc, worker, .. } = error;
        let loc = if loc == Loc::NONE { at.into() } else { loc };
        Error(Arc::new(Cause { kind: ErrorKind::Run, message, loc, hint, worker }))
    }

    /// The same error, at this place if it has none.
    #[must_use]
    pub(crate) fn or_at(self, at: impl Into<Loc>) -> Error {
        if self.0.loc != Loc::NONE {
            return self;
        }
        let Cause { kind, message, hint, worker, .. } = &*self.0;
        let (message, hint, worker) = (message.clone(), hint.clone(), worker.clone());
        Error(Arc::new(Cause { kind: *kind, message, loc: at.into(), hint, worker }))
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Error {
        let Cause { kind, message, loc, worker, .. } = &*self.0;
        let (message, worker) = (message.clone(), worker.clone());
        Error(Arc::new(Cause { kind: *kind, message, loc: *loc, hint: Some(hint.into()), worker }))
    }

    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What went wrong, without place and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The line of the user's program that recorded what failed.
    pub fn loc(&self) -> Loc {
        self.0.loc
    }

    /// What would cure it, if known; printed with the error.
    pub fn cure(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The worker it happened on, if it happened on one.
    pub fn worker(&self) -> Option<&str> {
        self.0.worker.as_deref()
    }
}

/// As it is displayed: the places where `Debug` shows an error are read by people.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = &*self.0;
        f.write_str(&cause.message)?;
        if let Some(worker) =
            cause.worker.as_ref().filter(|worker| !cause.message.contains(*worker))
        {
            write!(f, " (on worker {worker})")?;
        }
        if cause.loc != Loc::NONE {
            write!(f, "\n  at {}", cause.loc)?;
        }
        cause.hint.iter().try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}
