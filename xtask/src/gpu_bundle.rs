//! `cargo xtask gpu-bundle`: a folder to copy to a machine with a GPU, where one command tests and
//! measures GT.
//!
//! The folder holds programs built against libtorch for CUDA, which needs no GPU. It does not hold
//! libtorch: the script xtask/gpu/run.py, which is part of the folder, finds the libraries of the
//! PyTorch on the other machine.

use crate::libtorch;
use crate::shell::{Step, cargo, root, target_folder};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest size of the folder in bytes, so that it is easy to copy.
const MOST: u64 = 60_000_000;
/// The scripts that are copied unchanged.
const SCRIPTS: [&str; 4] = [
    "xtask/gpu/run.py",
    "xtask/peers/works_torch.py",
    "xtask/peers/layers_torch.py",
    "xtask/peers/pace.py",
];
/// The packages and features of each command, always the same, so that nothing is built twice.
const CHOICE: [&str; 7] =
    ["--release", "-p", "gt-cli", "-p", "gt-compiler", "--features", "gt-cli/cuda"];

#[derive(Args)]
pub(crate) struct GpuBundleArgs {
    /// The folder to write [default: gpu-bundle in the target folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub(crate) fn gpu_bundle(args: &GpuBundleArgs) -> Result<()> {
    let libtorch = libtorch::for_cuda()?.to_string_lossy().into_owned();
    cargo(&["build", "--bin", "gt-cli"]).args(&CHOICE).env("LIBTORCH", &libtorch).run()?;
    let tests = tests(&libtorch)?;
    let folder = args.out.clone().unwrap_or_else(|| target_folder().join("gpu-bundle"));
    fresh(&folder)?;
    put(&target_folder().join("release/gt-cli"), &folder.join("gt-cli"))?;
    for (name, program) in &tests {
        put(program, &folder.join("tests").join(name))?;
    }
    for script in SCRIPTS {
        let name = Path::new(script).file_name().context("a script has a name")?;
        copy(&root().join(script), &folder.join(name))?;
    }
    fs::write(folder.join("version"), version()?)?;
    let size = size(&folder)?;
    ensure!(size <= MOST, "{} takes {size} bytes, more than {MOST}", folder.display());
    println!("{} is ready, {:.1} MB", folder.display(), size as f64 / 1e6);
    println!("copy it to a machine with a GPU and run: python3 gpu-bundle/run.py");
    Ok(())
}

/// The test programs that use a GPU: their names in the folder, and the paths where they were
/// built.
fn tests(libtorch: &str) -> Result<Vec<(&'static str, PathBuf)>> {
    let said = cargo(&[
        "test",
        "--no-run",
        "--message-format",
        "json",
        "--lib",
        "--test",
        "torch",
        "--test",
        "cuda",
    ])
    .args(&CHOICE)
    .env("LIBTORCH", libtorch)
    .read()?;
    let messages: Vec<Value> = said.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let built = |name: &str, kind: &str| {
        let is = |message: &&Value| {
            message["target"]["name"] == name && message["target"]["kind"][0] == kind
        };
        let mut programs = messages.iter().filter(is).filter_map(|m| m["executable"].as_str());
        programs.next_back().map(PathBuf::from).with_context(|| format!("no tests of {name}"))
    };
    Ok(vec![
        ("gt-compiler-cuda", built("cuda", "test")?),
        ("gt-compiler-torch", built("torch", "test")?),
        ("gt-compiler-unit", built("gt_compiler", "lib")?),
    ])
}

/// Makes an empty folder, in place of the folder of an earlier run.
fn fresh(folder: &Path) -> Result<()> {
    let ours = !folder.exists() || folder.join("run.py").exists();
    ensure!(ours, "{} exists and is not a bundle: name another folder", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder.join("tests"))
        .with_context(|| format!("cannot make {}", folder.display()))
}

/// Copies a program without its debug information.
fn put(program: &Path, to: &Path) -> Result<()> {
    copy(program, to)?;
    Step::new("strip", &[&to.to_string_lossy()]).run()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copying = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::copy(from, to).map(drop).with_context(copying)
}

fn version() -> Result<String> {
    let commit = Step::new("git", &["rev-parse", "--short", "HEAD"]).read()?;
    Ok(format!("{}, commit {}\n", env!("CARGO_PKG_VERSION"), commit.trim()))
}

fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.metadata()?;
        sum += if file.is_dir() { size(&entry.path())? } else { file.len() };
    }
    Ok(sum)
}
