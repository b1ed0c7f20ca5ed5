//! The native engine against the reference interpreter.
#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

#[cfg(feature = "torch")]
mod device;
#[path = "../sweeps/execute.rs"]
mod execute;
mod filetests;
mod halves;
mod indices;
mod limits;
mod loops;
mod math;
mod numerics;
mod ops;
mod products;
mod random;
mod ranges;
mod recompute;
mod rows;
mod shard;
mod store;
#[path = "../sweeps/mod.rs"]
mod sweeps;
mod turned;
