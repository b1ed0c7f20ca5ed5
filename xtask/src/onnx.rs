//! `cargo xtask onnx`: compares ONNX files that GT has written with GT itself.
//!
//! Tests of gt-lang write the files: instructions on random operands, and whole models, each with
//! inputs and with the results of the interpreter. A Python program runs them by ONNX's evaluator
//! and by ONNX Runtime. It needs the version of Python that both are fetched for; with another
//! version nothing is compared.

use crate::libtorch::{for_onnx, unfit_python};
use crate::shell::{Step, cargo, root, target_folder};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Writes the files anew and runs them. A result that differs is an error.
pub(crate) fn onnx() -> Result<()> {
    if let Some(why) = unfit_python("ONNX")? {
        println!("skipped: {why}");
        return Ok(());
    }
    let folder = target_folder().join("onnx");
    write(&folder)?;
    let packages = for_onnx()?;
    let script = root().join("xtask/onnx/judge.py");
    // Writes no cache beside the sources, and has only the pinned packages.
    Step::new("python3", &["-B", "-S", "-W", "ignore", &script.to_string_lossy()])
        .args(&[&folder.to_string_lossy()])
        .env("PYTHONPATH", &packages.to_string_lossy())
        .run()
}

/// Writes the files into an empty folder. The command names the whole workspace, so that the
/// features are those of the other tests.
fn write(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    cargo(&["test", "--workspace", "--features", crate::EXTRAS, "--lib", "io::onnx"])
        .env("GT_ONNX_CASES", &folder.to_string_lossy())
        .run()
}
