//! Loads the shim that `build.rs` built, once somebody asks for a CUDA device.
//!
//! The program carries it as bytes and hands it to the loader as an anonymous file, so there is no
//! file to install beside the program. libtorch's CUDA part is loaded first, from the folder the
//! program's libtorch came from: the shim itself does not know folders.
#![expect(unsafe_code, reason = "loads a shared library")]

use std::{
    fs::File,
    io::Write,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::EngineError;

/// The shim, as `build.rs` linked it.
const SHIM: &[u8] = include_bytes!(env!("GT_CUDA_LIBRARY"));
/// libtorch's part for CUDA, and the part every program on libtorch has loaded.
const CUDA_PART: &str = "libtorch_cuda.so";
const CPU_PART: &str = "libtorch_cpu.so";

/// Loads the shim and everything it needs.
///
/// # Errors
/// A library is missing: in the loader's words, with what to do.
pub(super) fn library() -> Result<Library, EngineError> {
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some(folder) = folder_of(&mapped, CPU_PART) {
        let path = folder.join(CUDA_PART);
        if !path.exists() {
            return Err(EngineError::Missing {
                what: format!("libtorch in {} is for the CPU only", folder.display()),
                hint: "`cargo xtask libtorch --cuda --run`, and set LIBTORCH and the library path \
                     to it",
            });
        }
        // It stays: the shim needs it, and libtorch cannot be unloaded.
        std::mem::forget(open(&path, RTLD_LAZY | RTLD_GLOBAL)?);
    }
    let mut file = File::from(
        memfd_create("libgt_cuda.so", MemfdFlags::CLOEXEC)
            .map_err(|e| EngineError::Call(format!("no memory file for the CUDA shim: {e}")))?,
    );
    file.write_all(SHIM)
        .map_err(|e| EngineError::Call(format!("no memory for the CUDA shim: {e}")))?;
    open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), RTLD_LAZY | RTLD_LOCAL)
}

/// Lazily: functions of libraries that nobody calls need not be there.
fn open(path: &Path, flags: i32) -> Result<Library, EngineError> {
    // SAFETY: libtorch and the shim may be initialized at any time and on any thread, and are never
    // unloaded.
    let library = unsafe { Library::open(Some(path), flags) };
    library.map_err(|e| EngineError::Missing {
        what: format!("CUDA's libraries cannot be loaded: {e}"),
        hint: "`cargo xtask libtorch --cuda --run` fetches all of them",
    })
}

/// The folder a library of this process was loaded from, by the kernel's list of mapped files.
fn folder_of(maps: &str, name: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    paths.filter(|path| path.ends_with(name)).find_map(|path| path.parent()).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_loaded_library_is_found() {
        let maps = "7f00-7f01 r--p 00000000 fe:00 12 /usr/lib/libc.so.6\n7f02-7f03 rw-p 0 00:00 0 \
                    \n7f04-7f05 r-xp 00001000 fe:00 13 /opt/a \
                    folder/lib/libtorch_cpu.so\n7f06-7f07 rw-p 0 00:00 0 [stack]\n";
        assert_eq!(folder_of(maps, CPU_PART), Some("/opt/a folder/lib".into()));
        assert_eq!(folder_of(maps, "libtorch.so"), None);
        assert_eq!(folder_of("", CPU_PART), None);
    }
}
