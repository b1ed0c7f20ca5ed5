//! Rewrites the links between pages from paths of the repository to paths of the book.

use std::path::Path;

use mdbook_driver::book::Book;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

use crate::pages;

/// Rewrites the links of all pages.
pub(crate) fn resolve(book: &mut Book) {
    book.for_each_chapter_mut(|chapter| {
        if let Some(place) = &chapter.path {
            chapter.content = rewritten(&chapter.content, place);
        }
    });
}

/// The text of the page at `place` in the book, with rewritten links.
fn rewritten(text: &str, place: &Path) -> String {
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
        let new = moved(&target, place).map_or(words.to_owned(), |to| format!("[{words}]({to})"));
        out.replace_range(range, &new);
    }
    out
}

/// The target in the book of a link on the page at `place`, or `None` if it is not in the book.
fn moved(target: &str, place: &Path) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(p, a)| (p, Some(a)));
    let page = pages::in_repository(place);
    let found = pages::in_book(&pages::normalized(&page.parent()?.join(path)))?;
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
            assert_eq!(rewritten(text, Path::new(place)), want);
        }
    }
}
