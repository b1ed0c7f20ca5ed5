//! Filetests: files of a tape, the commands that test it, and what the commands are expected to
//! find, all in the text form of tapes. Each crate runs its own commands over its own folder.
//!
//! ```text
//! ; A sum of two products with a common factor.
//! ; test optimize reassociate
//! gt tape 1
//! %0 = input : f32[8]
//! ...
//! output %4
//!
//! ;> optimize reassociate
//! ;| n0 = input 0 : f32[8]
//! ;| ...
//! ```
//!
//! A line `; test NAME ARGUMENT` asks for a command. Some commands check lines of the tape itself;
//! the others print a text, which stands under the tape: `;> NAME ARGUMENT`, then the text, each
//! line after `;|`. With `GT_BLESS=1` expectations are rewritten to what was found, to be read
//! before they are committed.
//!
//! Guarantees: a file without a command, an unknown command and an expectation that no command
//! checks are errors; a difference is shown line by line.

mod case;
mod difference;
mod file;

use std::{
    fs,
    path::{Path, PathBuf},
};

pub use case::{Case, Outcome, expecting, holds};
pub use file::{Action, Command, File};

/// The variable that asks for expectations to be rewritten.
const BLESS: &str = "GT_BLESS";

/// Runs the commands of every `*.gt` file below a folder and gives the number of files.
///
/// # Errors
/// Every failure, each under the name of its file.
pub fn run_folder(folder: &Path, commands: &[Command]) -> Result<usize, String> {
    let bless = std::env::var_os(BLESS).is_some();
    let (mut failures, paths) = (Vec::new(), files(folder)?);
    for path in &paths {
        if let Err(failure) = run_file(path, commands, bless) {
            let name = path.strip_prefix(folder).unwrap_or(path).display();
            failures.push(format!("--- {name}\n{failure}\n"));
        }
    }
    if failures.is_empty() {
        return Ok(paths.len());
    }
    let (n, of) = (failures.len(), paths.len());
    let failures = failures.join("\n");
    Err(format!("{n} of {of} files fail ({BLESS}=1 rewrites expectations)\n{failures}"))
}

fn run_file(path: &Path, commands: &[Command], bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut file = File::parse(&text, commands)?;
    if bless {
        file.bless()?;
        fs::write(path, file.text()).map_err(|error| error.to_string())?;
    }
    file.check()
}

/// The `*.gt` files below a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "gt") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
