//! A CUDA device as the executor sees one: a stream, libtorch's caching allocator and its matrix
//! products; kernels of our own.
//!
//! Guarantees: as [`Gpu`] says. Everything is ordered on one stream; large uploads come in on a
//! second one beside it, and values leave on a third, whose copies other threads wait for. Products
//! give equal bits for equal operands in equal layouts, captured or not. Several engines may share
//! a device, each with streams of its own, and one process may have engines on several devices.

use std::{cell::RefCell, path::PathBuf, sync::Arc, time::Duration};

use super::{
    attention, driver,
    ffi::{Failure, Properties, Result as Done, Shim},
    loader::{CudaFunction, CudaLoader, Integers},
    nvrtc::Compiler,
    product,
    resources::{Block, Capture, Device, Event, Graph, OwnStream},
    staging::{CudaMark, CudaReader, Downloads, Uploads},
};
use crate::{
    device::{Added, Call, DeviceMemory, Gpu},
    error::EngineError,
    schedule::{Attention, MatMul},
};

/// Bytes of the block that captures are prepared on.
const SCRATCH: usize = 512;

/// How products are rounded, and whether libtorch prefers equal bits to speed where it has a
/// choice: the latter is decided for the whole process by the engine opened last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Precision {
    pub(crate) tf32: bool,
    pub(crate) deterministic: bool,
}

/// One device and one stream on it.
pub(crate) struct CudaGpu {
    name: String,
    total: usize,
    tf32: bool,
    pub(super) device: Device,
    stream: OwnStream,
    loader: Arc<CudaLoader>,
    integers: RefCell<Integers>,
    uploads: RefCell<Uploads>,
    words: RefCell<Downloads>,
    reader: Arc<CudaReader>,
    capture: RefCell<Option<Capture>>,
    scratch: Block,
}

impl CudaGpu {
    /// Opens a device; compiled kernels are kept in `store`.
    ///
    /// # Errors
    /// There is no such device or no driver, or CUDA's libraries are not there.
    pub(crate) fn open(
        index: usize,
        precision: Precision,
        store: Option<PathBuf>,
    ) -> Result<CudaGpu, EngineError> {
        let n_devices = driver::devices()?.len();
        if index >= n_devices {
            return Err(EngineError::Call(format!(
                "there is no cuda:{index}: this machine has {n_devices} CUDA device(s)"
            )));
        }
        let shim = Shim::get().map_err(|mut error| {
            if let EngineError::Missing { what, .. } = &mut error {
                *what = format!("cuda:{index}: {what}");
            }
            error
        })?;
        let device = Device { shim, index: i32::try_from(index).unwrap_or(i32::MAX) };
        let failed = |failure| match failure {
            Failure::OutOfMemory(why) | Failure::Failed(why) => {
                EngineError::Call(format!("cuda:{index}: {why}"))
            }
        };
        let properties = device.properties().map_err(failed)?;
        let compiler = Compiler::new((properties.major, properties.minor), store)?;
        CudaGpu::on(device, &properties, compiler, precision).map_err(failed)
    }

    fn on(
        device: Device,
        properties: &Properties,
        compiler: Compiler,
        precision: Precision,
    ) -> Done<CudaGpu> {
        device.shim.precision(precision.tf32, precision.deterministic)?;
        let stream = device.stream(false)?;
        Ok(CudaGpu {
            name: format!("cuda:{} ({})", device.index, properties.name()),
            total: usize::try_from(properties.total_bytes).unwrap_or(usize::MAX),
            loader: Arc::new(CudaLoader::new(device, compiler)),
            integers: RefCell::default(),
            uploads: RefCell::new(Uploads::new(&device, *stream)?),
            words: RefCell::new(Downloads::of_words(&device, *stream)?),
            reader: Arc::new(CudaReader::new(&device)?),
            capture: RefCell::new(None),
            scratch: device.block(&stream, SCRATCH)?,
            tf32: precision.tf32,
            device,
            stream,
        })
    }

    fn checked<T>(&self, result: Done<T>) -> Result<T, EngineError> {
        self.checked_for(0, result)
    }

    /// What a call that wanted memory says: `asked` bytes, if we know how many.
    fn checked_for<T>(&self, asked: usize, result: Done<T>) -> Result<T, EngineError> {
        result.map_err(|failure| match failure {
            Failure::OutOfMemory(_) => {
                let live = self.memory().live;
                EngineError::OutOfMemory { asked, live, limit: self.total }
            }
            Failure::Failed(why) => EngineError::Call(why),
        })
    }

    /// Makes cuBLAS's handle and workspace of this thread and stream, which cannot be made during a
    /// capture.
    fn prepare(&self) -> Done<()> {
        let [lhs, rhs, out] = [0, 64, 128].map(|at| self.scratch.address() + at);
        self.device.multiply(&self.stream, &product::smallest([lhs, rhs, out]))
    }

    fn begin(&self) -> Done<()> {
        let mut capture = self.capture.borrow_mut();
        *capture = None;
        self.prepare()?;
        *capture = Some(Capture::begin(&self.device, &self.stream)?);
        Ok(())
    }
}

impl Gpu for CudaGpu {
    type Function = CudaFunction;
    type Loader = CudaLoader;
    type Graph = Graph;
    type Block = Block;
    type Timer = [Event; 2];
    type Reader = CudaReader;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn loader(&self) -> Arc<CudaLoader> {
        self.loader.clone()
    }

    fn alloc(&self, bytes: usize) -> Result<Block, EngineError> {
        // The allocator gives multiples of 512 bytes, and an address that is no address for none.
        self.checked_for(bytes, self.device.block(&self.stream, bytes.max(64)))
    }

    fn address(&self, block: &Block) -> u64 {
        block.address()
    }

    fn upload(&self, from: &[u8], to: u64) -> Result<(), EngineError> {
        self.checked(self.uploads.borrow_mut().upload(from, to))
    }

    fn words(&self, from: u64, to: &mut [u8]) -> Result<(), EngineError> {
        self.checked(self.words.borrow_mut().download(from, to))
    }

    fn reader(&self) -> Arc<CudaReader> {
        self.reader.clone()
    }

    fn mark(&self) -> Result<CudaMark, EngineError> {
        self.checked(CudaMark::new(&self.device, &self.stream, self.loader.unused()))
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), EngineError> {
        self.checked(self.device.shim.copy(&self.stream, from, to, bytes))
    }

    fn launch(&self, function: &CudaFunction, args: &[u64]) -> Result<(), EngineError> {
        self.checked(function.launch(&self.stream, args))
    }

    fn product(
        &self,
        work: &MatMul,
        added: Option<Added>,
        [lhs, rhs, out]: [u64; 3],
    ) -> Result<(), EngineError> {
        let Some(dtype) = product::number(work.dtype, self.tf32) else {
            let mut integers = self.integers.borrow_mut();
            let kernel = integers.kernel(&self.loader, work)?;
            // No scalars, and no errors.
            return self.checked(kernel.launch(&self.stream, &[lhs, rhs, out, 0, 0]));
        };
        let calls = product::calls(work, dtype, added, [lhs, rhs, out]);
        self.checked(calls.iter().try_for_each(|call| self.device.multiply(&self.stream, call)))
    }

    fn attention(&self, work: &Attention, call: Call) -> Result<(), EngineError> {
        let Some(call) = attention::call(work, call) else {
            let why = format!("libtorch has no attention of {}", work.dtype);
            return Err(EngineError::Call(why));
        };
        self.checked(self.device.shim.attend(&self.stream, &call))
    }

    fn begin_capture(&self) -> Result<(), EngineError> {
        self.checked(self.begin())
    }

    fn end_capture(&self) -> Result<Graph, EngineError> {
        let capture = self.capture.borrow_mut().take();
        let graph = capture.map_or(Ok(None), Capture::end);
        let graph = self.checked(graph)?;
        graph.ok_or_else(|| EngineError::Call("there is no capture to end".into()))
    }

    fn replay(&self, graph: &Graph) -> Result<(), EngineError> {
        self.checked(graph.launch(&self.stream))
    }

    fn start_timer(&self) -> Result<[Event; 2], EngineError> {
        let timer = || -> Done<[Event; 2]> {
            let timer = [self.device.timer()?, self.device.timer()?];
            timer[0].record(&self.stream)?;
            Ok(timer)
        };
        self.checked(timer())
    }

    fn stop_timer(&self, [_, end]: &[Event; 2]) -> Result<(), EngineError> {
        self.checked(end.record(&self.stream))
    }

    fn elapsed(&self, [start, end]: &[Event; 2]) -> Result<Duration, EngineError> {
        let milliseconds = self.checked(end.wait().and_then(|()| end.since(start)))?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }

    fn synchronize(&self) -> Result<(), EngineError> {
        self.checked(self.device.shim.stream_synchronize(&self.stream))
    }

    fn memory(&self) -> DeviceMemory {
        let found = self.device.memory().unwrap_or_default();
        let [live, reserved, peak] = [found.live, found.reserved, found.peak]
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        DeviceMemory { live, reserved, peak, total: self.total }
    }

    fn trim(&self) {
        // What cannot be given back stays cached; the next call says if the device is lost.
        let _ = self.device.shim.trim(self.device.index);
    }
}

impl Drop for CudaGpu {
    /// Staging memory and modules go when nothing uses them any more.
    fn drop(&mut self) {
        let unused = self.loader.unused();
        if self.device.shim.stream_synchronize(&self.stream).is_ok() {
            drop(unused);
        }
    }
}
