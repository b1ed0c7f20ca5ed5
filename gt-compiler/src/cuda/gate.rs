//! Keeps threads out of CUDA's libraries while the process ends.
//!
//! `exit` destroys the objects of all libraries while other threads go on. A thread of an engine
//! that calls libtorch then meets objects that are gone: the process aborts, although its program
//! was successful.
//!
//! Guarantees: every call goes through [`during`]. When the process ends, calls that have begun end
//! first, for a few seconds at most, and no others begin: their threads stay here. Does not: end
//! the work of a device, which its driver does.
#![expect(unsafe_code, reason = "is called when the process ends")]

use std::{
    sync::{
        Once, PoisonError, RwLock, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The longest time that calls have to end, by tries.
const TRIES: usize = 500;
const BETWEEN: Duration = Duration::from_millis(10);

/// Calls share it; the end of the process takes it for good.
static CALLS: RwLock<()> = RwLock::new(());
static ENDS: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    safe fn atexit(f: extern "C" fn()) -> std::ffi::c_int;
}

/// Makes a call of a function. `first` belongs to the function: its first call may make objects
/// that end with the process, in the opposite order, so the gate has to close before they end.
pub(super) fn during<R>(first: &Once, call: impl FnOnce() -> R) -> R {
    let _call = CALLS.read().unwrap_or_else(PoisonError::into_inner);
    let result = call();
    first.call_once(|| {
        // Without room for it the end of the process is what it would be without a gate.
        let _ = atexit(close);
    });
    result
}

extern "C" fn close() {
    if ENDS.swap(true, Ordering::AcqRel) {
        return;
    }
    for _ in 0..TRIES {
        match CALLS.try_write() {
            Ok(closed) => return std::mem::forget(closed),
            Err(TryLockError::Poisoned(closed)) => return std::mem::forget(closed),
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN),
        }
    }
}
