//! Diagnostics: a message with byte spans into a text, drawn with carets.
//!
//! One [`Diagnostic`] is one thing wrong, said where it is, with a hint where a cure is known.
//! [`render`] draws a list of them over the text they point into, which is a file for the parser
//! and the printed tape for a recorded one.
//!
//! Guarantees: rendering never panics, whatever the spans say (they are moved onto character
//! boundaries inside the text), and draws at most [`MAX_SHOWN`] diagnostics. It decides nothing and
//! finds nothing.

use std::ops::Range;

use annotate_snippets::{
    Annotation, AnnotationKind, Group, Level, Renderer, Snippet, renderer::DecorStyle,
};

/// The most diagnostics that [`render`] draws; the rest are counted in a last line.
pub const MAX_SHOWN: usize = 20;

/// Bytes of a line that are drawn; a longer one is cut around the span.
const MAX_LINE: usize = 400;

/// Lines of context above and below a span.
const CONTEXT_LINES: usize = 1;

/// A half-open range of bytes in a text.
pub type Span = Range<usize>;

/// One thing wrong, or worth knowing, at one place of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The mistake, in lower case and without a final stop.
    pub message: String,
    /// Where it is; none when the whole text is meant.
    pub span: Option<Span>,
    /// A few words beside the carets; may be empty.
    pub label: String,
    /// Other places that explain it (`freed here`).
    pub related: Vec<(Span, String)>,
    /// Facts that help to understand it, such as the user's source line.
    pub notes: Vec<String>,
    /// The cure, when one is known.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn at(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { span: Some(span), ..Diagnostic::whole(message) }
    }

    /// An error about the text as a whole.
    pub fn whole(message: impl Into<String>) -> Diagnostic {
        let message = message.into();
        Diagnostic {
            message,
            span: None,
            label: String::new(),
            related: Vec::new(),
            notes: Vec::new(),
            hint: None,
        }
    }

    /// The same with words beside the carets.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// The same with a cure.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }
}

/// Whether to draw with terminal colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// ANSI escapes.
    Always,
    /// Plain text.
    Never,
}

/// Draws `diagnostics` over `text`, which is called `name` in the headers.
///
/// ```
/// use gt_ir::diagnostic::{Color, Diagnostic, render};
/// let error = Diagnostic::at(5..12, "unknown op `mathmul`").hint("did you mean `matmul`?");
/// let drawn = render(&[error], "net.gt", "%1 = mathmul %0\n", Color::Never);
/// assert!(drawn.starts_with("error: unknown op `mathmul`") && drawn.contains("net.gt:1:6"));
/// ```
#[must_use]
pub fn render(diagnostics: &[Diagnostic], name: &str, text: &str, color: Color) -> String {
    let renderer = match color {
        Color::Always => Renderer::styled(),
        Color::Never => Renderer::plain(),
    };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    for diagnostic in diagnostics.iter().take(MAX_SHOWN) {
        out.push_str(&renderer.render(&[group(diagnostic, name, text)]));
        out.push_str("\n\n");
    }
    if diagnostics.len() > MAX_SHOWN {
        out.push_str(&format!("... and {} more\n\n", diagnostics.len() - MAX_SHOWN));
    }
    out.truncate(out.trim_end().len());
    out
}

/// One diagnostic as the drawing library takes it: title, snippets, notes, and the hint at the end.
fn group<'a>(diagnostic: &'a Diagnostic, name: &'a str, text: &'a str) -> Group<'a> {
    let mut group = Level::ERROR
        .primary_title(diagnostic.message.as_str())
        .elements([] as [Snippet<'a, Annotation<'a>>; 0]);
    let mut spans: Vec<(Span, AnnotationKind, &str)> = Vec::new();
    if let Some(span) = &diagnostic.span {
        spans.push((span.clone(), AnnotationKind::Primary, &diagnostic.label));
    }
    spans.extend(
        diagnostic
            .related
            .iter()
            .map(|(s, label)| (s.clone(), AnnotationKind::Context, label.as_str())),
    );
    for snippet in snippets(spans, name, text) {
        group = group.element(snippet);
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(note.as_str()));
    }
    match &diagnostic.hint {
        Some(hint) => group.element(Level::HELP.with_name("hint").message(hint.as_str())),
        None => group,
    }
}

/// One snippet when all spans lie within a few lines of each other, one for each otherwise: a text
/// may be large, and only its neighborhood of the spans is handed to the drawing.
fn snippets<'a>(
    spans: Vec<(Span, AnnotationKind, &'a str)>,
    name: &'a str,
    text: &'a str,
) -> Vec<Snippet<'a, Annotation<'a>>> {
    let windows: Vec<Window> = spans.iter().map(|(span, ..)| Window::around(text, span)).collect();
    let Some(first) = windows.first() else { return Vec::new() };
    let whole = windows.iter().fold(first.clone(), |a, b| Window {
        bytes: a.bytes.start.min(b.bytes.start)..a.bytes.end.max(b.bytes.end),
        ..a
    });
    if windows.len() > 1 && whole.bytes.len() <= MAX_LINE * 8 && windows.iter().all(|w| !w.cut) {
        return vec![snippet(&whole, &spans, name, text)];
    }
    windows.iter().zip(spans).map(|(window, span)| snippet(window, &[span], name, text)).collect()
}

/// A part of the text with its annotations. Spans are moved into the part, so the library never
/// slices outside of it.
fn snippet<'a>(
    window: &Window,
    spans: &[(Span, AnnotationKind, &'a str)],
    name: &'a str,
    text: &'a str,
) -> Snippet<'a, Annotation<'a>> {
    let source = text.get(window.bytes.clone()).unwrap_or_default();
    let line = 1 + count_lines(text.get(..window.bytes.start).unwrap_or_default());
    let annotations = spans.iter().map(|(span, kind, label)| {
        let start = floor(text, span.start).clamp(window.bytes.start, window.bytes.end)
            - window.bytes.start;
        let end =
            floor(text, span.end).clamp(window.bytes.start, window.bytes.end) - window.bytes.start;
        let annotation = kind.span(start..end.max(start));
        if label.is_empty() { annotation } else { annotation.label(*label) }
    });
    Snippet::source(source).path(name).line_start(line).annotations(annotations)
}

/// How many lines end in a text.
fn count_lines(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'\n').count()
}

/// The largest character boundary of `text` that is not above `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The bytes of a text that are drawn for a span.
#[derive(Clone)]
struct Window {
    bytes: Span,
    /// The line was too long to be shown whole.
    cut: bool,
}

impl Window {
    /// The line of a span with a line of context above and below. Of a line that is longer than
    /// [`MAX_LINE`], only the neighborhood of the span is taken, and no context.
    fn around(text: &str, span: &Span) -> Window {
        let (start, end) = (floor(text, span.start), floor(text, span.end.max(span.start)));
        let mut from = line_start(text, start);
        let mut to = line_end(text, start.max(end));
        if to - from > MAX_LINE {
            let from = floor(text, start.saturating_sub(MAX_LINE / 2).max(from));
            let to = floor(text, (start + MAX_LINE / 2).min(to));
            return Window { bytes: from..to, cut: true };
        }
        for _ in 0..CONTEXT_LINES {
            let above = line_start(text, from.saturating_sub(1));
            let below = line_end(text, (to + 1).min(text.len()));
            if from - above <= MAX_LINE {
                from = above;
            }
            if below - to <= MAX_LINE {
                to = below;
            }
        }
        Window { bytes: from..to, cut: false }
    }
}

/// The beginning of the line that a byte lies in.
fn line_start(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1)
}

/// The end of the line that a byte lies in, without its line feed.
fn line_end(text: &str, at: usize) -> usize {
    text.as_bytes()[at..].iter().position(|b| *b == b'\n').map_or(text.len(), |i| at + i)
}

/// The candidate nearest to `word` by edit distance, when it is near enough to be what was meant.
///
/// ```
/// use gt_ir::diagnostic::nearest;
/// assert_eq!(nearest("mathmul", ["matmul", "maximum"]), Some("matmul"));
/// assert_eq!(nearest("convolution", ["matmul", "maximum"]), None);
/// ```
///
/// A third of the letters may be wrong, at least one.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    let scored = candidates.into_iter().map(|c| (edit_distance(word, c), c));
    scored.filter(|(d, _)| *d <= limit).min_by_key(|(d, _)| *d).map(|(_, c)| c)
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbors
/// cost one each.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let mut best = (last[j] + 1)
                .min(row[j - 1] + 1)
                .min(last[j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_points_at_its_place_and_at_the_cause() {
        let text = "gt tape 1\n%0 = input : f32[2]\nfree %0\n%1 = exp %0\noutput %1\n";
        let at = text.find("exp %0").unwrap() + 4;
        let freed = text.find("free %0").unwrap();
        let mut diagnostic = Diagnostic::at(at..at + 2, "use of %0 after it was freed")
            .label("used here")
            .hint("move the free down");
        diagnostic.related.push((freed..freed + 7, "freed here".into()));
        let drawn = render(&[diagnostic], "a.gt", text, Color::Never);
        let expected = "\
error: use of %0 after it was freed
 --> a.gt:4:10
  |
3 | free %0
  | ------- freed here
4 | %1 = exp %0
  |          ^^ used here
  |
  = hint: move the free down";
        assert_eq!(drawn, expected);
    }

    #[test]
    fn any_span_can_be_drawn() {
        let texts =
            ["", "\n", "äöü", "gt tape 1\n", "a\r\nb\n\n", &"é".repeat(2000), &"x\n".repeat(300)];
        for text in texts {
            for start in [0, 1, 2, 5, 399, 5000, usize::MAX] {
                for end in [0, 1, 3, 700, usize::MAX] {
                    let mut diagnostic = Diagnostic::at(start..end, "m").label("l");
                    diagnostic.related.push((end..start, "r".into()));
                    assert!(render(&[diagnostic], "n", text, Color::Never).starts_with("error: m"));
                }
            }
        }
    }

    #[test]
    fn the_number_of_drawn_diagnostics_is_bounded() {
        let many = vec![Diagnostic::whole("m"); 25];
        assert!(render(&many, "n", "", Color::Never).ends_with("... and 5 more"));
    }

    #[test]
    fn the_nearest_word_is_the_one_meant() {
        let ops = ["matmul", "maximum", "minimum", "exp", "sum", "expand"];
        assert_eq!(nearest("mathmul", ops), Some("matmul"));
        assert_eq!(nearest("amtmul", ops), Some("matmul"));
        assert_eq!(nearest("exps", ops), Some("exp"));
        assert_eq!(nearest("convolution", ops), None);
    }
}
