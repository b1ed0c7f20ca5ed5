//! Rewrites the links between pages from paths of the repository to paths of the book, and those of
//! chapters to sources to the documentation of the modules.

use std::path::Path;

use mdbook_driver::book::Book;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

use crate::pages;

/// Whether the book has the documentation of the API.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Inside,
    Absent,
}

/// Rewrites the links of all pages.
pub(crate) fn resolve(book: &mut Book, api: Api) {
    book.for_each_chapter_mut(|chapter| {
        if let Some(place) = &chapter.path {
            chapter.content = rewritten(&chapter.content, place, api);
        }
    });
}

/// The text of the page at `place` in the book, with rewritten links.
fn rewritten(text: &str, place: &Path, api: Api) -> String {
    let mut links: Vec<_> = Parser::new_ext(text, Options::ENABLE_TABLES)
        .into_offset_iter()
        .filter_map(|(event, range)| match event {
            Event::Start(Tag::Link { link_type: LinkType::Inline, dest_url, .. }) => {
                Some((dest_url.into_string(), range))
            }
            _ => None,
        })
        .collect();
    let mut out = text.to_owned();
    // From the last link to the first, so that the offsets of the others stay valid.
    while let Some((target, range)) = links.pop() {
        if target.contains(':') || target.starts_with('#') {
            continue;
        }
        let words = text[range.clone()]
            .rfind("](")
            .map_or("", |end| &text[range.start + 1..range.start + end]);
        let new = moved(&target, place, api);
        let new = new.map_or(words.to_owned(), |to| format!("[{words}]({to})"));
        out.replace_range(range, &new);
    }
    out
}

/// The target in the book of a link on the page at `place`, or `None` if it is not in the book.
fn moved(target: &str, place: &Path, api: Api) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(p, a)| (p, Some(a)));
    let page = pages::in_repository(place);
    let wanted = pages::normalized(&page.parent()?.join(path));
    let has_module = api == Api::Inside && pages::is_chapter(&page);
    let module = || has_module.then(|| pages::in_api(&wanted)).flatten();
    let found = pages::in_book(&wanted).or_else(module)?;
    let up = "../".repeat(place.components().count() - 1);
    let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
    Some(format!("{up}{}{anchor}", found.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_hold_in_the_book() {
        let cases = [
            ("a [b](models.md#c) d", "tensors.md", "a [b](models.md#c) d"),
            ("| [b](../../engines.md) |", "tensors.md", "| [b](reference/engines.md) |"),
            (
                "[b](docs/tape-format.md)",
                "reference/contributing.md",
                "[b](../reference/tape-format.md)",
            ),
            (
                "see [`x/`](../../../x), [y](https://y.z)",
                "tensors.md",
                "see `x/`, [y](https://y.z)",
            ),
            ("```text\n[b](c.md)\n```", "tensors.md", "```text\n[b](c.md)\n```"),
        ];
        for (text, place, want) in cases {
            assert_eq!(rewritten(text, Path::new(place), Api::Inside), want);
        }
    }

    #[test]
    fn links_to_sources_lead_to_the_documentation_of_modules() {
        let cases = [
            ("../../../gt-lang/src/nn/mod.rs", "api/gt_lang/nn/index.html"),
            ("../../../gt-lang/src/optim/schedule/mod.rs", "api/gt_lang/optim/schedule/index.html"),
            ("../../../gt-lang/src/signal.rs", "api/gt_lang/signal/index.html"),
            ("../../../gt-lang/src/lib.rs#traits", "api/gt_lang/index.html#traits"),
            ("../../../src/lib.rs", "api/gt/index.html"),
        ];
        for (source, page) in cases {
            let (text, place) = (format!("a [`b`]({source})."), Path::new("models.md"));
            assert_eq!(rewritten(&text, place, Api::Inside), format!("a [`b`]({page})."));
            assert_eq!(rewritten(&text, place, Api::Absent), "a `b`.");
        }
        // The pages of the reference are about the sources themselves.
        let (text, place) = ("[a](../gt-cli/src/args.rs)", Path::new("reference/ops.md"));
        assert_eq!(rewritten(text, place, Api::Inside), "a");
    }
}
