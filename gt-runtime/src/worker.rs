//! Workers: a pure core that decides the order of jobs, an executor that runs them, and the shell
//! that connects both to a dispatcher over sockets.

mod at_once;
pub mod core;
pub mod definition;
mod device;
pub(crate) mod end;
pub mod executor;
pub mod fair;
pub(crate) mod faults;
pub mod job;
pub mod jobs;
pub mod line;
mod memory;
pub mod plans;
pub mod queue;
pub mod reads;
pub mod roads;
pub mod serve;
pub(crate) mod siblings;
mod table;

pub use self::core::Core;
pub(crate) use end::WorkerEnd;
pub use executor::Executor;
pub use job::{Job, Task};
pub use serve::{Stopped, Worker, WorkerConfig, WorkerError};
