//! The files of `deploy/` against the systems that read them: every key is one that the system
//! knows, and every value has the form that the system wants.
//!
//! Each checker is also tried on files with mistakes: a test writes every key wrong in turn.
//! Nothing is fetched; what a machine has beside (`systemd-analyze`, `bash`) is used where it is
//! there.
//!
//! The command lines and variables in these files are checked by `gt-cli/src/args/tests.rs`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "a test says that it is skipped")]

mod kubernetes;
mod slurm;
mod systemd;

use std::path::{Path, PathBuf};

/// A file of `deploy/`.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("deploy/{name}: {error}"))
}

/// The files of a folder of `deploy/` that end with this, so that a new one is checked too.
fn names(folder: &str, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(path(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    assert!(names.iter().all(|name| name.ends_with(end)), "other files than {end}: {names:?}");
    names.sort();
    names
}
