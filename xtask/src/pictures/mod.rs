//! `cargo xtask pictures`: the pictures of README.md and the guide, made anew by programs of the
//! project. Each is an SVG file with a background of its own, so that it is legible on light and
//! dark pages.
//!
//! The bars of the benchmarks are drawn by `cargo xtask docs` instead, together with their table.

pub(crate) mod bars;
mod graph;
mod team;
mod training;

use crate::shell::{cargo, folder_of};
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::fmt::Write as _;

/// The folder of the pictures, from the root of the repository.
const FOLDER: &str = "docs/guide/src";

#[derive(Args)]
pub(crate) struct PicturesArgs {
    /// The profile of cargo
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
    /// Make these pictures only
    #[arg(value_enum)]
    themes: Vec<Theme>,
}

/// Pictures that are made together.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Theme {
    /// curve.svg and digits.svg: two programs that train
    Training,
    /// layer.svg: a layer as a graph, which Graphviz lays out
    Graph,
    /// timeline.svg and top.svg: programs on a server with two workers
    Team,
}

pub(crate) fn pictures(args: &PicturesArgs) -> Result<()> {
    // Names the whole workspace, because a smaller choice has other features to build.
    let build = ["build", "--workspace", "--profile", &args.profile, "--bin", "gt-cli"];
    let examples = ["digits", "gpt", "cnn", "vae"].map(|name| ["--example", name]);
    cargo(&build).args(examples.as_flattened()).run()?;
    let folder = folder_of(&args.profile);
    let is_wanted = |theme| args.themes.is_empty() || args.themes.contains(&theme);
    for (theme, draw) in [
        (Theme::Training, training::draw as fn(&std::path::Path) -> Result<()>),
        (Theme::Graph, graph::draw),
        (Theme::Team, team::draw),
    ] {
        if is_wanted(theme) {
            draw(&folder)?;
        }
    }
    Ok(())
}

/// The class of a title.
const HEAD: &str = "h";

/// The beginning of a picture: its fonts, and a white card.
fn begin(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\">\n\
         <style>text{{font:13px Inter,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;\
         fill:#1f2933}}.h{{font-size:17px;font-weight:600}}.b{{font-weight:600}}\
         .s{{fill:#52606d}}.e{{text-anchor:end}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#fff\"/>\n"
    )
}

/// Writes a text of ours, which has no characters that XML escapes.
fn text(out: &mut String, class: &str, (x, y): (f64, f64), words: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>");
}
