//! Other tensors in the place of leaves, while a function runs.
//!
//! Guarantees: every use of a leaf on this thread sees its substitute, its value and where its
//! gradient goes; calls nest, and the innermost substitute counts; a call that panics ends its
//! substitution. Without one, a use of a leaf costs a look at a number of the thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DynTensor, Repr};

/// What stands for leaves, by their numbers.
pub(crate) type Substitutes = Arc<BTreeMap<u64, DynTensor>>;

thread_local! {
    static N_OPEN: Cell<usize> = const { Cell::new(0) };
    static OPEN: RefCell<Vec<Substitutes>> = const { RefCell::new(Vec::new()) };
}

/// What stands for the leaf of this number now.
pub(crate) fn of(leaf: u64) -> Option<DynTensor> {
    if N_OPEN.get() == 0 {
        return None;
    }
    OPEN.with_borrow(|open| open.iter().rev().find_map(|known| known.get(&leaf).cloned()))
}

/// All substitutes of this thread, to have them again later.
pub(crate) fn all() -> Vec<Substitutes> {
    if N_OPEN.get() == 0 { Vec::new() } else { OPEN.with_borrow(Clone::clone) }
}

/// Runs a function with these substitutes, inside of those that are there.
pub(crate) fn with<R>(
    substitutes: impl IntoIterator<Item = Substitutes>,
    f: impl FnOnce() -> R,
) -> R {
    let before = N_OPEN.get();
    OPEN.with_borrow_mut(|open| {
        open.extend(substitutes);
        N_OPEN.set(open.len());
    });
    let _end = End(before);
    f()
}

/// Ends a substitution when it is dropped.
struct End(usize);

impl Drop for End {
    fn drop(&mut self) {
        N_OPEN.set(self.0);
        // Values are freed after the borrow has ended.
        let ended = OPEN.with_borrow_mut(|open| open.split_off(self.0.min(open.len())));
        drop(ended);
    }
}

impl DynTensor {
    /// This tensor, or what stands for it now.
    pub(crate) fn present(&self) -> DynTensor {
        match &self.0 {
            Repr::Plain(_) | Repr::Tracked(..) => self.clone(),
            Repr::Variable(variable) => of(variable.leaf.order).unwrap_or_else(|| self.clone()),
        }
    }
}
