//! The printer: a tape to its text, with the types of its values.
//!
//! There is one way to print a tape: `, ` between operands, ` : ` before a type, ` @` before a
//! place. Names are escaped, so an entry is always one line. The types are inferred while printing,
//! and the printed text of a verified tape parses back to an equal tape.

use std::fmt::Write;

use super::{VERSION, lex::escape};
use crate::{
    diagnostic::Span,
    intern::Loc,
    shape::Type,
    source_map::{EntrySpans, SourceMap},
    tape::{Entry, Instr, Tape, ValueId},
    verify::Verifier,
};

/// The text of a tape. Types are left out where a fault of the tape leaves none to print.
///
/// ```
/// use gt_ir::text::{parse, print};
/// let text = "gt tape 1\n%0 = input : f32[2]\n%1 = mul %0,2.0 ; twice\noutput %1\n";
/// let (tape, _) = parse(text).unwrap();
/// assert_eq!(
///     print(&tape),
///     "gt tape 1\n%0 = input : f32[2]\n%1 = mul %0, 2.0 : f32[2]\noutput %1\n"
/// );
/// ```
pub fn print(tape: &Tape) -> String {
    print_mapped(tape).0
}

/// The text of a tape, and where each entry is in it.
///
/// A fault of a tape that was recorded, and never was a text, is drawn over this one.
pub fn print_mapped(tape: &Tape) -> (String, SourceMap) {
    let mut printer = Printer { out: format!("gt tape {VERSION}\n"), spans: EntrySpans::default() };
    let mut map = SourceMap::default();
    let mut verifier = Verifier::new();
    for entry in &tape.entries {
        let ty = verifier.entry(entry).ok().flatten();
        let start = printer.out.len();
        printer.entry(entry, ty);
        printer.spans.whole = start..printer.out.len();
        printer.out.push('\n');
        map.entries.push(std::mem::take(&mut printer.spans));
    }
    (printer.out, map)
}

/// The text so far, and the spans of the entry that is being printed.
struct Printer {
    out: String,
    spans: EntrySpans,
}

impl Printer {
    /// Writes one entry without its line feed.
    fn entry(&mut self, entry: &Entry, ty: Option<Type>) {
        match entry {
            Entry::Input { out, ty, name } => {
                self.definition(*out);
                self.call(|p| p.word("input", name.as_deref()));
                self.ty(Some(*ty));
            }
            Entry::Instr(instr) => self.instr(instr, ty),
            Entry::Free(value) => self.call(|p| p.write(format_args!("free {value}"))),
            Entry::Enter(name) => self.call(|p| p.word("enter", Some(name))),
            Entry::Exit(name) => self.call(|p| p.word("exit", Some(name))),
            Entry::Output { value, name } => self.call(|p| {
                p.write(format_args!("output {value}"));
                p.word("", name.as_deref());
            }),
        }
    }

    /// Writes `%1 = add %0, 2.0 : f32[2] @"model.rs":3:5`.
    fn instr(&mut self, instr: &Instr, ty: Option<Type>) {
        self.definition(instr.out);
        self.call(|p| {
            p.write(format_args!("{}", instr.op));
            for (i, operand) in instr.inputs.iter().enumerate() {
                p.out.push_str(if i == 0 { " " } else { ", " });
                let span = p.spanned(|p| p.write(format_args!("{operand}")));
                p.spans.operands.push(span);
            }
        });
        self.ty(ty);
        if instr.loc != Loc::NONE {
            self.out.push_str(" @");
            escape(instr.loc.file(), &mut self.out);
            self.write(format_args!(":{}:{}", instr.loc.line(), instr.loc.col()));
        }
    }

    /// Writes `%1 = `, and notes where the value is.
    fn definition(&mut self, value: ValueId) {
        let span = self.spanned(|p| p.write(format_args!("{value}")));
        self.spans.out = Some(span);
        self.out.push_str(" = ");
    }

    /// Writes what stands between the definition and the type, and notes where it is.
    fn call(&mut self, f: impl FnOnce(&mut Printer)) {
        self.spans.call = self.spanned(f);
    }

    /// Writes a word, and after it a name in quotes if there is one.
    fn word(&mut self, word: &str, name: Option<&str>) {
        self.out.push_str(word);
        if let Some(name) = name {
            self.out.push(' ');
            escape(name, &mut self.out);
        }
    }

    /// Writes ` : ` and a type, and notes where it is; writes nothing where there is no type.
    fn ty(&mut self, ty: Option<Type>) {
        if let Some(ty) = ty {
            self.out.push_str(" : ");
            let span = self.spanned(|p| p.write(format_args!("{ty}")));
            self.spans.ty = Some(span);
        }
    }

    /// The bytes that `f` writes.
    fn spanned(&mut self, f: impl FnOnce(&mut Printer)) -> Span {
        let start = self.out.len();
        f(self);
        start..self.out.len()
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = self.out.write_fmt(text);
    }
}
