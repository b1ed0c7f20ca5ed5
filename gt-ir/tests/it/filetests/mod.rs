//! Filetests of tapes: every `*.gt` under `tests/files`.
//!
//! - `; test cat`: the tape is written as it prints.
//! - `; test shape`: every instruction has its type written, and it is the inferred one.
//! - `; test verify`: each mistake is announced on its line as `;~ message`, and there are no
//!   others.
//! - `; test explain`: prints the diagnostics as they are drawn.
//! - `; test run`: `; in %0 = 1 2 3` gives an input, `; out %4 = 6` expects an output, `; error =
//!   ...` a failure. The first `in` after an `out` or `error` begins a new case. Integers agree
//!   exactly, floats to a few units.

mod run;
mod texts;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use gt_ir::{
    OpKind,
    testing::filetest::{Action, Command, run_folder},
    text,
};

const COMMANDS: &[Command] = &[
    Command { name: "cat", action: Action::Lines(texts::cat, texts::bless_cat) },
    Command { name: "shape", action: Action::Lines(texts::shape, texts::bless_cat) },
    Command { name: "verify", action: Action::Lines(texts::verify, texts::bless_verify) },
    Command { name: "explain", action: Action::Text(texts::explain) },
    Command { name: "run", action: Action::Lines(run::run, run::bless) },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

#[test]
fn every_file_is_as_expected() {
    let n = run_folder(&root(), COMMANDS).unwrap_or_else(|failures| panic!("{failures}"));
    assert!(n > 60, "only {n} files found");
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
