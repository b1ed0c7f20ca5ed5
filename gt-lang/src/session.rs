//! A session: a connection to a running system, and the recorder that fills its tape.
//!
//! Guarantees: recording never waits for a result. Entries gather in a buffer that is submitted at reads, at `flush`,
//! and when it is full, so the worker runs ahead of the program. Several sessions may live in one process; each tensor
//! remembers its own. A session closes when its last handle and its last tensor are gone, or when told to.
//!
//! Does not: run anything, or know what is at the other end of the backend.

mod recorder;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gt_ir::backend::{Backend, RunError, Stats};
use gt_ir::{HostTensor, Loc, Op, Operand, Tape, Type, ValueId};

use crate::error::{Error, ErrorKind, Result};
use recorder::Recorder;

// The system that runs inside the process. Defined in gt-runtime; declared here so that this crate, and with it the
// user's edit loop, stays free of the runtime's dependencies.
#[expect(unsafe_code, reason = "an extern declaration; gt-runtime defines the symbol with this very signature")]
// SAFETY: the definition in gt-runtime has this signature and is a safe function.
unsafe extern "Rust" {
    safe fn __gt_embedded_backend() -> std::result::Result<Arc<dyn Backend>, RunError>;
}

/// A connection to a running system. Cloning copies a pointer.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    backend: Arc<dyn Backend>,
    recorder: Mutex<Recorder>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.backend.close();
    }
}

thread_local! {
    static CURRENT: RefCell<Vec<Session>> = const { RefCell::new(Vec::new()) };
}

/// The embedded session every thread falls back to; opened by the first operation.
static DEFAULT: OnceLock<Result<Session>> = OnceLock::new();

/// Makes a session the current one of this thread until it is dropped.
#[must_use = "the session is left when this is dropped"]
pub struct Entered {
    depth: usize,
    // Belongs to the thread that entered.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Session {
    /// A session with a running system.
    pub fn with_backend(backend: Arc<dyn Backend>) -> Session {
        Session(Arc::new(Inner { backend, recorder: Mutex::new(Recorder::new()) }))
    }

    /// The session this thread entered last, or else the process's own, which the first call opens.
    ///
    /// # Errors
    /// The embedded system did not start, or `GT_CONNECT` names a server that does not answer.
    pub fn current() -> Result<Session> {
        let entered = CURRENT.with_borrow(|stack| stack.last().cloned());
        entered.map_or_else(Session::process_default, Ok)
    }

    fn process_default() -> Result<Session> {
        let open = || __gt_embedded_backend().map(Session::with_backend).map_err(Error::from_run);
        DEFAULT.get_or_init(open).clone()
    }

    /// Makes this the current session of this thread until the guard is dropped.
    pub fn enter(&self) -> Entered {
        CURRENT.with_borrow_mut(|stack| {
            stack.push(self.clone());
            Entered { depth: stack.len() - 1, _thread: std::marker::PhantomData }
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Guards dropped out of order leave with the outermost of them.
        let left = CURRENT.with_borrow_mut(|stack| stack.split_off(self.depth.min(stack.len())));
        drop(left);
    }
}
