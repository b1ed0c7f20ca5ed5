//! The process's own session: the one every thread falls back to that has entered none.
//!
//! Guarantees: the first operation opens it, with the server that `GT_CONNECT` names or else inside
//! the process; a failure to open it is remembered, so that each operation fails at once and none
//! waits again. [`connect`] and [`workers`] choose what it is before that, and are errors
//! afterwards; [`disconnect`] ends it, and all of that begins anew.

use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gt_ir::Loc;
use gt_ir::backend::{Target, possible_workers};

use super::Session;
use crate::error::{Error, ErrorKind, Result};

/// The session of the process, and the choices made before it is opened.
struct Process {
    /// How many workers the program asked for.
    workers: Option<usize>,
    /// The server it asked for.
    server: Option<String>,
    /// The session, or the error that kept it from being opened.
    opened: Option<Result<Session>>,
}

static PROCESS: Mutex<Process> = Mutex::new(Process { workers: None, server: None, opened: None });

/// The one process-wide state.
fn lock() -> MutexGuard<'static, Process> {
    // What a panic of another thread leaves is whole: each change is one assignment.
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// The system that a session is opened with.
    fn target(&self) -> Target<'_> {
        match &self.server {
            Some(address) => Target::Server(address),
            None => Target::Usual { workers: self.workers },
        }
    }

    /// The error of a choice that comes too late.
    fn too_late(&self, what: &str, at: &'static Location<'static>) -> Result<()> {
        let Some(Ok(_)) = &self.opened else { return Ok(()) };
        let (with, hint) = match &self.server {
            Some(address) => (
                format!("is connected already, to the server at {address}"),
                "call `gt::disconnect()` first, or open a second session with `Session::connect`",
            ),
            None => (
                "has a session already, which its first operation opened".to_owned(),
                "choose before the first operation, or call `gt::disconnect()` first",
            ),
        };
        let message = format!("{what}: the program {with}");
        Err(Error::new(ErrorKind::Session, message, at).hint(hint))
    }
}

/// The process's own session, opened now if it is not.
pub(super) fn session() -> Result<Session> {
    let mut process = lock();
    if let Some(opened) = &process.opened {
        return opened.clone();
    }
    let opened = Session::with(process.target(), Loc::NONE);
    process.opened.insert(opened).clone()
}

/// One more session with the same system.
pub(super) fn another(at: &'static Location<'static>) -> Result<Session> {
    // Connecting may take seconds: not under the lock.
    let (server, workers) = {
        let process = lock();
        (process.server.clone(), process.workers)
    };
    let target = server.as_deref().map_or(Target::Usual { workers }, Target::Server);
    Session::with(target, at)
}

/// Connects the program to the server at `HOST:PORT`: from here on its operations run on that
/// server's workers, on every thread that has not [entered](Session::enter) another session. The
/// session is given back for questions about it; nothing need be done with it.
///
/// # Errors
/// The program has a session already, by an operation or an earlier `connect`; the address is not
/// `HOST:PORT`; no server answers there within two seconds; or the server refuses.
#[track_caller]
pub fn connect(address: &str) -> Result<Session> {
    let at = Location::caller();
    let mut process = lock();
    process.too_late("connect", at)?;
    let session = Session::with(Target::Server(address), at)?;
    process.server = Some(address.to_owned());
    process.opened = Some(Ok(session.clone()));
    Ok(session)
}

/// Chooses how many workers this process has when it uses no server. A session lives on one of
/// them, so a program with one session needs one; see [`Session::open`] for more. To be called
/// before the first operation; `GT_WORKERS=N` does the same from outside.
///
/// # Errors
/// The program has a session already, or there can be no such number of workers.
#[track_caller]
pub fn workers(n: usize) -> Result<()> {
    let at = Location::caller();
    possible_workers(n).map_err(|error| Error::from_run(error, at))?;
    let mut process = lock();
    process.too_late("workers", at)?;
    process.workers = Some(n);
    // A start that failed may go well with this many.
    process.opened = None;
    Ok(())
}

/// Ends the process's own session: what it holds is freed, and reads of its tensors are errors. The
/// next operation opens a new one, as if it were the program's first. Sessions that were opened
/// besides stay. Without a session this does nothing.
pub fn disconnect() {
    let mut process = lock();
    let opened = process.opened.take();
    (process.server, process.workers) = (None, None);
    drop(process);
    if let Some(Ok(session)) = opened {
        session.close();
    }
}
