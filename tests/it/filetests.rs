//! The filetests of ops, run by `gt-cli run` as a user runs it: engines have the results of the
//! interpreter.

use std::collections::BTreeMap;
use std::path::Path;

use gt::io::safetensors;
use gt::ir::testing::filetest::{Case, Outcome};
use gt::ir::text::{self, Loaded};
use gt::ir::{Entry, HostTensor, ValueId};
use gt::state::StateDict;

use crate::process::{Folder, root, run};

#[test]
fn every_filetest_of_an_op_runs_from_the_command_line() {
    let folder = Folder::new("filetests");
    let mut failures = Vec::new();
    let mut n_cases = 0;
    let mut files: Vec<_> = std::fs::read_dir(root().join("gt-ir/tests/files/ops"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for path in files {
        let lines: Vec<String> =
            std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        let loaded = text::load(&lines.join("\n")).unwrap();
        for case in Case::all(&lines) {
            n_cases += 1;
            if let Err(failure) = check(&folder, &path, &lines, &loaded, &case) {
                failures.push(format!("--- {}\n{failure}\n", path.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {n_cases} fail\n{}", failures.len(), failures.join("\n"));
    assert!(n_cases > 100, "only {n_cases} cases were found");
}

/// Checks that the output of the command is what the file expects. Of an error only the expected
/// text is compared.
fn check(
    folder: &Folder,
    path: &Path,
    lines: &[String],
    loaded: &Loaded,
    case: &Case,
) -> Result<(), String> {
    let (inputs, outputs) = (folder.path("inputs.safetensors"), folder.path("outputs.safetensors"));
    let named: StateDict = case
        .tensors(lines, loaded)?
        .into_iter()
        .map(|(id, tensor)| (name(loaded, id), tensor))
        .collect();
    safetensors::save(&inputs, &named).unwrap();
    let path = path.to_str().unwrap();
    let done = run("gt-cli", &["run", path, "--inputs", &inputs, "--outputs", &outputs]);
    let outcome: Outcome = match done.status.success() {
        true => Ok(results(loaded, &safetensors::load(&outputs).unwrap())),
        false => Err(expected_among(lines, case, &done.stderr)),
    };
    case.check(lines, loaded, &outcome)
}

/// The error that the file expects, if the command's error contains it, else the command's error.
/// The engine's errors name the axis as well.
fn expected_among(lines: &[String], case: &Case, said: &str) -> String {
    let expected = case.expected.iter().filter_map(|at| lines[*at].strip_prefix("; error = "));
    let is_said = |error: &&str| error.split(" for an axis ").all(|part| said.contains(part));
    expected.map(str::trim).find(is_said).unwrap_or(said).to_owned()
}

/// The name of an input on the command line.
fn name(loaded: &Loaded, id: ValueId) -> String {
    let given = loaded.tape.entries.iter().find_map(|entry| match entry {
        Entry::Input { out, name: Some(name), .. } if *out == id => Some(name.to_string()),
        _ => None,
    });
    given.unwrap_or_else(|| id.to_string())
}

fn results(loaded: &Loaded, found: &StateDict) -> BTreeMap<ValueId, HostTensor> {
    let outputs = loaded.tape.entries.iter().filter_map(|entry| match entry {
        Entry::Output { value, name } => {
            let name = name.as_ref().map_or_else(|| value.to_string(), ToString::to_string);
            Some((*value, found.get(&name)?.clone()))
        }
        _ => None,
    });
    outputs.collect()
}
