//! Builds the C++ files of `csrc` as a shared library against the headers and libraries of a
//! libtorch for CUDA.
//!
//! It is linked with libtorch's CUDA libraries but not with what those need in turn (cuBLAS, cuDNN,
//! NCCL), so it builds on machines without them and without a GPU. What cannot be done ends the
//! build with the reason and what to do.

use std::{
    env,
    path::{Path, PathBuf},
};

const SOURCES: [&str; 2] = ["csrc/gt_cuda.cpp", "csrc/attention.cpp"];
const HEADERS: [&str; 2] = ["csrc/gt_cuda.h", "csrc/shim.h"];
/// Headers without which the wrong libtorch was found.
const OF_LIBTORCH: &str = "include/ATen/cuda/MemPool.h";
const OF_CUDA: &str = "include/cuda_runtime_api.h";
const LINK: [&str; 5] =
    ["-lc10_cuda", "-ltorch_cuda", "-ltorch_cpu", "-lc10", "-l:libcudart.so.13"];

/// The folders that hold `include` and `lib`: libtorch's, and that of CUDA's runtime, which may be
/// the same.
struct Folders {
    libtorch: PathBuf,
    cuda: PathBuf,
}

/// Builds it, and tells the crate where it is.
pub(crate) fn build() {
    for source in SOURCES.iter().chain(&HEADERS) {
        println!("cargo::rerun-if-changed={source}");
    }
    match folders() {
        Ok(folders) => {
            let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
            let library = out.join("libgt_cuda.so");
            link(&folders, &library);
            println!("cargo::rustc-env=GT_CUDA_LIBRARY={}", library.display());
        }
        Err(reason) => println!("cargo::error={reason}"),
    }
}

fn folders() -> Result<Folders, String> {
    let libraries = gt_build::libraries()?;
    let libtorch = libraries.parent().unwrap_or(&libraries).to_path_buf();
    // Beside libtorch, or where Python's packages put it.
    let places = [libtorch.clone(), libtorch.join("../nvidia/cu13")];
    let cuda = places.into_iter().find(|place| place.join(OF_CUDA).exists());
    match cuda {
        Some(cuda) if libtorch.join(OF_LIBTORCH).exists() => Ok(Folders { libtorch, cuda }),
        _ => Err(format!(
            "no {OF_LIBTORCH} or no {OF_CUDA} for the libtorch in {}: run `cargo xtask libtorch \
             --cuda`",
            libtorch.display()
        )),
    }
}

fn tool(folders: &Folders) -> cc::Build {
    let mut tool = cc::Build::new();
    tool.cpp(true).std("c++17").pic(true).opt_level(2).debug(false).cargo_metadata(false);
    // The libraries' headers are not ours to warn about.
    for folder in [&folders.libtorch, &folders.cuda] {
        tool.flag("-isystem").flag(folder.join("include"));
    }
    tool.flag("-fvisibility=hidden").flag("-Wall").flag("-Wextra");
    tool
}

fn link(folders: &Folders, library: &Path) {
    let objects = tool(folders).files(SOURCES).compile_intermediates();
    let mut command = tool(folders).get_compiler().to_command();
    command.arg("-shared").args(objects).arg("-o").arg(library);
    for folder in [&folders.libtorch, &folders.cuda] {
        command.arg("-L").arg(folder.join("lib"));
    }
    // Every symbol of the shim itself has to be there.
    command.args(LINK).args(["-Wl,--no-undefined", "-Wl,--allow-shlib-undefined", "-Wl,-s"]);
    if !command.status().is_ok_and(|status| status.success()) {
        println!("cargo::error=cannot link {}: {command:?}", library.display());
    }
}
