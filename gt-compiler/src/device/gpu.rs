//! The interface of a device with memory of its own, as the executor needs it.
//!
//! Everything a [`Gpu`] is asked for is ordered on one stream: a call returns when its work is
//! enqueued, and work runs in the order of the calls. Only [`Gpu::words`] and [`Gpu::synchronize`]
//! wait. Values reach the host by way of a [`Reader`], beside the stream and on other threads.
//! Addresses are numbers: the host never looks behind one. An error of work that was enqueued
//! earlier may come back from any later call, and then from every one after it: CUDA's are sticky,
//! and the executor treats any failure of a launch, a copy or a replay as the end of the device.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    device::{Activation, Joint},
    error::EngineError,
    kernel::{Cut, KernelSpec},
    schedule::{Attention, Fold, MatMul, Routine},
};

/// The work of one launch. Buffers are numbered by argument: equal works share a function, whatever
/// its arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Arguments: `KernelSpec::buffers`.
    Kernel { spec: Box<KernelSpec>, cut: Option<Cut> },
    /// Arguments: `Joint::buffers`.
    Joint(Box<Joint>),
    /// Arguments: the partial results, the result.
    Fold(Fold),
    /// Arguments: the inputs, the result.
    Routine(Box<Routine>),
}

/// Makes functions, on any thread, also while the device runs or captures others.
pub(crate) trait Loader: Send + Sync + 'static {
    /// All kernels of one [`Work`] with their launch sizes, to be launched one after the other with
    /// the same arguments.
    type Function: Send + Sync + 'static;

    /// One function for each work.
    ///
    /// # Errors
    /// The code cannot be generated, compiled or loaded.
    fn load(&self, works: &[Work]) -> Result<Vec<Self::Function>, EngineError>;
}

/// The way of values to the host, beside the stream.
pub(crate) trait Reader: Send + Sync + 'static {
    /// A point in the work of the stream.
    type Mark: Send + 'static;

    /// Copies from the device when the work before the mark is done, and waits for that; work
    /// behind the mark goes on meanwhile, and leaves these bytes alone. Of several threads one
    /// after the other; how much memory is locked for it does not depend on how much is copied.
    fn read(&self, mark: &Self::Mark, from: u64, to: &mut [u8]) -> Result<(), EngineError>;
}

/// One device and one stream on it, owned by the thread of its engine. Functions, blocks, marks and
/// the reader may outlive it, graphs do not.
pub(crate) trait Gpu: Send + 'static {
    /// A loaded function.
    type Function: Send + Sync + 'static;
    /// The maker of functions.
    type Loader: Loader<Function = Self::Function>;
    /// An instantiated graph. Dropping one is safe while its last replay still runs.
    type Graph: Send + 'static;
    /// Device memory. Dropped on any thread, and at once: work enqueued before may still use it,
    /// and work enqueued afterwards gets it only behind that (a caching allocator ordered by the
    /// stream).
    type Block: Send + Sync + 'static;
    /// Two points in the work of the stream.
    type Timer: Send + 'static;
    /// The way of values to the host.
    type Reader: Reader;

    /// The device: `cuda:0 (NVIDIA H200)`.
    fn name(&self) -> String;

    /// The compiler's half of the device.
    fn loader(&self) -> Arc<Self::Loader>;

    /// A block of at least `bytes` bytes (and at least 64), aligned to 256; never called during a
    /// capture.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`], after which the device works on; the executor trims and asks
    /// once more.
    fn alloc(&self, bytes: usize) -> Result<Self::Block, EngineError>;

    /// The address of a block.
    fn address(&self, block: &Self::Block) -> u64;

    /// Copies `from` to the device; `from` has been read when the call returns.
    fn upload(&self, from: &[u8], to: u64) -> Result<(), EngineError>;

    /// Copies a little from the device, and waits for it and everything before it.
    fn words(&self, from: u64, to: &mut [u8]) -> Result<(), EngineError>;

    /// The way of values to the host.
    fn reader(&self) -> Arc<Self::Reader>;

    /// Marks what is enqueued so far.
    fn mark(&self) -> Result<<Self::Reader as Reader>::Mark, EngineError>;

    /// Copies within the device.
    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), EngineError>;

    /// Launches every kernel of a function. `args`: the addresses of its buffers, then that of its
    /// scalars (`u64` each, bits as `scalar_bits` gives them; of `KernelSpec::scalars`,
    /// `Joint::scalars` or `Routine::scalars`), then that of its error words: two `u64` of its own,
    /// zero before the launch.
    fn launch(&self, function: &Self::Function, args: &[u64]) -> Result<(), EngineError>;

    /// A matrix product: its buffers are the operands' and the result's, the accesses in `work` say
    /// where elements of operands lie. The result is contiguous, and zero where `k` is. With
    /// `added`, of floats and one batch, what that says is done to its rows.
    fn product(
        &self,
        work: &MatMul,
        added: Option<Added>,
        buffers: [u64; 3],
    ) -> Result<(), EngineError>;

    /// Attention, or its gradient. What it needs for itself during a capture is the graph's.
    fn attention(&self, work: &Attention, call: Call) -> Result<(), EngineError>;

    /// From now on launches, copies within the device and products are recorded instead of run.
    /// Nothing else is called until the end.
    fn begin_capture(&self) -> Result<(), EngineError>;

    /// Ends the capture, also one in which a call failed; then, and where what was recorded cannot
    /// be a graph, the error is [`EngineError::Call`] with the reason, nothing of it has run, and
    /// the device works on.
    fn end_capture(&self) -> Result<Self::Graph, EngineError>;

    /// Runs a graph with the addresses it was captured with.
    fn replay(&self, graph: &Self::Graph) -> Result<(), EngineError>;

    /// A stopwatch of the device, started: it measures what is enqueued from now on.
    fn start_timer(&self) -> Result<Self::Timer, EngineError>;

    /// Stops it behind what is enqueued now.
    fn stop_timer(&self, timer: &Self::Timer) -> Result<(), EngineError>;

    /// The time that a stopwatch measured, all of whose work has ended.
    fn elapsed(&self, timer: &Self::Timer) -> Result<Duration, EngineError>;

    /// Waits for everything enqueued.
    fn synchronize(&self) -> Result<(), EngineError>;

    /// The account of the device.
    fn memory(&self) -> DeviceMemory;

    /// Gives cached memory back to the device.
    fn trim(&self);
}

/// The work on the rows of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added {
    /// The address of the row that is added to each row.
    pub(crate) bias: u64,
    /// The function of the sums.
    pub(crate) activation: Option<Activation>,
}

/// The arguments of a call for attention: its scale and addresses, of the operands by the accesses
/// of the work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) scale: f64,
    /// Query, key and value.
    pub(crate) operands: [u64; 3],
    /// Made by a forward call, read by a backward one.
    pub(crate) out: u64,
    pub(crate) sums: u64,
    /// The gradient of the result and the places for the gradients of the operands, in a backward
    /// call.
    pub(crate) back: Option<(u64, [u64; 3])>,
}

/// The account of a device's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceMemory {
    /// In blocks alive.
    pub(crate) live: usize,
    /// Taken from the device: `live`, and what is cached.
    pub(crate) reserved: usize,
    /// The highest `live` so far.
    pub(crate) peak: usize,
    /// The memory of the device.
    pub(crate) total: usize,
}
