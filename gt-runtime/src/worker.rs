//! Workers: a pure core that orders work, an executor that computes, and the shell that serves a
//! dispatcher over sockets.

mod at_once;
pub mod core;
pub mod definition;
mod device;
pub(crate) mod end;
pub mod executor;
pub(crate) mod faults;
pub mod job;
pub mod line;
mod memory;
pub mod plans;
pub mod queue;
pub mod reads;
pub mod serve;
mod table;

pub use self::core::Core;
pub(crate) use end::WorkerEnd;
pub use executor::Executor;
pub use job::{Job, Task};
pub use serve::{End, Worker, WorkerConfig, WorkerError};
