//! The paths of pages in the repository and in the book.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use mdbook_driver::book::{Book, BookItem, Chapter};

/// The folder of the guide's chapters in the repository.
const CHAPTERS: &str = "docs/guide/src";

/// The pages of the last part of the book: title, path in the repository, and path in the book.
const REFERENCE: &[(&str, &str, &str)] = &[
    ("Engines in full", "docs/engines.md", "reference/engines.md"),
    ("The tape format", "docs/tape-format.md", "reference/tape-format.md"),
    ("Every op", "docs/ops.md", "reference/ops.md"),
    ("Benchmarks", "docs/benchmarks.md", "reference/benchmarks.md"),
    ("Architecture", "ARCHITECTURE.md", "reference/architecture.md"),
    ("Contributing", "CONTRIBUTING.md", "reference/contributing.md"),
    ("Changes", "CHANGELOG.md", "reference/changelog.md"),
];

/// Appends the pages of the reference, with their current contents.
pub(crate) fn add_reference(book: &mut Book, root: &Path) -> Result<()> {
    book.push_item(BookItem::PartTitle("Reference".to_owned()));
    for (title, page, place) in REFERENCE {
        let text = std::fs::read_to_string(root.join(page)).with_context(|| page.to_string())?;
        book.push_item(Chapter::new(title, text, *place, Vec::new()));
    }
    Ok(())
}

/// The folder of the documentation of the API in the book.
pub(crate) const API: &str = "api";

/// The path in the book of the documentation of a module, by its source in the repository.
pub(crate) fn in_api(source: &Path) -> Option<PathBuf> {
    let text = source.to_str()?.strip_suffix(".rs")?;
    let (package, module) = match text.strip_prefix("src/") {
        Some(module) => ("gt", module),
        None => text.split_once("/src/")?,
    };
    let module = module.strip_suffix("/mod").unwrap_or(module);
    let module = if module == "lib" { "" } else { module };
    let folder = Path::new(API).join(package.replace('-', "_")).join(module);
    Some(folder.join("index.html"))
}

/// Whether a page of the repository is a chapter.
pub(crate) fn is_chapter(page: &Path) -> bool {
    page.starts_with(CHAPTERS)
}

/// The path in the repository of a page of the book.
pub(crate) fn in_repository(place: &Path) -> PathBuf {
    let page = REFERENCE.iter().find(|(.., reference)| Path::new(reference) == place);
    page.map_or_else(|| Path::new(CHAPTERS).join(place), |(_, page, _)| PathBuf::from(page))
}

/// The path in the book of a page of the repository, if the book contains it.
pub(crate) fn in_book(page: &Path) -> Option<PathBuf> {
    let reference = REFERENCE.iter().find(|(_, path, _)| Path::new(path) == page);
    let chapter = || page.strip_prefix(CHAPTERS).ok().map(Path::to_owned);
    reference.map(|(.., place)| PathBuf::from(place)).or_else(chapter)
}

/// A path without `.` and `..`, as far as they can be resolved in the text of the path.
pub(crate) fn normalized(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
