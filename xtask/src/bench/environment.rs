//! The Python environment of the peers: a virtual environment in the target folder, filled from
//! PyPI on first use, or the Python that `GT_PEERS_PYTHON` names.

use super::Peer;
use crate::shell::{Step, target_folder};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The variable that names a Python with the peers' packages.
const PYTHON: &str = "GT_PEERS_PYTHON";

/// A Python with the packages of these peers.
pub(super) fn python(peers: &[Peer]) -> Result<PathBuf> {
    if let Some(python) = std::env::var_os(PYTHON) {
        let python = PathBuf::from(python);
        let absent = missing(&python, peers);
        ensure!(absent.is_empty(), "{PYTHON}={} lacks {}", python.display(), absent.join(", "));
        return Ok(python);
    }
    let folder = target_folder().join("peers");
    let python = folder.join("bin/python");
    if !python.exists() {
        Step::new("python3", &["-m", "venv", &folder.to_string_lossy()])
            .run()
            .context("cannot make a Python environment\nhint: on Debian, install `python3-venv`")?;
    }
    let absent = missing(&python, peers);
    if !absent.is_empty() {
        let words =
            [&["-m", "pip", "install", "--disable-pip-version-check"], &absent[..]].concat();
        Step::new(&python.to_string_lossy(), &words).run().with_context(|| {
            format!(
                "cannot install {} from PyPI\nhint: this needs a network; {PYTHON} may name a \
                 Python that has them",
                absent.join(" and ")
            )
        })?;
    }
    Ok(python)
}

/// The packages that are not installed.
fn missing(python: &Path, peers: &[Peer]) -> Vec<&'static str> {
    let mut absent: Vec<&str> = Vec::new();
    for (module, package) in peers.iter().map(|peer| peer.package()) {
        let code = format!(
            "import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
        );
        let there = Step::new(&python.to_string_lossy(), &["-c", &code]).read().is_ok();
        if !there && !absent.contains(&package) {
            absent.push(package);
        }
    }
    absent
}

/// A sentence about a measurement: machine, versions, day and commit.
pub(super) fn about(python: &Path, peers: &[Peer]) -> Result<String> {
    let mut modules: Vec<&str> = peers.iter().map(|peer| peer.package().0).collect();
    modules.dedup();
    let code = format!(
        "from importlib.metadata import version\nprint(', '.join(f'{{m}} {{version(m)}}' for m in \
         {modules:?}))"
    );
    about_with(Step::new(&python.to_string_lossy(), &["-c", &code]).read()?.trim())
}

/// The same, of these versions.
pub(super) fn about_with(versions: &str) -> Result<String> {
    let day = Step::new("date", &["-u", "+%F"]).read()?;
    Ok(format!("{}, {}; {}; commit {}", machine(), versions, day.trim(), commit()?))
}

/// The name of the processor and the number of cores.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if n_cores == 1 { "1 core".into() } else { format!("{n_cores} cores") };
    format!("{}, {cores}", model.map_or(std::env::consts::ARCH, |(_, name)| name.trim()))
}

fn commit() -> Result<String> {
    let head = Step::new("git", &["rev-parse", "--short", "HEAD"]).read()?;
    let changes = Step::new("git", &["status", "--porcelain", "--untracked-files=no"]).read()?;
    let with = if changes.is_empty() { "" } else { " with changes" };
    Ok(format!("{}{with}", head.trim()))
}
