//! Kernel texts compiled for the host by `g++`, and called.
//!
//! One compilation for many kernels: each stands in a namespace of its own.
#![expect(unsafe_code, reason = "loads and calls what was compiled")]

use std::{collections::BTreeMap, fmt::Write, path::PathBuf, process::Command};

use libloading::Library;

use crate::cuda::source::{PRELUDE, Source};

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
        let mut text = PRELUDE.to_owned();
        for source in sources {
            let own = source.text.strip_prefix(PRELUDE).unwrap();
            writeln!(text, "namespace in_{} {{\n{own}}}", source.name).unwrap();
        }
        let (code, library) = (folder.join("kernels.cpp"), folder.join("kernels.so"));
        std::fs::write(&code, text).unwrap();
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

/// Names that tell kernels apart.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<String, usize>);

impl Names {
    pub(crate) fn fresh(&mut self, base: &str) -> String {
        let n = self.0.entry(base.to_owned()).or_default();
        *n += 1;
        format!("{base}{n}")
    }
}
