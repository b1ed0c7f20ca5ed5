//! Kernel texts compiled for the host by `g++`, and called.
//!
//! One compilation for many kernels: each stands in a namespace of its own.
#![expect(unsafe_code, reason = "loads and calls what was compiled")]

use std::{path::PathBuf, process::Command};

use libloading::Library;

use crate::cuda::source::{Source, unit};

/// Compiled kernels.
pub(crate) struct Host {
    library: Library,
    folder: PathBuf,
}

impl Host {
    /// Compiles kernels of different names.
    pub(crate) fn new(what: &str, sources: &[Source]) -> Host {
        let folder = std::env::temp_dir().join(format!("gt-kernels-{what}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (code, library) = (folder.join("kernels.cpp"), folder.join("kernels.so"));
        std::fs::write(&code, unit(sources)).unwrap();
        let output = Command::new("g++")
            .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-ffp-contract=off"])
            .args(["-DGT_HOST_EMULATION", "-o"])
            .args([&library, &code])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: the library was made just now, and has no initializers beyond those of its zeroed variables.
        let library = unsafe { Library::new(&library) }.unwrap();
        Host { library, folder }
    }

    /// Runs a kernel to its end.
    pub(crate) fn launch(&self, source: &Source, args: &[u64]) {
        type Launch = unsafe extern "C" fn(u32, *const u64);
        let name = format!("{}_launch", source.name);
        // SAFETY: every text exports its launcher with this signature.
        let launch = unsafe { self.library.get::<Launch>(name.as_bytes()) }.unwrap();
        // SAFETY: the arguments are addresses of the buffers the kernel was made for, which outlive the call.
        unsafe { launch(source.grid, args.as_ptr()) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Names that tell kernels apart: a word and a number.
pub(crate) struct Names(String, usize);

impl Names {
    pub(crate) fn of(word: &str) -> Names {
        Names(word.to_owned(), 0)
    }

    pub(crate) fn fresh(&mut self) -> String {
        self.1 += 1;
        format!("{}{}", self.0, self.1)
    }
}
