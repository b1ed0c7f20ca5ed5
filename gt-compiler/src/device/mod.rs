//! Programs on a device with memory of its own: lists of launches over device addresses, captured
//! and replayed as graphs.
//!
//! `gpu` is what such a device must be able to do; everything else here is written over it and
//! knows no driver. `plan` and `place` make a list of steps of scheduled pieces, `calls` says what
//! stays whole, `builder` compiles, `run` runs a plan step by step, `graphs` decides what is
//! replayed and `replay` does it, `tiers` takes the one way or the other, `memory` keeps the
//! account, `download` brings values to the host beside all that, `timing` measures, `engine` is
//! the face. `simulated` is a device for machines without.

mod builder;
mod calls;
mod download;
mod engine;
mod gpu;
mod graphs;
mod memory;
mod place;
mod plan;
mod program;
mod replay;
mod run;
mod simulated;
mod tiers;
mod timing;

pub use simulated::{Counters, Faults, Simulation, SimulationConfig};

#[allow(unused_imports, reason = "devices are built against it")]
pub(crate) use {
    engine::{DeviceConfig, DeviceEngine, SLICE},
    gpu::{Added, Call, DeviceMemory, Gpu, Loader, Reader, Work},
};
