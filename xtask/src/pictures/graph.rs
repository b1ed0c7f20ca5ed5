//! A layer as a graph: `gt-cli compile --emit dot`, laid out by Graphviz. The layer is the tape
//! that the guide's chapter on performance shows.

use super::FOLDER;
use crate::shell::{Step, root, target_folder};
use anyhow::{Context, Result};
use std::path::Path;

/// The chapter, whose first tape is drawn.
const CHAPTER: &str = "docs/guide/src/performance.md";

pub(super) fn draw(folder: &Path) -> Result<()> {
    let chapter = std::fs::read_to_string(root().join(CHAPTER));
    let chapter = chapter.with_context(|| format!("cannot read {CHAPTER}"))?;
    let tape = written("layer.gt", tape(&chapter).context("the chapter shows no tape")?)?;
    let cli = folder.join("gt-cli").to_string_lossy().into_owned();
    let dot = Step::new(&cli, &["compile", &tape, "--emit", "dot"]).read()?;
    let dot = written("layer.dot", &dot)?;
    Step::new("dot", &["-Tsvg", &dot, "-o", &format!("{FOLDER}/layer.svg")])
        .run()
        .context("Graphviz lays the graph out; Debian's package is `graphviz`")
}

/// The first tape in a chapter.
fn tape(chapter: &str) -> Option<&str> {
    let begin = chapter.find("\ngt tape 1\n")? + 1;
    chapter[begin..].split("```").next()
}

/// Writes a file into the target folder, and returns its path.
fn written(name: &str, text: &str) -> Result<String> {
    let path = target_folder().join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chapter_shows_a_tape() {
        let chapter = std::fs::read_to_string(root().join(CHAPTER)).unwrap();
        assert!(tape(&chapter).is_some_and(|tape| tape.ends_with("output %6 \"y\"\n")));
    }
}
