//! Builds the user guide as HTML: the chapters of `docs/guide`, then the project's other pages, and
//! checks every link between them. The documentation of the API, if its folder is given, becomes a
//! part of the book.
//!
//! Guarantees: a link leads to a page of the book or to the web. A chapter's link to the source of
//! a module leads to the module's documentation. A link to another file of the repository, which
//! readers of the book do not have, becomes plain text, and so do links to sources in a book
//! without the API. A link or an anchor without a target is an error, and all such links are
//! listed.
//!
//! Does not: run the code of the chapters; `cargo test` does.

mod check;
mod links;
mod pages;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use links::Api;
use mdbook_driver::MDBook;

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (root, out, api) = match &arguments[..] {
        [root, out] => (root, out, None),
        [root, out, api] => (root, out, Some(api)),
        _ => bail!("usage: gt-guide REPOSITORY FOLDER [API]"),
    };
    build(root, out, if api.is_some() { Api::Inside } else { Api::Absent })?;
    if let Some(api) = api {
        copy(api, &out.join(pages::API))?;
    }
    let complaints = check::complaints(out)?;
    if !complaints.is_empty() {
        bail!("links without a target:\n  {}", complaints.join("\n  "));
    }
    Ok(())
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in check::files(from).with_context(|| format!("cannot read {}", from.display()))? {
        let copy = to.join(file.strip_prefix(from)?);
        std::fs::create_dir_all(copy.parent().unwrap_or(to))?;
        std::fs::copy(&file, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    Ok(())
}

fn build(root: &Path, out: &Path, api: Api) -> Result<()> {
    let mut book = MDBook::load(root.join("docs/guide")).context("cannot read docs/guide")?;
    book.config.build.build_dir = std::path::absolute(out)?;
    pages::add_reference(&mut book.book, root)?;
    links::resolve(&mut book.book, api);
    book.build()
}
