//! Notes of the instructions that a function records, taken while it runs: what is needed to record
//! them again on other operands.
//!
//! Guarantees: what is noted stays alive as long as the notes; notes of an inner function are among
//! those of an outer one; what repeats an instruction stands at its line, under its signals.
//! Instructions without tensor operands are not noted: their results are the same for all operands.
//! Nothing is noted while no function is watched, which costs a look at a number of the thread.
//!
//! A function that is watched runs once for many examples or rounds, so it must not change what
//! outlives it: [`refuse`] keeps the error of such a change, which is the function's.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::Arc;

use gt_ir::{Loc, Op, Scalar, Type};
use smallvec::SmallVec;

use super::DynTensor;
use super::tensor::{Leaf, Rule};
use crate::error::{Error, ErrorKind, Result};
use crate::scope::{self, Open, Scope};
use crate::session::Place;

/// The most instructions that are noted.
pub(crate) const MAX_NOTES: usize = 1 << 20;

thread_local! {
    static REPEATED: Cell<Loc> = const { Cell::new(Loc::NONE) };
    static N_OPEN: Cell<usize> = const { Cell::new(0) };
    static OPEN: RefCell<Vec<Watched>> = const { RefCell::new(Vec::new()) };
}

/// A function that is watched.
struct Watched {
    /// What it is run for, as messages name it.
    name: &'static str,
    notes: Vec<Note>,
    /// Leaves with numbers from here on were made by the function.
    first_leaf: u64,
    /// Why it cannot run once for all.
    fault: Option<Error>,
}

/// An instruction that was recorded.
#[derive(Clone)]
pub(crate) struct Note {
    pub(crate) op: Op,
    pub(crate) operands: Operands,
    pub(crate) result: DynTensor,
    /// The gradient rule of the result, if it is not the op's, and what that goes to.
    pub(crate) rule: Option<(Arc<dyn Rule>, Vec<DynTensor>)>,
    /// Where it stands.
    pub(crate) loc: Loc,
    /// The signals that it was recorded under.
    scopes: Option<Arc<[Open]>>,
}

/// The operands of a [`Note`].
pub(crate) type Operands = SmallVec<[Noted; 3]>;

impl Note {
    /// The operands that are tensors.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &DynTensor> {
        self.operands.iter().filter_map(|operand| match operand {
            Noted::Tensor(x) => Some(x),
            Noted::Scalar(_) => None,
        })
    }
}

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
pub(crate) fn note(op: &Op, operands: impl FnOnce() -> Operands, result: &DynTensor, loc: Loc) {
    if is_open() {
        let (operands, result, scopes) = (operands(), result.clone(), scope::all_open());
        push(&Note { op: *op, operands, result, rule: None, loc, scopes });
    }
}

/// Notes that the result of an instruction, of one operand, has a gradient rule that goes to these
/// inputs.
pub(crate) fn note_rule(
    op: &Op,
    operand: &DynTensor,
    result: &DynTensor,
    (rule, inputs): (&Arc<dyn Rule>, &[DynTensor]),
    loc: Loc,
) {
    if is_open() {
        let operands = std::iter::once(Noted::Tensor(operand.clone())).collect();
        let (rule, scopes) = (Some((rule.clone(), inputs.to_vec())), scope::all_open());
        push(&Note { op: *op, operands, result: result.clone(), rule, loc, scopes });
    }
}

fn push(note: &Note) {
    OPEN.with_borrow_mut(|open| {
        for watched in open.iter_mut().filter(|watched| watched.notes.len() <= MAX_NOTES) {
            watched.notes.push(note.clone());
        }
    });
}

/// Refuses a change of something that outlives the function, if one is watched: of a leaf, unless
/// the function has made it, or of anything else (`None`). `what` is done, to a value of type `ty`.
///
/// # Errors
/// The change must not be made.
pub(crate) fn refuse(what: &str, ty: Type, leaf: Option<&Leaf>, at: impl Into<Loc>) -> Result<()> {
    if !is_open() {
        return Ok(());
    }
    OPEN.with_borrow_mut(|open| {
        let Some(watched) = open.last_mut() else { return Ok(()) };
        if leaf.is_some_and(|leaf| leaf.order >= watched.first_leaf) {
            return Ok(());
        }
        let message = format!("{}: the function {what}, {ty}", watched.name);
        let error = Error::new(ErrorKind::Operation, message, at);
        let error = error.hint(
            "it runs once for all: take gradients with `autograd::grad`, set layers to evaluation, \
             and change what is held outside",
        );
        watched.fault.get_or_insert(error.clone());
        Err(error)
    })
}

/// What the innermost function that is watched is run for.
pub(crate) fn name() -> Option<&'static str> {
    OPEN.with_borrow(|open| open.last().map(|watched| watched.name))
}

/// Runs a function, and gives its result and the instructions that it recorded, or why it cannot
/// run once for all that `name` does.
pub(crate) fn capture<R>(name: &'static str, f: impl FnOnce() -> R) -> Result<(R, Vec<Note>)> {
    let watch = Watch::begin(name);
    let result = f();
    let taken = OPEN.with_borrow_mut(|open| {
        open.last_mut().map(|watched| (std::mem::take(&mut watched.notes), watched.fault.take()))
    });
    drop(watch);
    let (notes, fault) = taken.unwrap_or_default();
    fault.map_or(Ok((result, notes)), Err)
}

/// Where an instruction stands that is recorded for this call: at the line of the one that it
/// repeats, if it repeats one.
pub(crate) fn place(at: &'static Location<'static>) -> Place {
    match REPEATED.get() {
        Loc::NONE => Place::Caller(at),
        loc => Place::Known(loc),
    }
}

/// Until it is dropped, what this thread records stands where a noted instruction does, under its
/// signals.
pub(crate) struct Repeat {
    before: Loc,
    _scopes: Option<Scope>,
}

impl Repeat {
    /// Begins to repeat an instruction.
    pub(crate) fn begin(note: &Note) -> Repeat {
        let scopes = note.scopes.as_ref().map(|scopes| scope::open_again(scopes));
        Repeat { before: REPEATED.replace(note.loc), _scopes: scopes }
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        REPEATED.set(self.before);
    }
}

/// Ends the notes of a function, also of one that panics.
struct Watch;

impl Watch {
    fn begin(name: &'static str) -> Watch {
        let watched = Watched { name, notes: Vec::new(), first_leaf: Leaf::next(), fault: None };
        OPEN.with_borrow_mut(|open| open.push(watched));
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
