//! Signal scopes: names for stretches of a program, recorded on the tape, which placement and sharding rules refer to.
//!
//! Guarantees: scopes nest, per thread. A scope in which nothing is recorded leaves no trace. Names never change a
//! result, and unknown names are harmless.
//!
//! Does not: write to a tape; the recorder follows the scopes of the thread that records.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gt_ir::text::MAX_STRING;

use crate::error::{Error, ErrorKind, Result};

/// One open scope.
#[derive(Clone)]
pub(crate) struct Open {
    /// Different for each scope ever opened; never 0.
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
    static INNERMOST: Cell<u64> = const { Cell::new(0) };
}

/// The id of this thread's innermost scope, 0 outside all.
pub(crate) fn innermost() -> u64 {
    INNERMOST.get()
}

/// This thread's scopes, outermost first.
pub(crate) fn with_open<R>(read: impl FnOnce(&[Open]) -> R) -> R {
    OPEN.with_borrow(|open| read(open))
}

fn change<R>(change: impl FnOnce(&mut Vec<Open>) -> R) -> R {
    OPEN.with_borrow_mut(|open| {
        let result = change(open);
        INNERMOST.set(open.last().map_or(0, |s| s.id));
        result
    })
}

/// Opens a scope; everything this thread records until the guard is dropped lies in it.
pub fn scope(name: &str) -> Scope {
    let depth = with_open(<[Open]>::len);
    enter(name);
    Scope { depth, _thread: PhantomData }
}

/// An open scope; see [`scope`].
#[must_use = "the scope ends when this is dropped"]
pub struct Scope {
    depth: usize,
    // Belongs to the thread that opened it.
    _thread: PhantomData<*const ()>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        // Scopes left open inside this one end with it.
        change(|open| open.truncate(self.depth));
    }
}

/// Opens a scope that [`exit`] ends. Of a name beyond [`MAX_STRING`] bytes the beginning counts.
pub fn enter(name: &str) {
    let name = &name[..name.floor_char_boundary(MAX_STRING)];
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    change(|open| open.push(Open { id, name: Arc::from(name) }));
}

/// Ends the innermost scope, which must be the one named.
///
/// # Errors
/// There is no open scope, or the innermost one has another name.
#[track_caller]
pub fn exit(name: &str) -> Result<()> {
    let at = Location::caller();
    let fail = |message: String| Err(Error::new(ErrorKind::Signal, message, at));
    match current() {
        None => fail(format!("signal::exit: no signal scope is open, but `{name}` was to end")),
        Some(open) if &*open != name => fail(format!(
            "signal::exit: the innermost signal scope is `{open}`, but `{name}` was to end"
        )),
        Some(_) => {
            change(|open| open.pop());
            Ok(())
        }
    }
}

/// The name of the innermost scope of this thread.
pub fn current() -> Option<Arc<str>> {
    with_open(|open| open.last().map(|s| s.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest_and_mismatches_are_errors() {
        assert!(exit("a").unwrap_err().message().contains("no signal scope is open"));
        let outer = scope("a");
        enter("b");
        assert_eq!(
            exit("a").unwrap_err().message(),
            "signal::exit: the innermost signal scope is `b`, but `a` was to end"
        );
        assert_eq!(current().as_deref(), Some("b"));
        exit("b").unwrap();
        enter("left open");
        drop(outer);
        assert_eq!(current(), None);
    }
}
