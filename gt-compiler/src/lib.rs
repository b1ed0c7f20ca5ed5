//! What turns programs into running kernels: the engines, and (as they arrive) the passes in front of them.
//!
//! The central structure is [`Native`], the CPU engine: it schedules a [`gt_ir::Graph`] of primitives into a [`Program`] of steps (fused loop
//! nests compiled by Cranelift, matrix products by the `gemm` crate, a few plain routines) and runs it. [`Engine`] is the face all engines
//! show to the worker that owns them.
//!
//! This crate knows nothing of sessions, sockets or the user-facing tensor types. A verified graph never makes an engine panic.

mod buffer;
pub mod cost;
mod egraph;
pub mod engine;
mod kernel;
mod native;
pub mod options;
mod passes;
pub mod pipeline;
pub mod report;
mod threads;

pub use cost::Machine;
pub use engine::{Arg, Compile, Compiled, Engine, EngineError, EngineInfo, EngineStats, Value};
pub use native::{ArtifactError, Dump, Native, NativeConfig, Program};
pub use options::{Numerics, Options};
pub use report::{Cost, Report};
