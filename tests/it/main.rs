//! Tests of whole systems: the programs of the project are started, interrupted and killed as by a
//! user.
//!
//! All tests are one binary, so that it is linked once. Behaviour that can be tested inside a crate
//! is tested there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chaos;
mod cli;
mod cluster;
mod equivalence;
mod examples;
mod filetests;
mod fuzzing;
mod gpt;
mod gpt2;
mod llama;
mod network;
mod observe;
mod operating;
#[cfg(feature = "otel")]
mod otel;
mod process;
mod reading;
mod replay;
mod resume;
mod service;
mod sessions;
mod snapshots;
mod spread;
mod terminal;
#[cfg(feature = "torch")]
mod torch;
mod trouble;
mod workers;
mod zoo;
