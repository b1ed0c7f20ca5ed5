//! The functions of NVRTC that are needed, each behind one safe function.
//!
//! The library is opened at run time, so that programs start without it. A [`Program`] gives what
//! it holds back when dropped.
#![expect(unsafe_code, reason = "calls NVRTC")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::Path,
    sync::Once,
};

use libloading::Library;

use crate::cuda::gate;

type Handle = *mut c_void;

/// NVRTC, opened.
pub(super) struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    /// What the functions are in. It stays open.
    _library: Library,
}

/// Opens a library by name or path.
pub(super) fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: NVRTC and its companion may be initialized at any time and on any thread.
    unsafe { Library::new(path) }
}

/// A function of the library.
fn function<F: Copy>(library: &Library, name: &str) -> Result<F, libloading::Error> {
    // SAFETY: the fields of `Nvrtc` give each name the type `nvrtc.h` declares.
    let symbol = unsafe { library.get::<F>(name.as_bytes()) };
    symbol.map(|f| *f)
}

impl Nvrtc {
    pub(super) fn new(library: Library) -> Result<Nvrtc, libloading::Error> {
        Ok(Nvrtc {
            create: function(&library, "nvrtcCreateProgram")?,
            compile: function(&library, "nvrtcCompileProgram")?,
            destroy: function(&library, "nvrtcDestroyProgram")?,
            log_size: function(&library, "nvrtcGetProgramLogSize")?,
            log: function(&library, "nvrtcGetProgramLog")?,
            cubin_size: function(&library, "nvrtcGetCUBINSize")?,
            cubin: function(&library, "nvrtcGetCUBIN")?,
            version: function(&library, "nvrtcVersion")?,
            error: function(&library, "nvrtcGetErrorString")?,
            _library: library,
        })
    }

    /// Major and minor.
    pub(super) fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two numbers.
        unsafe { (self.version)(&mut major, &mut minor) };
        (major, minor)
    }

    /// A program of one translation unit.
    pub(super) fn program(&self, text: &str) -> Result<Program<'_>, String> {
        let text = CString::new(text).map_err(|e| e.to_string())?;
        let mut handle: Handle = std::ptr::null_mut();
        let (name, none) = (c"kernels.cu", std::ptr::null());
        // SAFETY: the strings end with a zero and live as long as the call, which copies them;
        // there are no headers.
        let code = unsafe {
            (self.create)(&mut handle, text.as_ptr(), name.as_ptr(), 0, none, std::ptr::null())
        };
        self.check(code)?;
        Ok(Program { nvrtc: self, handle })
    }

    fn check(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: gives a constant string for any number.
        let text = unsafe { (self.error)(code) };
        // SAFETY: as above; it ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        Err(format!("{} ({code})", text.to_string_lossy()))
    }
}

/// A program, from its creation on.
pub(super) struct Program<'n> {
    nvrtc: &'n Nvrtc,
    handle: Handle,
}

impl Program<'_> {
    pub(super) fn compile(&self, flags: &[CString]) -> Result<(), String> {
        let flags: Vec<*const c_char> = flags.iter().map(|f| f.as_ptr()).collect();
        static FIRST: Once = Once::new();
        // SAFETY: the program is alive; so many strings, each of which ends with a zero, live as
        // long as the call.
        let code = gate::during(&FIRST, || unsafe {
            (self.nvrtc.compile)(self.handle, flags.len() as c_int, flags.as_ptr())
        });
        self.nvrtc.check(code)
    }

    /// What the compiler said.
    pub(super) fn log(&self) -> String {
        let bytes = self.bytes(self.nvrtc.log_size, self.nvrtc.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned()
    }

    /// The machine code.
    pub(super) fn cubin(&self) -> Result<Vec<u8>, String> {
        self.bytes(self.nvrtc.cubin_size, self.nvrtc.cubin)
    }

    fn bytes(
        &self,
        size_of: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
        read: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the program is alive; writes a number.
        let code = unsafe { size_of(self.handle, &mut size) };
        self.nvrtc.check(code)?;
        let mut bytes = vec![0u8; size];
        // SAFETY: the program is alive; writes as many bytes as it said just now.
        let code = unsafe { read(self.handle, bytes.as_mut_ptr().cast()) };
        self.nvrtc.check(code)?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is alive, and nobody has it afterwards.
        unsafe { (self.nvrtc.destroy)(&mut self.handle) };
    }
}
