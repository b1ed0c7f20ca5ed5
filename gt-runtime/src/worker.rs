//! Workers: a pure core that orders work, an executor that computes, and the shell that serves a
//! dispatcher over sockets.

mod at_once;
pub mod core;
mod device;
pub mod executor;
mod faults;
pub mod line;
mod memory;
pub mod plans;
pub mod queue;
pub mod reads;
pub mod serve;
mod table;

pub use self::core::{Core, Job};
pub use executor::Executor;
pub use serve::{End, Worker, WorkerConfig, WorkerError};
