//! What a CUDA device lends: streams, blocks, events, graphs, modules and their kernels, each given
//! back when dropped.
//!
//! Guarantees: a handle is given back once, and not used afterwards; any thread may drop any of
//! these at any time, also during a capture and while the device still works with it: blocks go
//! back behind the work enqueued so far, graphs when their last run is over, modules when their
//! engine has waited for its work. A failure to give something back is not reported: the device is
//! lost then, and its next call says so.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use super::ffi::{Handle, Memory, Pinned, Product, Properties, Result, Shim, Stream};

/// One device, open: where its streams, events and memory come from.
#[derive(Clone, Copy)]
pub(super) struct Device {
    pub(super) shim: &'static Shim,
    pub(super) index: i32,
}

impl Device {
    pub(super) fn properties(&self) -> Result<Properties> {
        self.shim.open(self.index)
    }

    /// A stream of one's own.
    pub(super) fn stream(&self, high_priority: bool) -> Result<OwnStream> {
        Ok(OwnStream { stream: self.shim.stream_take(self.index, high_priority)?, shim: self.shim })
    }

    /// An event that orders work.
    pub(super) fn event(&self) -> Result<Event> {
        Ok(Event { handle: self.shim.event_create(self.index, false)?, shim: self.shim })
    }

    /// An event that also knows when it passed.
    pub(super) fn timer(&self) -> Result<Event> {
        Ok(Event { handle: self.shim.event_create(self.index, true)?, shim: self.shim })
    }

    pub(super) fn pinned(&self, len: usize) -> Result<Pinned> {
        self.shim.pinned(self.index, len)
    }

    /// Memory for work on `stream`.
    pub(super) fn block(&self, stream: &Stream, bytes: usize) -> Result<Block> {
        Ok(Block { address: self.shim.alloc(stream, bytes)?, shim: self.shim })
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        self.shim.memory_of(self.index)
    }

    pub(super) fn multiply(&self, stream: &Stream, product: &Product) -> Result<()> {
        self.shim.multiply(stream, product)
    }
}

/// A stream nobody else enqueues work on. Whoever drops it has waited for its work, or knows that
/// the device is lost.
pub(super) struct OwnStream {
    stream: Stream,
    shim: &'static Shim,
}

impl Deref for OwnStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        let _ = self.shim.stream_give_back(&self.stream);
    }
}

/// Device memory of the caching allocator.
pub(crate) struct Block {
    address: u64,
    shim: &'static Shim,
}

impl Block {
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let _ = self.shim.free(self.address);
    }
}

/// A point in a stream's work.
pub(crate) struct Event {
    handle: Handle,
    shim: &'static Shim,
}

impl Event {
    /// It now stands for what the stream was given so far.
    pub(super) fn record(&self, stream: &Stream) -> Result<()> {
        self.shim.event_record(self.handle, stream)
    }

    /// Later work of the stream waits for it; the host does not.
    pub(super) fn block(&self, stream: &Stream) -> Result<()> {
        self.shim.stream_wait(stream, self.handle)
    }

    /// The host waits for it, and for nothing recorded after it.
    pub(super) fn wait(&self) -> Result<()> {
        self.shim.event_synchronize(self.handle)
    }

    /// Milliseconds from an earlier one to this; both are timers that have passed.
    pub(super) fn since(&self, earlier: &Event) -> Result<f32> {
        self.shim.event_elapsed(earlier.handle, self.handle)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.shim.event_destroy(self.handle);
    }
}

/// A capture that is going on.
pub(super) struct Capture {
    handle: Option<Handle>,
    shim: &'static Shim,
}

impl Capture {
    pub(super) fn begin(device: &Device, stream: &Stream) -> Result<Capture> {
        let shim = device.shim;
        Ok(Capture { handle: Some(shim.capture_begin(stream)?), shim })
    }

    /// The graph of what was captured; `None` after it was asked for already.
    pub(super) fn end(mut self) -> Result<Option<Graph>> {
        let Some(capture) = self.handle.take() else { return Ok(None) };
        let handle = self.shim.capture_end(capture)?;
        Ok(Some(Graph { handle, shim: self.shim }))
    }
}

impl Drop for Capture {
    /// Not ended: whatever was captured is let go.
    fn drop(&mut self) {
        if let Some(capture) = self.handle.take()
            && let Ok(handle) = self.shim.capture_end(capture)
        {
            drop(Graph { handle, shim: self.shim });
        }
    }
}

/// An instantiated graph, and the memory libtorch took while it was captured.
pub(crate) struct Graph {
    handle: Handle,
    shim: &'static Shim,
}

impl Graph {
    pub(super) fn launch(&self, stream: &Stream) -> Result<()> {
        self.shim.graph_launch(self.handle, stream)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.shim.graph_destroy(self.handle);
    }
}

/// Modules nobody refers to, whose kernels may still run: they are unloaded once their engine has
/// waited for its stream.
#[derive(Default)]
pub(super) struct Unused {
    modules: Mutex<Vec<Retired>>,
}

impl Unused {
    /// The modules so far: to be dropped when work enqueued before this call is over.
    pub(super) fn take(&self) -> Vec<Retired> {
        std::mem::take(&mut *self.modules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, module: Retired) {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner).push(module);
    }
}

/// A loaded module of which nothing runs any more when it is dropped.
pub(super) struct Retired {
    handle: Handle,
    shim: &'static Shim,
}

impl Drop for Retired {
    fn drop(&mut self) {
        let _ = self.shim.module_unload(self.handle);
    }
}

/// Loaded code.
pub(super) struct Module {
    handle: Handle,
    shim: &'static Shim,
    unused: Arc<Unused>,
}

impl Module {
    /// `image` is a cubin for this kind of device.
    pub(super) fn load(device: &Device, image: &[u8], unused: &Arc<Unused>) -> Result<Module> {
        let handle = device.shim.module_load(device.index, image)?;
        Ok(Module { handle, shim: device.shim, unused: unused.clone() })
    }

    /// A kernel of it, launched with so many blocks of so many threads.
    pub(super) fn kernel(self: &Arc<Module>, name: &str, size: [u32; 2]) -> Result<Kernel> {
        let handle = self.shim.module_function(self.handle, name)?;
        Ok(Kernel { handle, size, module: self.clone() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.unused.put(Retired { handle: self.handle, shim: self.shim });
    }
}

/// A kernel and how it is launched.
pub(crate) struct Kernel {
    handle: Handle,
    size: [u32; 2],
    module: Arc<Module>,
}

impl Kernel {
    pub(super) fn launch(&self, stream: &Stream, arguments: &[u64]) -> Result<()> {
        self.module.shim.launch(stream, self.handle, self.size, arguments)
    }
}
