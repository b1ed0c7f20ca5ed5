//! Repeated blocks: a segment of many alike layers is planned as one of a few.
//!
//! `facts` says what values have to share, `runs` finds where the tape repeats a block of entries,
//! `spans` finds the rounds of these runs that belong together (a layer's forward pass, its
//! gradients, its updates), and `short` leaves out layers.
//!
//! Guarantees: deterministic, in time that is linear in the tape. A shortened segment is one that a
//! program could have recorded: its values are used after they are defined and before they are
//! freed, with the same types.
//!
//! Does not: shorten a segment with several unrelated stacks of blocks by more than the largest.

mod facts;
mod runs;
mod short;
mod spans;
#[cfg(test)]
mod tests;

pub(super) use short::Short;
