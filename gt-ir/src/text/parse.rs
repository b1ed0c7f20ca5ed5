//! The parser: a text to a tape and a source map, or every mistake in it.
//!
//! An entry is a line, so a mistake costs its own line only and the next ones are still read.

use std::sync::Arc;

use super::{
    EntrySpans, MAX_BYTES, MAX_ENTRIES, MAX_ERRORS, MAX_OPERANDS, MAX_STRING, SourceMap, VERSION,
    lex::{self, Token, TokenKind, unescape},
};
use crate::{
    diagnostic::{Diagnostic, Span, nearest},
    error::OpError,
    intern::Loc,
    op::{Op, OpKind, Operand, ParseOpError},
    scalar::Scalar,
    shape::Type,
    tape::{Entry, Instr, Operands, Tape, ValueId},
};

/// Words that begin an entry which defines no value.
const WORDS: [&str; 4] = ["free", "enter", "exit", "output"];

/// Reads a tape. Its entries are well formed one by one; whether they fit together is for the verifier.
///
/// # Errors
/// Every mistake found, in order, [`MAX_ERRORS`] at most.
pub fn parse(text: &str) -> Result<(Tape, SourceMap), Vec<Diagnostic>> {
    if text.len() > MAX_BYTES {
        return Err(vec![Diagnostic::whole(format!(
            "a text of {} bytes is above the limit of {MAX_BYTES}",
            text.len()
        ))]);
    }
    let (mut tape, mut map, mut errors) = (Tape::default(), SourceMap::default(), Vec::new());
    let mut tokens = Vec::new();
    let mut header = Header::Missing;
    for span in lines(text) {
        let parsed = lex::line(text, span.clone(), &mut tokens).and_then(|()| {
            if tokens.is_empty() {
                return Ok(None);
            }
            let mut line =
                Line { text, tokens: &tokens, at: 0, end: span.end, spans: EntrySpans::default() };
            if header == Header::Missing {
                header = Header::Seen;
                return line.header().map(|()| None);
            }
            let entry = line.entry()?;
            line.finish()?;
            Ok(Some((entry, line.spans)))
        });
        match parsed {
            Ok(None) => {}
            Ok(Some(_)) if tape.entries.len() >= MAX_ENTRIES => {
                errors.push(Diagnostic::at(span, format!("more than {MAX_ENTRIES} entries")));
                break;
            }
            Ok(Some((entry, spans))) => {
                tape.entries.push(entry);
                map.entries.push(spans);
            }
            Err(error) => errors.push(error),
        }
        if errors.len() >= MAX_ERRORS {
            break;
        }
    }
    if header == Header::Missing {
        errors.push(no_header(0..0));
    }
    if errors.is_empty() { Ok((tape, map)) } else { Err(errors) }
}

#[derive(PartialEq)]
enum Header {
    Missing,
    Seen,
}

fn no_header(span: Span) -> Diagnostic {
    Diagnostic::at(span, "no header")
        .hint(format!("the first line of a tape is `gt tape {VERSION}`"))
}

/// The spans of the lines, line feeds excluded.
fn lines(text: &str) -> impl Iterator<Item = Span> + '_ {
    text.split('\n').scan(0, |start, line| {
        let span = *start..*start + line.len();
        *start = span.end + 1;
        Some(span)
    })
}

/// One line under parse.
struct Line<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    end: usize,
    spans: EntrySpans,
}

type Parsed<T> = Result<T, Diagnostic>;

impl<'a> Line<'a> {
    fn header(&mut self) -> Parsed<()> {
        let words: Vec<&str> = self.tokens.iter().map(|t| &self.text[t.span.clone()]).collect();
        match words.as_slice() {
            ["gt", "tape", version] if *version == VERSION.to_string() => Ok(()),
            ["gt", "tape", version] => Err(Diagnostic::at(
                self.tokens[2].span.clone(),
                format!("unknown tape format {version}"),
            )
            .hint(format!("this program reads format {VERSION}"))),
            _ => Err(no_header(self.tokens[0].span.start..self.end)),
        }
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let start = self.here().start;
        let entry = match self.peek() {
            Some(TokenKind::Value(id)) => self.definition(ValueId(id))?,
            Some(TokenKind::Atom) => self.statement()?,
            _ => return Err(Diagnostic::at(self.here(), "no entry begins like this").hint(
                "an entry is `%N = op ...`, `%N = input ...`, `free %N`, `enter \"..\"`, `exit \"..\"` or `output %N`",
            )),
        };
        self.spans.whole = start..self.last_end();
        if self.spans.call == Span::default() {
            self.spans.call = self.spans.whole.clone();
        }
        Ok(entry)
    }

    fn statement(&mut self) -> Parsed<Entry> {
        let span = self.here();
        let word = self.next_text();
        Ok(match word {
            "free" => Entry::Free(self.value()?),
            "enter" => Entry::Enter(self.string("the name of the signal")?),
            "exit" => Entry::Exit(self.string("the name of the signal")?),
            "output" => Entry::Output { value: self.value()?, name: self.optional_string()? },
            _ if op_kind(word).is_some() || word == "input" => {
                return Err(Diagnostic::at(
                    span,
                    format!("`{word}` defines a value, but none is named"),
                )
                .hint(format!("write `%N = {word} ...`")));
            }
            _ => {
                let error = Diagnostic::at(span, format!("unknown entry `{}`", head(word)));
                return Err(suggest(error, head(word), WORDS.into_iter()));
            }
        })
    }

    fn definition(&mut self, out: ValueId) -> Parsed<Entry> {
        self.spans.out = Some(self.here());
        self.at += 1;
        self.expect(TokenKind::Equals, "`=`")?;
        let start = self.here().start;
        let name_span = self.here();
        if self.peek() != Some(TokenKind::Atom) {
            return Err(self.expected("an op or `input`"));
        }
        let name = self.next_text();
        if name == "input" {
            let name = self.optional_string()?;
            self.spans.call = start..self.last_end();
            self.expect(TokenKind::Colon, "`:` and the type of the input")?;
            return Ok(Entry::Input { out, ty: self.ty()?, name });
        }
        let op: Op = name.parse().map_err(|error| bad_op(name, name_span, error))?;
        let inputs = self.operands()?;
        self.spans.call = start..self.last_end();
        if self.eat(TokenKind::Colon) {
            self.spans.declared = Some(self.ty()?);
        }
        let loc = if self.eat(TokenKind::At) { self.loc()? } else { Loc::NONE };
        Ok(Entry::Instr(Instr { out, op, inputs, loc }))
    }

    fn operands(&mut self) -> Parsed<Operands> {
        let mut operands = Operands::new();
        if matches!(self.peek(), None | Some(TokenKind::Colon | TokenKind::At)) {
            return Ok(operands);
        }
        loop {
            if operands.len() >= MAX_OPERANDS {
                return Err(Diagnostic::at(
                    self.here(),
                    format!("more than {MAX_OPERANDS} operands"),
                ));
            }
            let span = self.here();
            operands.push(self.operand()?);
            self.spans.operands.push(span);
            if !self.eat(TokenKind::Comma) {
                return Ok(operands);
            }
        }
    }

    fn operand(&mut self) -> Parsed<Operand> {
        let span = self.here();
        match self.peek() {
            Some(TokenKind::Value(id)) => {
                self.at += 1;
                Ok(Operand::Value(ValueId(id)))
            }
            Some(TokenKind::Number | TokenKind::Atom) => {
                let word = self.next_text();
                let scalar = word.parse::<Scalar>().map(Operand::Scalar);
                scalar.map_err(|()| {
                    Diagnostic::at(span, format!("`{word}` is not an operand"))
                        .hint(scalar_hint(word))
                })
            }
            _ => Err(self.expected("an operand (`%3`, `1.5`, `2`, `true`)")),
        }
    }

    fn ty(&mut self) -> Parsed<Type> {
        let span = self.here();
        if self.peek() != Some(TokenKind::Atom) {
            return Err(self.expected("a type such as `f32[2,3]`"));
        }
        let word = self.next_text();
        self.spans.ty = Some(span.clone());
        let missing = || {
            Diagnostic::at(span.clone(), format!("type `{word}` without a shape"))
                .hint(format!("a single number is `{word}[]`"))
        };
        if !word.contains('[') {
            return Err(missing());
        }
        word.parse().map_err(|error: OpError| Diagnostic {
            hint: error.hint,
            ..Diagnostic::at(span.clone(), error.message)
        })
    }

    fn loc(&mut self) -> Parsed<Loc> {
        let file = self.string("the file of a location")?;
        self.expect(TokenKind::Colon, "`:` and a line number")?;
        let line = self.number("a line number")?;
        self.expect(TokenKind::Colon, "`:` and a column number")?;
        Ok(Loc::new(&file, line, self.number("a column number")?))
    }

    fn number(&mut self, what: &str) -> Parsed<u32> {
        let span = self.here();
        if self.peek() != Some(TokenKind::Number) {
            return Err(self.expected(what));
        }
        self.next_text().parse().map_err(|_| Diagnostic::at(span, format!("expected {what}")))
    }

    fn value(&mut self) -> Parsed<ValueId> {
        match self.peek() {
            Some(TokenKind::Value(id)) => {
                self.at += 1;
                Ok(ValueId(id))
            }
            _ => Err(self.expected("a value such as `%3`")),
        }
    }

    fn optional_string(&mut self) -> Parsed<Option<Arc<str>>> {
        if self.peek() == Some(TokenKind::Str) { self.string("a name").map(Some) } else { Ok(None) }
    }

    fn string(&mut self, what: &str) -> Parsed<Arc<str>> {
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

    fn finish(&self) -> Parsed<()> {
        match self.tokens.get(self.at) {
            None => Ok(()),
            Some(token) => Err(Diagnostic::at(
                token.span.start..self.last_of_line(),
                "unexpected text after the entry",
            )
            .hint("one entry a line; operands are separated by `,`")),
        }
    }

    fn last_of_line(&self) -> usize {
        self.tokens.last().map_or(self.end, |token| token.span.end)
    }

    fn last_end(&self) -> usize {
        self.at
            .checked_sub(1)
            .and_then(|at| self.tokens.get(at))
            .map_or(self.end, |token| token.span.end)
    }

    fn peek(&self) -> Option<TokenKind> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    /// The span of the next token, or the empty one after the last.
    fn here(&self) -> Span {
        let end = self.last_of_line();
        self.tokens.get(self.at).map_or(end..end, |token| token.span.clone())
    }

    fn next_text(&mut self) -> &'a str {
        let span = self.here();
        self.at += 1;
        &self.text[span]
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == Some(kind);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, kind: TokenKind, what: &str) -> Parsed<()> {
        if self.eat(kind) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expected(&self, what: &str) -> Diagnostic {
        let span = self.here();
        let found = if span.is_empty() {
            "the end of the line".to_owned()
        } else {
            format!("`{}`", &self.text[span.clone()])
        };
        Diagnostic::at(span, format!("expected {what}, found {found}"))
    }
}

/// The name in front of the brackets.
fn head(atom: &str) -> &str {
    atom.split('[').next().unwrap_or(atom)
}

fn op_kind(atom: &str) -> Option<OpKind> {
    OpKind::ALL.iter().copied().find(|kind| kind.name() == head(atom))
}

fn suggest<'a>(
    error: Diagnostic,
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Diagnostic {
    match nearest(word, candidates) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

fn bad_op(atom: &str, span: Span, error: ParseOpError) -> Diagnostic {
    let Some(kind) = op_kind(atom) else {
        let error = Diagnostic::at(span, format!("unknown op `{}`", head(atom)));
        return suggest(error, head(atom), OpKind::ALL.iter().map(|kind| kind.name()));
    };
    let name = kind.name();
    match error {
        ParseOpError::Attribute("") => Diagnostic::at(span, format!("`{name}` takes no attribute"))
            .hint(format!("write `{name}`")),
        ParseOpError::Attribute(_) | ParseOpError::Unknown if !atom.contains('[') => {
            Diagnostic::at(span, format!("`{name}` needs an attribute"))
                .hint(format!("write `{name}[{}]`", kind.spec().attr))
        }
        ParseOpError::Attribute(_) | ParseOpError::Unknown => {
            let body = atom.get(name.len() + 1..atom.len() - 1).unwrap_or_default();
            let cause = if kind.spec().attr == "type" { body.parse::<Type>().err() } else { None };
            let message = cause.map_or_else(
                || format!("bad attribute in `{atom}`"),
                |error| format!("{name}: {}", error.message),
            );
            Diagnostic::at(span, message).hint(format!("write `{name}[{}]`", kind.spec().attr))
        }
    }
}

fn scalar_hint(word: &str) -> String {
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return "operands are values (`%3`) and numbers (`1.5`, `2`, `true`, `inf`, `nan`)".into();
    }
    if word.starts_with('+') {
        format!("write `{digits}`")
    } else {
        "integers have 64 bits; write a float with a point".into()
    }
}
