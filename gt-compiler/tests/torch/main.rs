//! The op table on libtorch, against the reference interpreter, against libtorch's own operators,
//! and against its autograd.
#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod forward;
mod grad;
mod later;
mod matrices;
mod ops;
mod own;
mod products;
mod random;
#[path = "../sweeps/mod.rs"]
mod sweeps;
