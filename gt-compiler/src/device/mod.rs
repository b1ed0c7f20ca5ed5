//! Programs on a device with memory of its own: lists of launches over device addresses, captured
//! and replayed as graphs.
//!
//! `gpu` is the interface of such a device; everything else here is written over it and knows no
//! driver. `calls` names the ops that stay whole. `launch` joins scheduled pieces into launches;
//! `affine` and `formula` find what a library's product can do on the way. `plan` makes a list of
//! steps of the launches, and `builder` compiles it. `run` runs a plan step by step, `hosted` the
//! steps that the host does. `graphs` decides which runs are replays, `replay` does them, and
//! `tiers` takes the one way or the other. `memory` keeps the account, `download` brings values to
//! the host beside all that, `timing` measures, and `engine` is the engine.

mod affine;
mod builder;
mod calls;
mod download;
mod engine;
mod formula;
mod gpu;
mod graphs;
mod hosted;
mod launch;
mod memory;
mod plan;
mod program;
mod replay;
mod run;
mod tiers;
mod timing;

#[allow(unused_imports, reason = "devices are built against it")]
pub(crate) use {
    affine::{Activation, Affine},
    engine::{DeviceConfig, DeviceEngine, SLICE},
    gpu::{Added, Call, DeviceMemory, Gpu, Loader, Reader, Work},
    launch::{Joint, Launch, Part, Slot, Way, launches},
};
