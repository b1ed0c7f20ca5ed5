//! `gt-cli visualize`: draws the timeline of a trace.
//!
//! `read` reads files, `model` makes lanes of their events, and `svg`, `png`, `html` and
//! `perfetto` draw them. The form is that of the output's name.

mod html;
mod model;
mod perfetto;
mod png;
mod read;
mod svg;

pub(crate) use svg::escaped;

use crate::args::VisualizeArgs;
use crate::fault::advised;
use crate::{files, news};
use anyhow::{Result, bail, ensure};
use model::Timeline;
use serde_json::json;
use std::path::{Path, PathBuf};

pub(crate) fn visualize(args: &VisualizeArgs, is_json: bool) -> Result<()> {
    let end = args.form.as_deref().unwrap_or("html");
    let output = args.output.clone().unwrap_or_else(|| beside(&args.traces, end));
    let is_dash = files::is_dash(&output);
    let named = output.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let form = args.form.as_deref().unwrap_or(if is_dash { "html" } else { named });
    if !["html", "svg", "png", "json"].contains(&form) {
        bail!(advised(
            format!("no picture has the form of {}", output.display()),
            "name a file that ends with .html, .svg, .png or .json (for ui.perfetto.dev), or give \
             --form"
        ));
    }
    let is_input = |trace: &PathBuf| same_file(trace, &output);
    ensure!(
        is_dash || !args.traces.iter().any(is_input),
        advised(
            format!("{} is a trace, and would be overwritten", output.display()),
            "name another file with -o"
        )
    );
    let mut timeline = Timeline::of(read::traces(&args.traces)?);
    let title = args.title.clone().unwrap_or_else(|| "GT timeline".into());
    let picture = match form {
        "svg" => svg::draw(&timeline, &title).into_bytes(),
        "html" => html::page(&timeline, &title).into_bytes(),
        "png" => {
            let (pixels, note) = png::draw(&svg::draw(&timeline, &title))?;
            timeline.notes.extend(note.map(str::to_owned));
            pixels
        }
        _ => perfetto::events(&timeline).into_bytes(),
    };
    files::write(&output, &picture)?;
    let (n, lanes) = (timeline.n_events, timeline.lanes.len());
    let said = json!({"output": output, "events": n, "lanes": lanes, "notes": timeline.notes});
    match is_json {
        // Standard output is the picture.
        true if is_dash => eprintln!("{said}"),
        true => news::print(&said.to_string()),
        false => {
            timeline.notes.iter().for_each(|note| eprintln!("note: {note}"));
            let name = if is_dash { "the picture".into() } else { files::shown(&output) };
            eprintln!("{name}: {n} events on {lanes} lanes");
        }
    }
    Ok(())
}

/// Whether both paths are of one file that is there.
fn same_file(a: &Path, b: &Path) -> bool {
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// The picture beside the first trace. That of standard input is standard output.
fn beside(traces: &[PathBuf], end: &str) -> PathBuf {
    match traces.first() {
        Some(trace) if files::is_dash(trace) => trace.clone(),
        Some(trace) => trace.with_extension(end),
        None => format!("timeline.{end}").into(),
    }
}

#[cfg(test)]
mod tests;
