//! Signal scopes: names for stretches of a program, recorded on the tape, which placement and sharding rules refer to.
//!
//! Guarantees: scopes nest. Names never change a result, and unknown names are harmless.

use crate::error::Result;

/// Opens a scope; everything this thread records until the guard is dropped lies in it.
#[must_use = "the scope ends when this is dropped"]
pub fn scope(name: &str) -> Scope {
    todo!("{name}")
}

/// An open scope; see [`scope`].
pub struct Scope {
    _private: (),
}

/// Opens a scope that [`exit`] ends.
pub fn enter(name: &str) {
    todo!("{name}")
}

/// Ends the innermost scope, which must be the one named.
///
/// # Errors
/// There is no open scope, or the innermost one has another name.
#[track_caller]
pub fn exit(name: &str) -> Result<()> {
    todo!("{name}")
}

/// The name of the innermost scope of this thread.
pub fn current() -> Option<String> {
    todo!()
}
