//! Filetests: every `*.gt` under `tests/files` says in its first lines what it tests, and what is
//! expected of it.
//!
//! - `; test cat`: the tape is written as it prints.
//! - `; test shape`: every instruction has its type written, and it is the inferred one.
//! - `; test verify`: each mistake is announced on its line as `;~ message`, and there are no
//!   others.
//! - `; test explain`: the diagnostics are drawn as the last lines, each after `;|`, say.
//! - `; test run`: `; in %0 = 1 2 3` gives an input, `; out %4 = 6` expects an output, `; error =
//!   ...` a failure. The first `in` after an `out` or `error` begins a new case. Integers agree
//!   exactly, floats to a few units.
//!
//! With `GT_BLESS=1` the expectations are rewritten to what was found, to be read before they are
//! committed.

mod file;
mod run;
mod texts;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use file::File;
use gt_ir::{OpKind, text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

/// The `*.gt` files below `folder`, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("a readable folder").path()) {
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "gt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// What is wrong with a file; with `bless`, rewrites its expectations first.
fn check(path: &Path, bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut file = File::parse(&text)?;
    if bless {
        file.bless()?;
        fs::write(path, file.text()).map_err(|error| error.to_string())?;
    }
    file.check()
}

#[test]
fn every_file_is_as_expected() {
    let bless = std::env::var_os("GT_BLESS").is_some();
    let (mut failures, paths) = (Vec::new(), files(&root()));
    for path in &paths {
        if let Err(failure) = check(path, bless) {
            let name = path.strip_prefix(root()).unwrap_or(path).display();
            failures.push(format!("--- {name}\n{failure}\n"));
        }
    }
    let (n, of) = (failures.len(), paths.len());
    assert!(
        n == 0,
        "{n} of {of} files fail (GT_BLESS=1 rewrites expectations)\n{}",
        failures.join("\n")
    );
    assert!(of > 60, "only {of} files found");
}

#[test]
fn every_op_has_its_file() {
    let mut missing = BTreeSet::new();
    for kind in OpKind::ALL {
        let path = root().join("ops").join(format!("{}.gt", kind.name()));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let tested = text::parse(&text)
            .is_ok_and(|(tape, _)| tape.instrs().any(|instr| instr.op.kind() == *kind));
        if !(tested
            && text.contains("; test cat")
            && text.contains("; test run")
            && text.contains("; out"))
        {
            missing.insert(kind.name());
        }
    }
    assert!(
        missing.is_empty(),
        "no `ops/<name>.gt` with `; test cat` and `; test run` for {missing:?}"
    );
}
