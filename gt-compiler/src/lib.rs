//! The compiler and the engines: from graphs to running kernels.
//!
//! [`pipeline`] makes a [`gt_ir::Graph`] cheaper within a [`Numerics`] policy. [`Native`], the CPU
//! engine, turns it into a [`Program`]: tiles of fused kernels (AVX-512 and AVX2 code of its own
//! generator, else Cranelift's), matrix products by the `gemm` crate, a few plain routines; and
//! runs it. [`Compile`] is the part that works in the background, [`Engine`] the interface that the
//! worker which owns an engine sees.
//!
//! This crate knows nothing of sessions, sockets or the user-facing tensor types. A verified graph
//! never makes an engine panic.
//!
//! A match on an enum of GT names every variant, so that a new op, dtype or kind of work is a
//! compile error wherever somebody has to decide about it.
#![deny(clippy::wildcard_enum_match_arm)]

mod action;
mod buffer;
mod clock;
pub mod cost;
#[cfg(feature = "torch")]
pub mod cuda;
#[cfg(feature = "torch")]
pub mod device;
mod download;
mod egraph;
pub mod engine;
mod error;
mod host;
mod kernel;
#[cfg(feature = "torch")]
mod libtorch;
pub mod meter;
mod native;
pub mod options;
mod passes;
pub mod pipeline;
mod place;
mod program;
mod program_file;
pub mod report;
mod schedule;
pub mod shard;
#[cfg(feature = "torch")]
pub mod simulated;
pub mod threads;
#[cfg(feature = "torch")]
pub mod torch;

pub use cost::Machine;
pub use download::{Download, Transfer};
pub use engine::{Arg, Compile, Compiled, Engine, EngineInfo, EngineStats, Value};
pub use error::{ArtifactError, EngineError};
pub use native::{Native, NativeConfig, Team, checksum, keep_file, kept_file, write_whole};
pub use options::{Numerics, Options, Precision};
pub use place::{Device, UnknownDevice};
pub use program::{Dump, Program};
pub use program_file::ProgramFile;
pub use report::{Cost, Report};
