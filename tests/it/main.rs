//! What the README promises, tried as a user would: the project's own programs, started,
//! interrupted and killed.
//!
//! One test binary, so that it is linked once. Everything that can be tested inside a crate is
//! tested there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cli;
mod cluster;
mod equivalence;
mod examples;
mod filetests;
mod gpt;
mod gpt2;
mod process;
mod replay;
mod resume;
mod sessions;
mod snapshots;
#[cfg(feature = "torch")]
mod torch;
mod workers;
mod zoo;
