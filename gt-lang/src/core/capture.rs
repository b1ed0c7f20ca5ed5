//! Notes of the instructions that a function records, taken while it runs: what is needed to record
//! them again on other operands.
//!
//! Guarantees: what is noted stays alive as long as the notes; notes of an inner function are among
//! those of an outer one. Instructions without tensor operands are not noted: their results are the
//! same for all operands. Nothing is noted while no function is watched, which costs a look at a
//! number of the thread.

use std::cell::{Cell, RefCell};

use gt_ir::{Op, Scalar};
use smallvec::SmallVec;

use super::DynTensor;

/// The most instructions that are noted.
pub(crate) const MAX_NOTES: usize = 1 << 20;

thread_local! {
    static N_OPEN: Cell<usize> = const { Cell::new(0) };
    static OPEN: RefCell<Vec<Vec<Note>>> = const { RefCell::new(Vec::new()) };
}

/// An instruction that was recorded.
#[derive(Clone)]
pub(crate) struct Note {
    pub(crate) op: Op,
    pub(crate) operands: Operands,
    pub(crate) result: DynTensor,
}

/// The operands of a [`Note`].
pub(crate) type Operands = SmallVec<[Noted; 3]>;

/// An operand of a [`Note`].
#[derive(Clone)]
pub(crate) enum Noted {
    Tensor(DynTensor),
    Scalar(Scalar),
}

/// Whether a function is watched on this thread.
pub(crate) fn is_open() -> bool {
    N_OPEN.get() > 0
}

/// Notes an instruction, if a function is watched.
pub(crate) fn note(op: &Op, operands: impl FnOnce() -> Operands, result: &DynTensor) {
    if !is_open() {
        return;
    }
    let note = Note { op: *op, operands: operands(), result: result.clone() };
    OPEN.with_borrow_mut(|open| {
        for notes in open.iter_mut().filter(|notes| notes.len() <= MAX_NOTES) {
            notes.push(note.clone());
        }
    });
}

/// Runs a function, and gives its result and the instructions that it recorded.
pub(crate) fn capture<R>(f: impl FnOnce() -> R) -> (R, Vec<Note>) {
    let watch = Watch::begin();
    let result = f();
    let notes = OPEN.with_borrow_mut(|open| open.last_mut().map(std::mem::take));
    drop(watch);
    (result, notes.unwrap_or_default())
}

/// Ends the notes of a function, also of one that panics.
struct Watch;

impl Watch {
    fn begin() -> Watch {
        OPEN.with_borrow_mut(|open| open.push(Vec::new()));
        N_OPEN.set(N_OPEN.get() + 1);
        Watch
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        N_OPEN.set(N_OPEN.get().saturating_sub(1));
        // Values are freed after the borrow has ended.
        let notes = OPEN.with_borrow_mut(Vec::pop);
        drop(notes);
    }
}
