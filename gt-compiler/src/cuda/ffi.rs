//! The functions of `csrc/gt_cuda.h`, each behind one safe method of [`Shim`].
//!
//! Guarantees: a call that fails says why; host memory comes in as slices or as [`Pinned`], with
//! its bounds checked; device addresses are numbers, and a wrong one is an error of the device.
//! Handles are made here only, but given back by whoever owns them: that is `resources`, whose
//! types do it once, in `Drop`, and nobody else calls the methods that do.
#![expect(unsafe_code, reason = "calls the C++ shim over libtorch")]

use std::ffi::{CStr, CString, c_char, c_void};

use libloading::os::unix::Library;

use super::{gate, load};
use crate::error::EngineError;

/// Why a call failed, in the words of libtorch or CUDA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The device, or page-locked memory, is full.
    OutOfMemory(String),
    /// Anything else.
    Failed(String),
}

pub(super) type Result<T> = std::result::Result<T, Failure>;

/// A pointer the shim gave: it means something to the shim only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Handle(usize);

impl Handle {
    const NONE: Handle = Handle(0);
}

/// `gt_cuda_stream`. The shim owns it and never gives it up, so it may be copied; whose it is,
/// `resources` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Stream {
    id: i64,
    handle: Handle,
    device: i32,
}

/// `gt_cuda_properties`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Properties {
    name: [u8; 256],
    pub(super) major: i32,
    pub(super) minor: i32,
    pub(super) multiprocessors: i32,
    pub(super) total_bytes: u64,
}

impl Properties {
    pub(super) fn name(&self) -> String {
        let text = self.name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// `gt_cuda_memory`, in bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Memory {
    pub(super) live: u64,
    pub(super) reserved: u64,
    pub(super) peak: u64,
}

/// `gt_cuda_product`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Product {
    pub(super) lhs: u64,
    pub(super) rhs: u64,
    pub(super) out: u64,
    pub(super) batch: i64,
    pub(super) m: i64,
    pub(super) n: i64,
    pub(super) k: i64,
    pub(super) lhs_strides: [i64; 3],
    pub(super) rhs_strides: [i64; 3],
    /// As the header numbers them.
    pub(super) dtype: i32,
    /// Likewise.
    pub(super) activation: i32,
    pub(super) bias: u64,
}

/// `gt_cuda_attention`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Attention {
    pub(super) query: u64,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) out: u64,
    pub(super) sums: u64,
    pub(super) grad: u64,
    pub(super) grads: [u64; 3],
    pub(super) batch: i64,
    pub(super) heads: i64,
    pub(super) length: i64,
    pub(super) positions: i64,
    pub(super) width: i64,
    pub(super) query_strides: [i64; 4],
    pub(super) key_strides: [i64; 4],
    pub(super) value_strides: [i64; 4],
    pub(super) grad_strides: [i64; 4],
    pub(super) scale: f64,
    /// As the header numbers them.
    pub(super) dtype: i32,
    pub(super) causal: i32,
    pub(super) backward: i32,
}

/// Declares the table of the shim's functions, and how it is filled.
macro_rules! functions {
    ($($(#[$when:meta])? $name:ident($($argument:ty),*);)*) => {
        struct Functions {
            message: unsafe extern "C" fn() -> *const c_char,
            $($(#[$when])? $name: unsafe extern "C" fn($($argument),*) -> i32,)*
        }

        impl Functions {
            fn find(library: &Library) -> std::result::Result<Functions, String> {
                Ok(Functions {
                    message: symbol(library, concat!("gt_cuda_message", "\0"))?,
                    $(
                        $(#[$when])?
                        $name: symbol(library, concat!("gt_cuda_", stringify!($name), "\0"))?,
                    )*
                })
            }
        }
    };
}

functions! {
    #[cfg(test)]
    device_count(*mut i32);
    open(i32, *mut Properties);
    #[cfg(test)]
    synchronize_device(i32);
    #[cfg(test)]
    last_error(i32);
    precision(i32, i32);
    stream_take(i32, i32, *mut Stream);
    stream_give_back(*const Stream);
    stream_synchronize(*const Stream);
    event_create(i32, i32, *mut Handle);
    event_destroy(Handle);
    event_record(Handle, *const Stream);
    stream_wait(*const Stream, Handle);
    event_synchronize(Handle);
    event_elapsed(Handle, Handle, *mut f32);
    alloc(*const Stream, usize, *mut u64);
    free(u64);
    memory_of(i32, *mut Memory);
    trim(i32);
    host_alloc(i32, usize, *mut *mut u8);
    host_free(i32, *mut u8);
    upload(*const Stream, *const u8, u64, usize);
    download(*const Stream, u64, *mut u8, usize);
    copy(*const Stream, u64, u64, usize);
    module_load(i32, *const c_void, *mut Handle);
    module_unload(Handle);
    module_function(Handle, *const c_char, *mut Handle);
    launch(*const Stream, Handle, u32, u32, *const u64, usize);
    multiply(*const Stream, *const Product);
    attend(*const Stream, *const Attention);
    capture_begin(*const Stream, *mut Handle);
    capture_end(Handle, *mut Handle);
    graph_launch(Handle, *const Stream);
    graph_destroy(Handle);
}

/// `name` ends in a zero byte.
fn symbol<T: Copy>(library: &Library, name: &str) -> std::result::Result<T, String> {
    // SAFETY: the table gives each name the type the header declares, and the library was built
    // from that header with this program.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|e| e.to_string())
}

/// The loaded shim. It is never unloaded.
pub(super) struct Shim {
    functions: Functions,
    _library: Library,
}

/// Calls a function of the table. The arguments of every use fulfill what the header asks, as the
/// method around it says.
macro_rules! call {
    ($shim:expr, $name:ident($($argument:expr),*)) => {{
        static FIRST: std::sync::Once = std::sync::Once::new();
        // SAFETY: see `functions!` for the types; pointers are those of locals, slices or `Pinned`
        // alive during the call, handles the shim's own.
        let status = gate::during(&FIRST, || unsafe { ($shim.functions.$name)($($argument),*) });
        $shim.result(status)
    }};
}

impl Shim {
    /// The shim of this process, loaded at the first call.
    ///
    /// # Errors
    /// The libraries are not there, or are not for CUDA.
    pub(super) fn get() -> std::result::Result<&'static Shim, EngineError> {
        static SHIM: std::sync::OnceLock<std::result::Result<Shim, EngineError>> =
            std::sync::OnceLock::new();
        SHIM.get_or_init(Shim::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> std::result::Result<Shim, EngineError> {
        let library = load::library()?;
        let functions = Functions::find(&library).map_err(EngineError::Call)?;
        Ok(Shim { functions, _library: library })
    }

    fn result(&self, status: i32) -> Result<()> {
        match status {
            0 => Ok(()),
            2 => Err(Failure::OutOfMemory(self.message())),
            _ => Err(Failure::Failed(self.message())),
        }
    }

    fn message(&self) -> String {
        // SAFETY: takes nothing.
        let text = unsafe { (self.functions.message)() };
        // SAFETY: the shim gives a string of this thread's, ended by a zero byte and unchanged
        // until its next call.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().trim_end().to_owned()
    }

    #[cfg(test)]
    pub(super) fn device_count(&self) -> Result<usize> {
        let mut n = 0;
        call!(self, device_count(&mut n))?;
        Ok(usize::try_from(n).unwrap_or(0))
    }

    pub(super) fn open(&self, device: i32) -> Result<Properties> {
        let mut found =
            Properties { name: [0; 256], major: 0, minor: 0, multiprocessors: 0, total_bytes: 0 };
        call!(self, open(device, &mut found))?;
        Ok(found)
    }

    #[cfg(test)]
    pub(super) fn synchronize_device(&self, device: i32) -> Result<()> {
        call!(self, synchronize_device(device))
    }

    #[cfg(test)]
    pub(super) fn last_error(&self, device: i32) -> Result<()> {
        call!(self, last_error(device))
    }

    pub(super) fn precision(&self, tf32: bool, deterministic: bool) -> Result<()> {
        call!(self, precision(i32::from(tf32), i32::from(deterministic)))
    }

    pub(super) fn stream_take(&self, device: i32, high_priority: bool) -> Result<Stream> {
        let mut stream = Stream { id: 0, handle: Handle::NONE, device };
        call!(self, stream_take(device, i32::from(high_priority), &mut stream))?;
        Ok(stream)
    }

    /// Nothing runs on it, and whoever took it has no more use for it.
    pub(super) fn stream_give_back(&self, stream: &Stream) -> Result<()> {
        call!(self, stream_give_back(stream))
    }

    pub(super) fn stream_synchronize(&self, stream: &Stream) -> Result<()> {
        call!(self, stream_synchronize(stream))
    }

    pub(super) fn event_create(&self, device: i32, timed: bool) -> Result<Handle> {
        let mut event = Handle::NONE;
        call!(self, event_create(device, i32::from(timed), &mut event))?;
        Ok(event)
    }

    pub(super) fn event_destroy(&self, event: Handle) -> Result<()> {
        call!(self, event_destroy(event))
    }

    pub(super) fn event_record(&self, event: Handle, stream: &Stream) -> Result<()> {
        call!(self, event_record(event, stream))
    }

    pub(super) fn stream_wait(&self, stream: &Stream, event: Handle) -> Result<()> {
        call!(self, stream_wait(stream, event))
    }

    pub(super) fn event_synchronize(&self, event: Handle) -> Result<()> {
        call!(self, event_synchronize(event))
    }

    pub(super) fn event_elapsed(&self, from: Handle, to: Handle) -> Result<f32> {
        let mut milliseconds = 0.0;
        call!(self, event_elapsed(from, to, &mut milliseconds))?;
        Ok(milliseconds)
    }

    pub(super) fn alloc(&self, stream: &Stream, bytes: usize) -> Result<u64> {
        let mut address = 0;
        call!(self, alloc(stream, bytes, &mut address))?;
        Ok(address)
    }

    /// `address` came from `alloc` and was not given back yet.
    pub(super) fn free(&self, address: u64) -> Result<()> {
        call!(self, free(address))
    }

    pub(super) fn memory_of(&self, device: i32) -> Result<Memory> {
        let mut memory = Memory::default();
        call!(self, memory_of(device, &mut memory))?;
        Ok(memory)
    }

    pub(super) fn trim(&self, device: i32) -> Result<()> {
        call!(self, trim(device))
    }

    /// Page-locked memory of the host, zeroed.
    pub(super) fn pinned(&'static self, device: i32, len: usize) -> Result<Pinned> {
        let mut at = std::ptr::null_mut();
        call!(self, host_alloc(device, len, &mut at))?;
        // SAFETY: the shim gave `len` bytes that are nobody else's.
        unsafe { at.write_bytes(0, len) };
        Ok(Pinned { at, len, device, shim: self })
    }

    /// Enqueues a copy of `len` bytes from `offset`. The bytes stay as they are until it has run:
    /// [`Pinned::write`] is for then.
    pub(super) fn upload(
        &self,
        stream: &Stream,
        from: &Pinned,
        offset: usize,
        to: u64,
        len: usize,
    ) -> Result<()> {
        let from = from.part(offset, len)?;
        call!(self, upload(stream, from, to, len))
    }

    /// Enqueues a copy of `len` bytes to the beginning of `to`: [`Pinned::read`] is for when it has
    /// run.
    pub(super) fn download(
        &self,
        stream: &Stream,
        from: u64,
        to: &mut Pinned,
        len: usize,
    ) -> Result<()> {
        let to = to.part(0, len)?;
        call!(self, download(stream, from, to, len))
    }

    pub(super) fn copy(&self, stream: &Stream, from: u64, to: u64, len: usize) -> Result<()> {
        call!(self, copy(stream, from, to, len))
    }

    /// `image` is a whole cubin.
    pub(super) fn module_load(&self, device: i32, image: &[u8]) -> Result<Handle> {
        let mut module = Handle::NONE;
        call!(self, module_load(device, image.as_ptr().cast(), &mut module))?;
        Ok(module)
    }

    pub(super) fn module_unload(&self, module: Handle) -> Result<()> {
        call!(self, module_unload(module))
    }

    pub(super) fn module_function(&self, module: Handle, name: &str) -> Result<Handle> {
        let c_name = CString::new(name).map_err(|e| Failure::Failed(e.to_string()))?;
        let mut function = Handle::NONE;
        call!(self, module_function(module, c_name.as_ptr(), &mut function))?;
        Ok(function)
    }

    /// `arguments` are as many as the kernel has parameters.
    pub(super) fn launch(
        &self,
        stream: &Stream,
        function: Handle,
        [grid, block]: [u32; 2],
        arguments: &[u64],
    ) -> Result<()> {
        call!(self, launch(stream, function, grid, block, arguments.as_ptr(), arguments.len()))
    }

    pub(super) fn multiply(&self, stream: &Stream, product: &Product) -> Result<()> {
        call!(self, multiply(stream, product))
    }

    pub(super) fn attend(&self, stream: &Stream, attention: &Attention) -> Result<()> {
        call!(self, attend(stream, attention))
    }

    pub(super) fn capture_begin(&self, stream: &Stream) -> Result<Handle> {
        let mut capture = Handle::NONE;
        call!(self, capture_begin(stream, &mut capture))?;
        Ok(capture)
    }

    pub(super) fn capture_end(&self, capture: Handle) -> Result<Handle> {
        let mut graph = Handle::NONE;
        call!(self, capture_end(capture, &mut graph))?;
        Ok(graph)
    }

    pub(super) fn graph_launch(&self, graph: Handle, stream: &Stream) -> Result<()> {
        call!(self, graph_launch(graph, stream))
    }

    pub(super) fn graph_destroy(&self, graph: Handle) -> Result<()> {
        call!(self, graph_destroy(graph))
    }
}

/// Page-locked memory, which the device copies from and to while the host goes on.
pub(super) struct Pinned {
    at: *mut u8,
    len: usize,
    device: i32,
    shim: &'static Shim,
}

// SAFETY: it owns its memory, and the shim's functions may be called on any thread.
unsafe impl Send for Pinned {}

impl Pinned {
    fn part(&self, offset: usize, len: usize) -> Result<*mut u8> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Failure::Failed(format!(
                "{len} bytes from {offset} of page-locked memory of {} bytes",
                self.len
            )));
        }
        Ok(self.at.wrapping_add(offset))
    }

    /// Copies `from` in. The caller has waited for whatever the device copies from there.
    pub(super) fn write(&mut self, offset: usize, from: &[u8]) -> Result<()> {
        let to = self.part(offset, from.len())?;
        // SAFETY: `part` checked that the bytes are this memory's, which is borrowed mutably and so
        // is not `from`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Copies the beginning out. The caller has waited for what the device copied there.
    pub(super) fn read(&self, to: &mut [u8]) -> Result<()> {
        let from = self.part(0, to.len())?;
        // SAFETY: as in `write`; `to` is borrowed mutably and so is not this memory.
        unsafe { std::ptr::copy_nonoverlapping(from.cast_const(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }
}

impl Drop for Pinned {
    /// The runtime itself waits for copies that use the memory. A failure says that the device is
    /// lost already.
    fn drop(&mut self) {
        let _ = call!(self.shim, host_free(self.device, self.at));
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::error::Hinted;

    use super::*;

    /// Where CUDA's libraries are, but no device, every call is an error with a reason; where they
    /// are not, loading is.
    #[test]
    fn no_device_is_an_error() {
        let shim = match Shim::get() {
            Ok(shim) => shim,
            Err(why) => return assert!(why.hint().is_some(), "{why}"),
        };
        if shim.device_count().is_ok_and(|n| n > 0) {
            return;
        }
        let Err(Failure::Failed(why)) = shim.open(0) else { panic!("a device from nowhere") };
        assert!(!why.is_empty());
        assert!(shim.stream_take(0, false).is_err());
        assert!(shim.pinned(0, 64).is_err());
        assert!(shim.synchronize_device(0).is_err());
        assert!(shim.memory_of(0).is_err());
        assert_eq!(shim.precision(true, true), Ok(()));
        assert!(shim.trim(0).is_err());
    }
}
