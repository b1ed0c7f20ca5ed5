//! The signal scopes that are open on a thread, and the backward signals that belong to them.
//!
//! Guarantees: scopes nest; a scope ends those that were left open inside it. Does not: write to a
//! tape. The recorder of a session follows the scopes of the thread that records.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gt_ir::tape::MAX_STRING;

use crate::config;
use crate::error::{Error, ErrorKind, Result};

/// One open scope.
#[derive(Clone)]
pub(crate) struct Open {
    /// Different for each scope ever opened; never 0.
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    /// Where the gradients of what is recorded in it belong: its backward signal, and those of the
    /// scopes around it.
    backward: Option<Arc<Backward>>,
}

/// Backward signals of scopes, the innermost first.
pub(crate) struct Backward {
    id: u64,
    name: Arc<str>,
    outer: Option<Arc<Backward>>,
}

impl Backward {
    /// The name of the signal.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }
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

/// Changes the open scopes and notes which is innermost, which each instruction asks for.
fn change<R>(change: impl FnOnce(&mut Vec<Open>) -> R) -> R {
    OPEN.with_borrow_mut(|open| {
        let result = change(open);
        INNERMOST.set(open.last().map_or(0, |s| s.id));
        result
    })
}

/// A number that no scope had before.
fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A name as a tape takes it.
fn cut(name: &str) -> Arc<str> {
    Arc::from(&name[..name.floor_char_boundary(MAX_STRING)])
}

/// Opens a scope; everything this thread records until the guard is dropped lies in it. Of a name
/// beyond [`MAX_STRING`] bytes the beginning counts.
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

impl Scope {
    /// Names the signal of the gradients of what is recorded from here on in this scope, instead of
    /// the one its configuration names.
    #[must_use = "the scope ends when this is dropped"]
    pub fn backward(self, name: &str) -> Scope {
        change(|open| name_backward(open, self.depth, name));
        self
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // Scopes left open inside this one end with it.
        change(|open| open.truncate(self.depth));
    }
}

/// Gives the scope at a depth a backward signal inside those of the scopes around it.
fn name_backward(open: &mut [Open], depth: usize, name: &str) {
    let outer = depth.checked_sub(1).and_then(|outer| open.get(outer)?.backward.clone());
    if let Some(scope) = open.get_mut(depth) {
        scope.backward = Some(Arc::new(Backward { id: next_id(), name: cut(name), outer }));
    }
}

/// Opens a scope that [`exit`] ends. Where a guard can be kept, [`scope`] is safer.
pub fn enter(name: &str) {
    let (id, named) = (next_id(), cut(name));
    let configured = config::backward_of(&named);
    change(|open| {
        let backward = open.last().and_then(|outer| outer.backward.clone());
        open.push(Open { id, name: named, backward });
        if let Some(name) = configured {
            let innermost = open.len() - 1;
            name_backward(open, innermost, &name);
        }
    });
}

/// Opens a scope that [`exit`] ends, whose gradients belong to the signal `backward`.
pub fn enter_with_backward(name: &str, backward: &str) {
    let innermost = with_open(<[Open]>::len);
    enter(name);
    change(|open| name_backward(open, innermost, backward));
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

/// The names of this thread's scopes, outermost first.
pub fn stack() -> Vec<Arc<str>> {
    with_open(|open| open.iter().map(|s| s.name.clone()).collect())
}

/// The signal that gradients of what this thread records now belong to, if one is named.
pub fn current_backward() -> Option<Arc<str>> {
    backward_signals().map(|signals| signals.name.clone())
}

/// Where the gradients of what this thread records now belong.
pub(crate) fn backward_signals() -> Option<Arc<Backward>> {
    if innermost() == 0 {
        return None;
    }
    with_open(|open| open.last()?.backward.clone())
}

/// Opens the backward signals of an instruction, for recording its gradient.
pub(crate) fn within(signals: Option<&Arc<Backward>>) -> Option<Scope> {
    let signals = signals?;
    let depth = with_open(<[Open]>::len);
    change(|open| {
        let mut next = Some(signals);
        while let Some(signal) = next {
            // Gradients of gradients belong where these do.
            let backward = Some(signal.clone());
            open.push(Open { id: signal.id, name: signal.name.clone(), backward });
            next = signal.outer.as_ref();
        }
        open[depth..].reverse();
    });
    Some(Scope { depth, _thread: PhantomData })
}

/// This thread's scopes, if there are any, for [`open_again`].
pub(crate) fn all_open() -> Option<Arc<[Open]>> {
    (innermost() != 0).then(|| with_open(|open| Arc::from(open)))
}

/// Opens what of these scopes lies inside of those that are open.
pub(crate) fn open_again(scopes: &[Open]) -> Scope {
    let depth = with_open(<[Open]>::len);
    change(|open| open.extend(scopes.iter().skip(depth).cloned()));
    Scope { depth, _thread: PhantomData }
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
        assert_eq!(stack().iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "left open"]);
        drop(outer);
        assert_eq!(current(), None);
    }

    #[test]
    fn a_backward_signal_lasts_as_long_as_its_scope_and_reaches_inner_ones() {
        let outer = scope("a");
        assert_eq!(current_backward(), None);
        let outer = outer.backward("a'");
        {
            let _plain = scope("b");
            assert_eq!(current_backward().as_deref(), Some("a'"));
            enter_with_backward("c", "c'");
            assert_eq!(current_backward().as_deref(), Some("c'"));
            exit("c").unwrap();
        }
        assert_eq!(current_backward().as_deref(), Some("a'"));
        drop(outer);
        assert_eq!(current_backward(), None);
    }
}
