//! The printer: a tape to its text, with the types of its values.

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
pub fn print(tape: &Tape) -> String {
    print_mapped(tape).0
}

/// The text of a tape, and where each entry is in it.
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

struct Printer {
    out: String,
    spans: EntrySpans,
}

impl Printer {
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

    fn definition(&mut self, value: ValueId) {
        let span = self.spanned(|p| p.write(format_args!("{value}")));
        self.spans.out = Some(span);
        self.out.push_str(" = ");
    }

    fn call(&mut self, f: impl FnOnce(&mut Printer)) {
        self.spans.call = self.spanned(f);
    }

    fn word(&mut self, word: &str, name: Option<&str>) {
        self.out.push_str(word);
        if let Some(name) = name {
            self.out.push(' ');
            escape(name, &mut self.out);
        }
    }

    fn ty(&mut self, ty: Option<Type>) {
        if let Some(ty) = ty {
            self.out.push_str(" : ");
            let span = self.spanned(|p| p.write(format_args!("{ty}")));
            self.spans.ty = Some(span);
        }
    }

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
