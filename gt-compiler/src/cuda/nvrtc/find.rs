//! Where NVRTC is: on the library path, beside libtorch, in a CUDA toolkit or in a Python
//! environment.

use std::path::{Path, PathBuf};

use super::ffi::{self, Nvrtc};
use crate::error::EngineError;

/// The libraries of the CUDA versions there are kernels for, newest first.
const NAMES: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
/// Its companion, which it looks for on the library path only.
const COMPANION: &str = "libnvrtc-builtins.so";

/// Opens NVRTC.
pub(super) fn load() -> Result<Nvrtc, EngineError> {
    let mut tried = Vec::new();
    let places = std::iter::once(None).chain(folders().into_iter().map(Some));
    for folder in places {
        if let Some(folder) = &folder {
            companion(folder);
        }
        for name in NAMES {
            let path = folder.as_ref().map_or_else(|| name.into(), |folder| folder.join(name));
            match ffi::open(&path).and_then(Nvrtc::new) {
                Ok(nvrtc) => {
                    if let (None, Some(folder)) = (&folder, loaded_from()) {
                        companion(&folder);
                    }
                    return Ok(nvrtc);
                }
                Err(why) => tried.push(why.to_string()),
            }
        }
    }
    Err(EngineError::Missing {
        what: format!(
            "NVRTC, the compiler of CUDA kernels, cannot be loaded: {}",
            tried.join("; ")
        ),
        hint: "`cargo xtask libtorch --cuda` fetches it; set LIBTORCH or the library path to it",
    })
}

/// The folder NVRTC was loaded from, where a program's own path led to it: that path does not lead
/// NVRTC to its companion.
fn loaded_from() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().find_map(|line| {
        line.find('/').map(|at| &line[at..]).filter(|path| path.contains("/libnvrtc.so"))
    })?;
    Path::new(path).parent().map(Path::to_path_buf)
}

/// Loads the companion from a folder, so that NVRTC finds it there.
fn companion(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(COMPANION)
            && let Ok(library) = ffi::open(&entry.path())
        {
            std::mem::forget(library); // it stays, as NVRTC does
        }
    }
}

/// Folders that may hold NVRTC.
fn folders() -> Vec<PathBuf> {
    let of =
        |variable: &str| std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut folders = Vec::new();
    folders.extend(of("LIBTORCH").map(|libtorch| libtorch.join("lib")));
    for toolkit in ["CUDA_HOME", "CUDA_PATH"] {
        folders.extend(of(toolkit).map(|toolkit| toolkit.join("lib64")));
    }
    for python in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(of) {
        folders.extend(packages(&python));
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Where the wheels of a Python environment put NVRTC.
fn packages(python: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(python.join("lib")) else { return Vec::new() };
    let mut versions: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    versions.sort();
    let inside = |version: &PathBuf| {
        ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "torch/lib"]
            .map(|inside| version.join("site-packages").join(inside))
    };
    versions.iter().flat_map(inside).collect()
}

/// A compiler for tests, which do without where there is none, and say so.
#[cfg(test)]
pub(in crate::cuda) fn for_test(
    capability: (i32, i32),
    folder: Option<PathBuf>,
) -> Option<super::Compiler> {
    let compiler = super::Compiler::new(capability, folder);
    compiler.inspect_err(|why| eprintln!("skipped: {why}")).ok()
}
