//! `gt-cli diff`: whether two tapes have the same key, and if not, the first difference.

use crate::args::DiffArgs;
use crate::fault::Silent;
use crate::files;
use anyhow::{Result, bail};
use gt_ir::Tape;
use gt_ir::canonical::{Difference, Part, Template, canonical, explain};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) fn diff(args: &DiffArgs, as_json: bool) -> Result<()> {
    let tapes = [files::tape(&args.first)?.tape, files::tape(&args.second)?.tape];
    let [first, second] = [&tapes[0], &tapes[1]].map(|tape| canonical(tape).0);
    let difference = explain(&first, &second);
    let equal = difference.part == Part::Nothing;
    let text = match as_json {
        true => format!("{}\n", object(&first, &second, &difference, &tapes)),
        false if equal => format!("equal: key {}\n", first.key),
        false => words(args, &[&first, &second], &difference, &tapes),
    };
    files::write(Path::new("-"), text.as_bytes())?;
    // The status 1 means that the tapes differ, as that of `diff`.
    if equal { Ok(()) } else { bail!(Silent(1)) }
}

fn words(
    args: &DiffArgs,
    templates: &[&Template; 2],
    difference: &Difference,
    tapes: &[Tape; 2],
) -> String {
    let files = [&args.first, &args.second];
    let mut text = format!("{difference}\n");
    for ((file, template), tape) in files.iter().zip(templates).zip(tapes) {
        let line = line(tape, difference.entry).unwrap_or_else(|| "the end".into());
        text += &format!("{}\n  key   {}\n  entry {line}\n", files::shown(file), template.key);
    }
    text
}

fn object(
    first: &Template,
    second: &Template,
    difference: &Difference,
    tapes: &[Tape; 2],
) -> Value {
    let Difference { entry, part, .. } = difference;
    let equal = *part == Part::Nothing;
    let keys = [first.key.to_string(), second.key.to_string()];
    if equal {
        return json!({ "equal": true, "keys": keys });
    }
    let lines = tapes.each_ref().map(|tape| line(tape, *entry));
    json!({
        "equal": false, "keys": keys, "entry": entry, "part": part.to_string(),
        "first": difference.first, "second": difference.second, "lines": lines,
    })
}

/// An entry as text.
fn line(tape: &Tape, entry: usize) -> Option<String> {
    let text = gt_ir::text::print(&Tape { entries: vec![tape.entries.get(entry)?.clone()] });
    text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_string)
}
