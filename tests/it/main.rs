//! What the README promises, tried as a user would: the project's own programs, started, interrupted and killed.
//!
//! One test binary, so that it is linked once. Everything that can be tested inside a crate is tested there.

mod cli;
mod cluster;
mod process;
mod snapshots;
