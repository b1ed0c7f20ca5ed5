//! A line under parse: its tokens one after the other, and the small things entries are made of.
//!
//! Each function takes the tokens that it reads, or leaves them and returns a [`Diagnostic`] at the
//! place of the mistake. Its words for the expected thing come from the caller, which knows whether
//! a string is the name of a signal or of a file.

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Span};
use crate::source_map::EntrySpans;
use crate::tape::{MAX_STRING, ValueId};
use crate::text::lex::{Token, TokenKind, unescape};

/// One line under parse.
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) spans: EntrySpans,
}

/// What was read, or the first mistake of the line.
pub(super) type Parsed<T> = Result<T, Diagnostic>;

impl<'a> Line<'a> {
    /// An unsigned number without a fraction, for lines and columns.
    pub(super) fn number(&mut self, what: &str) -> Parsed<u32> {
        let span = self.here();
        if self.peek() != Some(TokenKind::Number) {
            return Err(self.expected(what));
        }
        self.next_text().parse().map_err(|_| Diagnostic::at(span, format!("expected {what}")))
    }

    /// A value, `%3`.
    pub(super) fn value(&mut self) -> Parsed<ValueId> {
        match self.peek() {
            Some(TokenKind::Value(id)) => {
                self.at += 1;
                Ok(ValueId(id))
            }
            _ => Err(self.expected("a value such as `%3`")),
        }
    }

    /// A name in quotes, if one follows.
    pub(super) fn optional_string(&mut self) -> Parsed<Option<Arc<str>>> {
        if self.peek() == Some(TokenKind::Str) { self.string("a name").map(Some) } else { Ok(None) }
    }

    /// A string in quotes, unescaped. It is measured after unescaping, since that is what a tape
    /// holds.
    pub(super) fn string(&mut self, what: &str) -> Parsed<Arc<str>> {
        let span = self.here();
        if self.peek() != Some(TokenKind::Str) {
            return Err(self.expected(&format!("{what} in quotes")));
        }
        let quoted = self.next_text();
        let string = unescape(quoted).ok_or_else(|| {
            Diagnostic::at(span.clone(), "unknown escape in a string")
                .hint(r#"escapes are \n \t \r \" \\ \u{1f600}"#)
        })?;
        if string.len() > MAX_STRING {
            return Err(Diagnostic::at(
                span,
                format!("a string of {} bytes is above the limit of {MAX_STRING}", string.len()),
            ));
        }
        Ok(string.into())
    }

    /// The end of the line. What follows a complete entry is most often a missing comma or a second
    /// entry.
    pub(super) fn finish(&self) -> Parsed<()> {
        match self.tokens.get(self.at) {
            None => Ok(()),
            Some(token) => Err(Diagnostic::at(
                token.span.start..self.last_of_line(),
                "unexpected text after the entry",
            )
            .hint("one entry a line; operands are separated by `,`")),
        }
    }

    /// The end of the last token, which is before a comment.
    pub(super) fn last_of_line(&self) -> usize {
        self.tokens.last().map_or(self.end, |token| token.span.end)
    }

    /// The end of the token that was taken last.
    pub(super) fn last_end(&self) -> usize {
        self.at
            .checked_sub(1)
            .and_then(|at| self.tokens.get(at))
            .map_or(self.end, |token| token.span.end)
    }

    /// The kind of the next token; `None` at the end of the line.
    pub(super) fn peek(&self) -> Option<TokenKind> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    /// The span of the next token, or the empty one after the last.
    pub(super) fn here(&self) -> Span {
        let end = self.last_of_line();
        self.tokens.get(self.at).map_or(end..end, |token| token.span.clone())
    }

    /// Takes the next token and gives its text, which is empty at the end of the line.
    pub(super) fn next_text(&mut self) -> &'a str {
        let span = self.here();
        self.at += 1;
        &self.text[span]
    }

    /// Takes the next token if it is of this kind.
    pub(super) fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == Some(kind);
        self.at += usize::from(found);
        found
    }

    /// Takes a token of this kind, which must follow.
    pub(super) fn expect(&mut self, kind: TokenKind, what: &str) -> Parsed<()> {
        if self.eat(kind) { Ok(()) } else { Err(self.expected(what)) }
    }

    /// The error of a line that goes on with something else than `what`.
    pub(super) fn expected(&self, what: &str) -> Diagnostic {
        let span = self.here();
        let found = if span.is_empty() {
            "the end of the line".to_owned()
        } else {
            format!("`{}`", &self.text[span.clone()])
        };
        Diagnostic::at(span, format!("expected {what}, found {found}"))
    }
}
