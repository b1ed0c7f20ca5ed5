//! The parser: a text to a tape and a source map, or every mistake in it.
//!
//! An entry is a line, so a mistake costs its own line only and the next ones are still read. Here
//! is the grammar of entries; `line` is what it reads from, `hints` what it says of unknown words.

mod hints;
mod line;

use super::{
    MAX_BYTES, MAX_ERRORS, VERSION,
    lex::{self, TokenKind},
};
use crate::{
    diagnostic::{Diagnostic, Span},
    error::OpError,
    intern::Loc,
    op::{Op, Operand},
    scalar::Scalar,
    shape::Type,
    source_map::{EntrySpans, SourceMap},
    tape::{Entry, Instr, MAX_ENTRIES, MAX_OPERANDS, Operands, Tape, ValueId},
};

use hints::{bad_op, head, op_kind, scalar_hint, suggest};
use line::{Line, Parsed};

/// Words that begin an entry which defines no value.
const WORDS: [&str; 4] = ["free", "enter", "exit", "output"];

/// Reads a tape. Its entries are well formed one by one; whether they fit together is for the
/// verifier.
///
/// The source map has the spans of each entry, by which a later fault of the verifier is drawn over
/// the text. Types that are written beside instructions go there too and not on the tape, since
/// they follow from the operands.
///
/// ```
/// use gt_ir::text::parse;
/// let (tape, _) = parse("gt tape 1\n%0 = input : f32[2]\n%1 = exp %0\noutput %1\n").unwrap();
/// assert_eq!(tape.entries.len(), 3);
/// // Every line is read, so both mistakes are reported.
/// let errors = parse("gt tape 1\n%0 = imput : f32[2]\n%1 = exp %0,\n").unwrap_err();
/// assert_eq!(errors.len(), 2);
/// ```
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

/// Whether the first line has been read.
#[derive(PartialEq)]
enum Header {
    Missing,
    Seen,
}

/// The error of a text that does not begin with the line of the format and its version.
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

impl<'a> Line<'a> {
    /// `gt tape 1`.
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

    /// A definition or a statement, with its places.
    fn entry(&mut self) -> Parsed<Entry> {
        let start = self.here().start;
        let entry = match self.peek() {
            Some(TokenKind::Value(id)) => self.definition(ValueId(id))?,
            Some(TokenKind::Atom) => self.statement()?,
            _ => {
                return Err(Diagnostic::at(self.here(), "no entry begins like this").hint(
                    "an entry is `%N = op ...`, `%N = input ...`, `free %N`, `enter \"..\"`, \
                     `exit \"..\"` or `output %N`",
                ));
            }
        };
        self.spans.whole = start..self.last_end();
        if self.spans.call == Span::default() {
            self.spans.call = self.spans.whole.clone();
        }
        Ok(entry)
    }

    /// `free %N`, `enter ".."`, `exit ".."` or `output %N`.
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

    /// `%N = input ..` or `%N = op ..`.
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

    /// Values and literals with commas between; none before a type, a place or the end.
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

    /// `%3`, `1.5`, `true`.
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

    /// `f32[2,3]`; a dtype alone is the most frequent mistake and gets a hint of its own.
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

    /// `"file":line:column`.
    fn loc(&mut self) -> Parsed<Loc> {
        let file = self.string("the file of a location")?;
        self.expect(TokenKind::Colon, "`:` and a line number")?;
        let line = self.number("a line number")?;
        self.expect(TokenKind::Colon, "`:` and a column number")?;
        Ok(Loc::new(&file, line, self.number("a column number")?))
    }
}
