//! The configuration of a tape's signals, as comments or as an object.

use crate::files;
use anyhow::{Context, Result};
use gt_ir::config::ConfigFile;
use gt_ir::signal::Signals;
use gt_ir::{Entry, Tape};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// A configuration file.
pub(super) fn read(path: &Path) -> Result<ConfigFile> {
    let text = String::from_utf8(files::read(path)?.into())
        .with_context(|| format!("{} is not text", files::shown(path)))?;
    Ok(gt_lang::config::parse_config(&text, &files::shown(path))?)
}

/// The names of the tape's scopes, in the order in which they begin.
fn names(tape: &Tape) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let begun = tape.entries.iter().filter_map(|entry| match entry {
        Entry::Enter(name) => Some(&**name),
        Entry::Input { .. }
        | Entry::Instr(_)
        | Entry::Free(_)
        | Entry::Exit(_)
        | Entry::Output { .. } => None,
    });
    begun.filter(|name| seen.insert(*name)).collect()
}

/// A comment for each scope, for each configured signal without a scope, and for each warning.
pub(super) fn comments(tape: &Tape, signals: &Signals, warnings: &[String]) -> String {
    let (names, mut text) = (names(tape), String::new());
    for name in &names {
        // Writing to a string cannot fail.
        let _ = match signals.get(name) {
            Some(config) => writeln!(text, "# signal {name:?}: {config}"),
            None => writeln!(text, "# signal {name:?}: not configured"),
        };
    }
    for (name, config) in signals.iter().filter(|(name, _)| !names.contains(name)) {
        let _ = writeln!(text, "# no scope here is signal {name:?}: {config}");
    }
    warnings.iter().for_each(|warning| text += &format!("# warning: {warning}\n"));
    text
}

/// The configuration of each scope by its name, or null.
pub(super) fn object(tape: &Tape, signals: &Signals) -> Value {
    names(tape).into_iter().map(|name| (name.to_owned(), json!(signals.get(name)))).collect()
}
