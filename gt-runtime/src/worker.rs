//! Workers: a pure core that decides the order of jobs, an executor that runs them, and the shell
//! that connects both to a dispatcher over sockets.

mod at_once;
pub mod core;
pub mod definition;
mod device;
pub(crate) mod end;
pub mod executor;
pub mod fair;
mod fates;
pub(crate) mod faults;
pub mod job;
pub mod jobs;
mod known;
#[cfg(all(feature = "cluster", feature = "torch", target_os = "linux"))]
mod lanes;
#[cfg(all(feature = "cluster", not(all(feature = "torch", target_os = "linux"))))]
#[path = "worker/lanes/none.rs"]
mod lanes;
pub mod line;
mod memory;
mod need;
pub mod plans;
mod progress;
pub mod queue;
pub mod reads;
#[cfg(feature = "cluster")]
pub mod roads;
#[cfg(feature = "cluster")]
pub mod serve;
pub(crate) mod siblings;
mod table;
#[cfg(feature = "cluster")]
pub mod wanted;

pub use self::core::Core;
pub(crate) use end::WorkerEnd;
pub use executor::Executor;
pub use job::{Job, Task};
#[cfg(feature = "cluster")]
pub use serve::{Stopped, Worker, WorkerConfig, WorkerError};

use gt_compiler::engine::EngineInfo;

use crate::wire::Capacity;

/// The capacity of a worker with this engine.
pub(crate) fn capacity(info: &EngineInfo) -> Capacity {
    Capacity {
        engine: info.name.clone(),
        device: info.device.clone(),
        threads: u32::try_from(info.threads).unwrap_or(u32::MAX),
        memory: info.memory_limit as u64,
        ..Capacity::default()
    }
}
