//! From a graph of primitives to pieces of work, for every engine that runs plans.
//!
//! A node is either materialized (it has a buffer) or computed inside the kernels that use it.
//! `materialize` decides which nodes are, and in which order: inputs, outputs, results of
//! reductions, products and routines and the operands of the latter two, values used by several
//! kernels when computing them again would cost more than reading them, and the operands of views
//! that a kernel cannot follow. `updates` finds tables of which a few rows change. Then `build`
//! makes the pieces of each task, kernels by `fuse`; `work` says what computing a node takes.
//! `group` finds the pieces that can run together row by row, and `draft` makes their stages;
//! `recompute` finds values to make again where memory is short, and `memory` gives buffers their
//! places. Everything here depends on the graph alone: not on threads, caches or the device.

mod build;
mod draft;
mod fuse;
mod group;
mod index;
mod materialize;
mod memory;
mod merge;
mod piece;
mod recompute;
pub(crate) mod rows;
mod sources;
mod stage;
mod updates;
mod work;

use gt_ir::{Graph, Type};
use smallvec::SmallVec;

#[cfg(feature = "torch")]
pub(crate) use {
    draft::kernels,
    group::together,
    memory::Made,
    piece::{Attention, strides},
    stage::KernelStage,
};
pub(crate) use {
    draft::{Draft, drafts},
    group::{Group, MAX_PIECES, cuts, group, is_whole, iterations},
    memory::{Buffers, FAR, Found, Home, Homes, Layout, Place, Uses, distance_in},
    piece::{
        BufferId, Fold, KernelPiece, MatMul, Matrix, Multiplier, Piece, Routine, RowUpdate,
        ScalarArg, UpdateKind, scalar,
    },
    recompute::{Make, Run, Runs, Step, recompute},
    sources::Sources,
    updates::Updates,
};

use crate::error::EngineError;
use materialize::Materialized;

/// The pieces of a graph, and the buffers they work on.
pub(crate) struct Schedule {
    pub(crate) pieces: Vec<Piece>,
    /// For each piece, the nodes that it computes.
    pub(crate) sources: Vec<Sources>,
    /// Bytes of each buffer; those of the inputs come first.
    pub(crate) sizes: Vec<usize>,
    pub(crate) n_inputs: usize,
    pub(crate) outputs: SmallVec<[(BufferId, Type); 1]>,
}

/// Schedules a graph of primitives.
pub(crate) fn schedule(graph: &Graph, updates: Updates) -> Result<Schedule, EngineError> {
    let values = Materialized::of(graph, updates)?;
    let mut pieces = Vec::with_capacity(values.tasks.len());
    let mut sources = Vec::with_capacity(values.tasks.len());
    for (time, task) in values.tasks.iter().enumerate() {
        let (made, of) = build::pieces(&values, time, task)?;
        sources.extend(made.iter().map(|_| of.clone()));
        pieces.extend(made);
    }
    let output = |&id| Some((values.place(id, values.tasks.len())?, values.ty(id)));
    let outputs = graph.outputs().iter().map(output).collect::<Option<_>>();
    let missing = || EngineError::Codegen("an output was not materialized".into());
    let outputs = outputs.ok_or_else(missing)?;
    let n_inputs = graph.inputs().len();
    Ok(Schedule { pieces, sources, outputs, sizes: values.sizes, n_inputs })
}
