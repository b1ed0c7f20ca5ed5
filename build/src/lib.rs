//! The folder of libtorch, and how programs find it: one rule for the build scripts of all packages
//! with programs. A program outside this repository that uses GT with its feature `torch` has one
//! line in its `build.rs`, and this package among its `build-dependencies`:
//!
//! ```text
//! fn main() {
//!     gt_build::link_torch();
//! }
//! ```
//!
//! The rule is that of `torch-sys`, which compiles against the same libtorch: the PyTorch of the
//! environment if `LIBTORCH_USE_PYTORCH` is set, else the folder `LIBTORCH`. If `LIBTORCH` is not
//! set, `.cargo/config.toml` of GT's checkout sets it to the folder of `cargo xtask libtorch`.

#![expect(clippy::print_stdout, reason = "build scripts talk to cargo on their standard output")]

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// A Python program that prints the folder of PyTorch's libraries.
const ASK_PYTORCH: &str =
    "import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))";

/// The build script of packages with programs and without generated code. With their feature
/// `torch` it is that of [`link_torch`].
pub fn main() {
    // Without this line cargo looks for changes in every file of the package.
    println!("cargo::rerun-if-changed=Cargo.toml");
    link_programs();
}

/// As [`link_torch`], if the package that is built has the feature `torch`.
pub fn link_programs() {
    if env::var_os("CARGO_FEATURE_TORCH").is_some() {
        link_torch();
    }
}

/// Tells the linker to write the path of libtorch's libraries into each program of the package, so
/// that programs start without `LD_LIBRARY_PATH`. If the libraries are missing, the build fails
/// with the reason and a cure. With a feature `cuda` of the package the libraries are those for
/// CUDA.
pub fn link_torch() {
    match libraries() {
        Ok(folder) => {
            println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.display());
            if with_cuda() {
                // The libraries that libtorch's CUDA part needs are on the machines that run the
                // program, not on the machine that builds it.
                println!("cargo::rustc-link-arg=-Wl,--allow-shlib-undefined");
            }
        }
        Err(reason) => println!("cargo::error={reason}"),
    }
}

/// The folder of libtorch's libraries, checked to contain those for this build.
///
/// # Errors
/// There is no such folder, or it lacks a library: the reason, and what to do.
pub fn libraries() -> Result<PathBuf, String> {
    let folder = named()?;
    let (library, command) = if with_cuda() {
        ("libtorch_cuda.so", "cargo xtask libtorch --cuda")
    } else {
        ("libtorch_cpu.so", "cargo xtask libtorch")
    };
    let path = folder.join(library);
    // Cargo treats a missing file as changed, so the script runs again when the file appears.
    println!("cargo::rerun-if-changed={}", path.display());
    if path.exists() {
        return Ok(folder);
    }
    Err(format!("no {} in {}: run `{command}`{}", library, folder.display(), and_then(&folder)))
}

fn with_cuda() -> bool {
    env::var_os("CARGO_FEATURE_CUDA").is_some()
}

/// The cure beside fetching. Only the libtorch for the CPU is found without a setting.
fn and_then(folder: &Path) -> &'static str {
    match folder.ends_with(".libtorch/cpu/lib") {
        true if with_cuda() => " and set LIBTORCH to the folder it names",
        true => "",
        false => ", or correct LIBTORCH, which was set for this build",
    }
}

fn named() -> Result<PathBuf, String> {
    if variable("LIBTORCH_USE_PYTORCH").is_some() {
        return of_pytorch();
    }
    let folder = variable("LIBTORCH_LIB").or_else(|| variable("LIBTORCH"));
    folder.map(|folder| folder.join("lib")).ok_or_else(|| {
        "LIBTORCH is not set: build inside the checkout, or set it to a folder of libtorch 2.11.0"
            .into()
    })
}

fn of_pytorch() -> Result<PathBuf, String> {
    let python = if env::var_os("VIRTUAL_ENV").is_some() { "python" } else { "python3" };
    let output = Command::new(python).args(["-c", ASK_PYTORCH]).output();
    let output =
        output.map_err(|error| format!("LIBTORCH_USE_PYTORCH is set, but {python}: {error}"))?;
    if !output.status.success() {
        return Err(format!("LIBTORCH_USE_PYTORCH is set, but {python} has no PyTorch"));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn variable(name: &str) -> Option<PathBuf> {
    println!("cargo::rerun-if-env-changed={name}");
    env::var_os(name).map(PathBuf::from)
}
