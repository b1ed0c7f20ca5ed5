//! The lexer of the text form: one line to a list of tokens with byte spans.
//!
//! A line is the unit because an entry is a line: after an error the parser goes on with the next
//! one. An atom (`sum[0,1]`, `f32[Batch=32,784]`) is one token, brackets included; what it says is
//! read by the type it names.
//!
//! Guarantees: total on any text, linear, allocates only the token list; spans lie on character
//! boundaries. It does not know the grammar.

use crate::diagnostic::{Diagnostic, Span};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// `%3`
    Value(u64),
    /// A name, with the bracket group that directly follows it: `matmul`, `sum[0,1]`, `f32[3]`.
    Atom,
    /// `1`, `-2.5`, `1e-3`
    Number,
    /// `"..."`; [`unescape`] gives its value.
    Str,
    /// `=`
    Equals,
    /// `:`
    Colon,
    /// `,`
    Comma,
    /// `@`
    At,
}

/// A token and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

/// Reads the line `text[line]` (no line feed inside) into `tokens`, which is cleared first.
pub(super) fn line(text: &str, line: Span, tokens: &mut Vec<Token>) -> Result<(), Diagnostic> {
    tokens.clear();
    let bytes = &text.as_bytes()[..line.end];
    let mut at = line.start;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let kind = match byte {
            b' ' | b'\t' | b'\r' => {
                at += 1;
                continue;
            }
            b'#' | b';' => break,
            b'=' => TokenKind::Equals,
            b':' => TokenKind::Colon,
            b',' => TokenKind::Comma,
            b'@' => TokenKind::At,
            b'%' => {
                at = skip(bytes, at + 1, |b| b.is_ascii_digit());
                TokenKind::Value(value(text, start..at)?)
            }
            b'"' => {
                at = string_end(text, start..line.end)?;
                TokenKind::Str
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                at = skip(bytes, at, |b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
                if bytes.get(at) == Some(&b'[') {
                    at = bracket_end(text, at..line.end)?;
                }
                TokenKind::Atom
            }
            b'0'..=b'9' | b'-' | b'+' | b'.' => {
                at = number_end(bytes, at);
                TokenKind::Number
            }
            _ => return Err(unexpected(text, start)),
        };
        at = at.max(start + 1);
        tokens.push(Token { kind, span: start..at });
    }
    Ok(())
}

/// The value of a string token's text, quotes included; `None` when an escape is not one.
pub(super) fn unescape(quoted: &str) -> Option<String> {
    let mut out = String::with_capacity(quoted.len());
    let mut chars = quoted.strip_prefix('"')?.strip_suffix('"')?.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            '"' => '"',
            '\\' => '\\',
            'u' => {
                let rest = chars.as_str().strip_prefix('{')?;
                let (digits, after) = rest.split_once('}')?;
                chars = after.chars();
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            _ => return None,
        });
    }
    Some(out)
}

/// Writes `string` in quotes so that [`unescape`] gives it back, on one line and without control
/// characters.
pub(super) fn escape(string: &str, out: &mut String) {
    out.push('"');
    for c in string.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}') =>
            {
                out.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The position of the first byte from `from` on that is not accepted.
fn skip(bytes: &[u8], from: usize, accept: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|b| !accept(*b)).map_or(bytes.len(), |i| from + i)
}

/// The number of a value token, which has 64 bits.
fn value(text: &str, span: Span) -> Result<u64, Diagnostic> {
    let digits = text.get(span.start + 1..span.end).unwrap_or_default();
    if digits.is_empty() {
        return Err(
            Diagnostic::at(span, "`%` without a number").hint("values are written `%0`, `%1`, ...")
        );
    }
    digits.parse().map_err(|_| Diagnostic::at(span, "value number above 2^64 - 1"))
}

/// The position after the closing quote. A quote behind a backslash does not close; whether the
/// escape is one is decided by [`unescape`].
fn string_end(text: &str, span: Span) -> Result<usize, Diagnostic> {
    let bytes = &text.as_bytes()[..span.end];
    let mut at = span.start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Err(Diagnostic::at(span, "string without its closing quote")
        .hint("strings end on the line they start on"))
}

/// The position after the bracket that closes the first one. Brackets nest, as in `full[f32[2]]`. A
/// character that no attribute contains ends the search, so a forgotten bracket is reported where
/// it opens and does not swallow the line.
fn bracket_end(text: &str, span: Span) -> Result<usize, Diagnostic> {
    let mut depth = 0_usize;
    for (i, byte) in text.as_bytes()[span.clone()].iter().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return Ok(span.start + i + 1),
            b']' => depth -= 1,
            b'"' | b'#' | b';' | b'%' => break,
            _ => {}
        }
    }
    Err(Diagnostic::at(span.start..span.start + 1, "`[` without its `]`"))
}

/// Signs belong to a number at its start and after its exponent's `e`.
fn number_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        let sign_in_exponent = matches!(byte, b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E');
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || sign_in_exponent) {
            break;
        }
        at += 1;
    }
    at
}

/// The error of a character that begins no token.
fn unexpected(text: &str, at: usize) -> Diagnostic {
    let found = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or('\u{fffd}');
    Diagnostic::at(at..at + found.len_utf8(), format!("unexpected character {found:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(text: &str) -> Result<Vec<(TokenKind, &str)>, String> {
        let mut tokens = Vec::new();
        line(text, 0..text.len(), &mut tokens).map_err(|d| d.message)?;
        Ok(tokens.into_iter().map(|t| (t.kind, &text[t.span])).collect())
    }

    #[test]
    fn an_entry_is_a_line_of_tokens() {
        use TokenKind::*;
        let text = "%4 = sum[0,keep] %3, -1.5e-3 : f32[Batch=32,?=2] @\"a b.rs\":12 # note";
        let expected = vec![
            (Value(4), "%4"),
            (Equals, "="),
            (Atom, "sum[0,keep]"),
            (Value(3), "%3"),
            (Comma, ","),
            (Number, "-1.5e-3"),
            (Colon, ":"),
            (Atom, "f32[Batch=32,?=2]"),
            (At, "@"),
            (Str, "\"a b.rs\""),
            (Colon, ":"),
            (Number, "12"),
        ];
        assert_eq!(lex(text), Ok(expected));
        assert_eq!(lex("  ; only a comment"), Ok(vec![]));
        assert_eq!(lex("full[f32[3,[4]]]x").map(|t| t.len()), Ok(2));
    }

    #[test]
    fn what_is_no_token_is_named() {
        assert_eq!(lex("%x"), Err("`%` without a number".into()));
        assert_eq!(lex("%99999999999999999999"), Err("value number above 2^64 - 1".into()));
        assert_eq!(lex("sum[0"), Err("`[` without its `]`".into()));
        assert_eq!(lex("input \"x"), Err("string without its closing quote".into()));
        assert_eq!(lex("input \"x\\"), Err("string without its closing quote".into()));
        assert_eq!(lex("é"), Err("unexpected character 'é'".into()));
    }

    #[test]
    fn escapes_come_back() {
        for s in
            ["", "plain", "a\"b\\c", "line\nfeed\ttab\r", "\u{0}\u{7f}\u{202e}", "äß→🦀", "\\u{41}"]
        {
            let mut quoted = String::new();
            escape(s, &mut quoted);
            assert_eq!(unescape(&quoted).as_deref(), Some(s));
            assert_eq!(lex(&quoted).map(|t| t.len()), Ok(1));
        }
        assert_eq!(unescape("\"\\u{110000}\""), None);
        assert_eq!(unescape("\"\\q\""), None);
    }
}
