//! The system programs use when they name none: a server that the environment names, else one of
//! the process's own.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use gt_ir::backend::{Backend, ErrorKind, MAX_WORKERS, RunError, Target, possible_workers};

use super::{Handle, System};
use crate::choice::Wish;
use crate::client;

/// The variable that names a server to use instead.
pub const CONNECT: &str = "GT_CONNECT";
/// The variable that says how many workers there are.
pub const WORKERS: &str = "GT_WORKERS";

/// The process's own system, while somebody has a session with it.
static SYSTEM: Mutex<Weak<Handle>> = Mutex::new(Weak::new());

/// How many workers the environment asks for, else so many.
pub(super) fn usual_workers(usual: usize) -> Result<usize, RunError> {
    let Ok(text) = std::env::var(WORKERS) else { return Ok(usual) };
    match text.trim().parse() {
        Ok(n) if possible_workers(n).is_ok() => Ok(n),
        _ => Err(RunError::new(
            ErrorKind::Resource,
            format!("{WORKERS}={text} is not a number of workers from 1 to {MAX_WORKERS}"),
        )),
    }
}

/// The process's own system: the one that runs, else a new one.
fn own(workers: Option<usize>) -> Result<System, RunError> {
    // Starting one leaves nothing half-done behind when it panics.
    let mut running = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = running.upgrade() {
        let (n_workers, in_use) = (handle.0.n_workers, handle.0.in_use());
        match workers {
            Some(wanted) if wanted != n_workers && in_use => {
                let message = format!(
                    "the process runs {n_workers} worker(s) already, but {wanted} were asked for"
                );
                let error = RunError::new(ErrorKind::Resource, message);
                return Err(error.hint("choose their number before the first operation"));
            }
            Some(wanted) if wanted != n_workers => (),
            Some(_) | None => return Ok(System(handle)),
        }
    }
    let system = System::own(&Wish::default(), workers)?;
    *running = Arc::downgrade(&system.0);
    Ok(system)
}

/// A new session with a server, or with the system programs use when they name none: the server
/// that `GT_CONNECT` names, else the process's own, which ends with its last session.
///
/// # Errors
/// The server cannot be reached, the system cannot be started, or it runs with another number of
/// workers.
pub fn open(target: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
    let named = std::env::var(CONNECT).ok().filter(|address| !address.trim().is_empty());
    match (target, named) {
        (Target::Server(address), _) => client::connect(address),
        (Target::Usual { .. }, Some(address)) => client::connect(&address),
        (Target::Usual { workers }, None) => own(workers).map(|system| system.session()),
    }
}

#[expect(
    unsafe_code,
    reason = "the one symbol by which a front end that knows no runtime finds it: see \
              gt_ir::backend::OpenBackend"
)]
// SAFETY: no other item of the program has this name, and gt-lang declares it with this very
// signature.
#[unsafe(no_mangle)]
fn __gt_embedded_backend(target: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
    open(target)
}
