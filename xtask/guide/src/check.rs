//! Checks that the links of rendered pages have targets: files, and anchors in files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::pages::{API, normalized};

/// The broken links of the pages in a folder, one line each. The links within the documentation of
/// the API are rustdoc's.
pub(crate) fn complaints(folder: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    let api = folder.join(API);
    for path in files(folder)?.into_iter().filter(|path| !path.starts_with(&api)) {
        // The page for missing addresses may be shown at any address, so its links begin at the
        // root of the site.
        if path.extension().is_some_and(|e| e == "html") && path != folder.join("404.html") {
            let text = std::fs::read_to_string(&path)?;
            pages.insert(path, text);
        }
    }
    let anchors: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path, values(text, " id=\"").collect())).collect();
    let mut complaints = Vec::new();
    for (path, text) in &pages {
        for target in values(text, " href=\"").chain(values(text, " src=\"")) {
            if !target.contains(':') && !has_target(path, target, &anchors) {
                complaints.push(format!("{}: {target}", path.strip_prefix(folder)?.display()));
            }
        }
    }
    complaints.dedup();
    Ok(complaints)
}

fn has_target(page: &Path, target: &str, anchors: &BTreeMap<&PathBuf, BTreeSet<&str>>) -> bool {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let found = match file {
        "" => page.to_owned(),
        file => normalized(&page.parent().unwrap_or(Path::new("")).join(file)),
    };
    let known = || match anchors.get(&found) {
        Some(ids) => ids.contains(anchor),
        None => std::fs::read_to_string(&found)
            .is_ok_and(|text| values(&text, " id=\"").any(|id| id == anchor)),
    };
    found.is_file() && (anchor.is_empty() || known())
}

/// The values of an attribute: the text from `start` to the next quote.
fn values<'a>(text: &'a str, start: &'static str) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split('"').next())
}

/// All files in a folder and its subfolders.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("gt-guide-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("in"))?;
        std::fs::write(
            folder.join("a.html"),
            "<a href=\"in/b.html#x\"> <a href=\"in/b.html#y\"> <a href=\"c.html\">",
        )?;
        std::fs::create_dir_all(folder.join(API))?;
        std::fs::write(folder.join("api/d.html"), "<h1 id=\"x\"> <a href=\"e.html\">")?;
        std::fs::write(
            folder.join("f.html"),
            "<a href=\"api/d.html#x\"> <a href=\"api/d.html#y\"> <a href=\"api/e.html\">",
        )?;
        std::fs::write(
            folder.join("in/b.html"),
            "<h1 id=\"x\"> <a href=\"#x\"> <a href=\"../a.html\"> <a href=\"https://c.d\">",
        )?;
        let found = complaints(&folder);
        std::fs::remove_dir_all(&folder)?;
        let broken =
            ["a.html: in/b.html#y", "a.html: c.html", "f.html: api/d.html#y", "f.html: api/e.html"];
        assert_eq!(found?, broken);
        Ok(())
    }
}
