//! Workers: a pure core that orders work, an executor that computes, and the shell that serves a dispatcher over sockets.

mod at_once;
pub mod core;
pub mod executor;
mod memory;
pub mod plans;
pub mod queue;
pub mod serve;
mod table;

pub use self::core::{Core, Job};
pub use executor::Executor;
pub use serve::{End, Worker, WorkerConfig, WorkerError};
