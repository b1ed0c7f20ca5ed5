//! The process's own session: the one every thread falls back to that has entered none.
//!
//! Guarantees: the first operation opens it, with the server that `GT_CONNECT` names or else inside
//! the process; a failure to open it is remembered, so that each operation fails at once and none
//! waits again. [`connect`], [`workers`] and [`Options::make_default`] choose what it is before
//! that, and are errors afterwards; [`disconnect`] ends it, and all of that begins anew.

use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gt_ir::Loc;
use gt_ir::backend::possible_workers;

use super::{Options, Session};
use crate::error::{Error, ErrorKind, Result};

/// The session of the process, and the choices made before it is opened.
struct Process {
    /// The system and the workers that the program asked for.
    options: Options,
    /// The session, or the error that kept it from being opened.
    opened: Option<Result<Session>>,
}

static PROCESS: Mutex<Process> = Mutex::new(Process { options: Options::new(), opened: None });

/// The one process-wide state.
fn lock() -> MutexGuard<'static, Process> {
    // What a panic of another thread leaves is whole: each change is one assignment.
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// The error of a choice that comes too late.
    fn too_late(&self, what: &str, at: &'static Location<'static>) -> Result<()> {
        let Some(Ok(_)) = &self.opened else { return Ok(()) };
        let (with, hint) = match &self.options.server {
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
    let opened = Session::with(&process.options, Loc::NONE);
    process.opened.insert(opened).clone()
}

/// One more session with the same system.
pub(super) fn another(at: &'static Location<'static>) -> Result<Session> {
    // Connecting may take seconds: not under the lock.
    let options = lock().options.clone();
    Session::with(&options, at)
}

impl Options {
    /// Opens the process's own session with these options. All operations use it on threads that
    /// have not [entered](Session::enter) another session. To be called before the first operation.
    ///
    /// # Errors
    /// As [`open`](Options::open), or the program has a session already.
    #[track_caller]
    pub fn make_default(self) -> Result<Session> {
        let at = Location::caller();
        self.check(at)?;
        let mut process = lock();
        process.too_late("make_default", at)?;
        let session = Session::with(&self, at)?;
        (process.options, process.opened) = (self, Some(Ok(session.clone())));
        Ok(session)
    }
}

/// Connects the program to the server at `HOST:PORT`: from here on its operations run on that
/// server's workers, on every thread that has not [entered](Session::enter) another session. The
/// session is given back for questions about it; nothing need be done with it.
///
/// # Errors
/// The program has a session already, by an operation or an earlier `connect`; the address is not
/// `HOST:PORT`; no server answers there within two seconds, or on another machine within ten; or
/// the server refuses.
#[track_caller]
pub fn connect(address: &str) -> Result<Session> {
    let at = Location::caller();
    let mut process = lock();
    process.too_late("connect", at)?;
    let options = Options::new().server(address);
    let session = Session::with(&options, at)?;
    (process.options, process.opened) = (options, Some(Ok(session.clone())));
    Ok(session)
}

/// Chooses how many workers this process has when it uses no server. A session lives on one of
/// them, so a program with one session needs one; see [`Session::open`] for more, and [`Options`]
/// for other choices. To be called before the first operation; `GT_WORKERS=N` does the same from
/// outside.
///
/// # Errors
/// The program has a session already, or there can be no such number of workers.
#[track_caller]
pub fn workers(n: usize) -> Result<()> {
    let at = Location::caller();
    possible_workers(n).map_err(|error| Error::from_run(error, at))?;
    let mut process = lock();
    process.too_late("workers", at)?;
    process.options.demand.workers = Some(n);
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
    process.options = Options::new();
    drop(process);
    if let Some(Ok(session)) = opened {
        session.close();
    }
}
