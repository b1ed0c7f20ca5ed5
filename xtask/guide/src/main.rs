//! Builds the user guide as HTML: the chapters of `docs/guide`, then the project's other pages, and
//! checks every link between them.
//!
//! Guarantees: a link leads to a page of the book or to the web. A link to another file of the
//! repository, which readers of the book do not have, becomes plain text. A link or an anchor
//! without a target is an error, and all such links are listed.
//!
//! Does not: run the code of the chapters; `cargo test` does.

mod check;
mod links;
mod pages;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mdbook_driver::MDBook;

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [root, out] = &arguments[..] else { bail!("usage: gt-guide REPOSITORY FOLDER") };
    build(root, out)?;
    let complaints = check::complaints(out)?;
    if !complaints.is_empty() {
        bail!("links without a target:\n  {}", complaints.join("\n  "));
    }
    Ok(())
}

fn build(root: &Path, out: &Path) -> Result<()> {
    let mut book = MDBook::load(root.join("docs/guide")).context("cannot read docs/guide")?;
    book.config.build.build_dir = std::path::absolute(out)?;
    pages::add_reference(&mut book.book, root)?;
    links::resolve(&mut book.book);
    book.build()
}
