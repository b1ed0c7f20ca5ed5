//! The command `run`: the interpreter against written results.

use gt_ir::{
    interp,
    testing::filetest::{Case, File, Outcome, expecting, holds},
    text::{self, Loaded},
};

pub(super) fn run(file: &File) -> Result<(), String> {
    let loaded = load(file)?;
    let cases = Case::all(&file.lines);
    if cases.is_empty() {
        return Err("no `; out` or `; error` line".into());
    }
    cases
        .iter()
        .try_for_each(|case| case.check(&file.lines, &loaded, &outcome(file, &loaded, case)?))
}

pub(super) fn bless(file: &mut File) -> Result<(), String> {
    let loaded = load(file)?;
    for case in Case::all(&file.lines) {
        let outcome = outcome(file, &loaded, &case)?;
        for line in case.expected {
            // Values worked out elsewhere stay as they were written.
            if holds(&file.lines[line], &loaded, &outcome).is_err() {
                file.lines[line] = expecting(&file.lines[line], &outcome)?;
            }
        }
    }
    Ok(())
}

fn load(file: &File) -> Result<Loaded, String> {
    text::load(&file.text())
        .map_err(|errors| errors.iter().map(|error| format!("{}\n", error.message)).collect())
}

fn outcome(file: &File, loaded: &Loaded, case: &Case) -> Result<Outcome, String> {
    let inputs = case.tensors(&file.lines, loaded)?;
    Ok(interp::run(&loaded.tape, &inputs).map_err(|fault| fault.error.to_string()))
}
