//! Builds the lanes of `csrc/gt_c10d.cpp` into the crate, against the headers of the libtorch that
//! `torch-sys` links.
//!
//! Gloo is a part of every libtorch for Linux, so it is built there only. If the headers are
//! missing, the build ends with the reason and what to do.

use std::env;

const SOURCE: &str = "csrc/gt_c10d.cpp";
const HEADERS: [&str; 2] = ["csrc/gt_c10d.h", "csrc/gloo"];
/// The header without which there are no lanes.
const OF_C10D: &str = "include/torch/csrc/distributed/c10d/ProcessGroupGloo.hpp";
/// Where libtorch's headers are, in its folder.
const INCLUDES: [&str; 2] = ["include", "include/torch/csrc/api/include"];

/// Builds it, if this build is for Linux.
pub(crate) fn build() {
    for source in HEADERS.iter().chain([&SOURCE]) {
        println!("cargo::rerun-if-changed={source}");
    }
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux")
        && let Err(reason) = compile()
    {
        println!("cargo::error={reason}");
    }
}

fn compile() -> Result<(), String> {
    let libraries = gt_build::libraries()?;
    let libtorch = libraries.parent().unwrap_or(&libraries);
    if !libtorch.join(OF_C10D).exists() {
        let folder = libtorch.display();
        return Err(format!("no {OF_C10D} in {folder}: run `cargo xtask libtorch`"));
    }
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").pic(true).opt_level(2).debug(false).file(SOURCE);
    build.include("csrc").define("USE_C10D_GLOO", None);
    // The library's headers are not ours to warn about.
    for folder in INCLUDES {
        build.flag("-isystem").flag(libtorch.join(folder));
    }
    build.flag("-fvisibility=hidden").flag("-Wall").flag("-Wextra");
    build.try_compile("gt_c10d").map_err(|why| format!("the lanes do not compile: {why}"))
}
