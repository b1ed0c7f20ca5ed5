//! The text form of a tape: one entry a line, read by [`parse`], written by [`print()`].
//!
//! ```text
//! gt tape 1
//! %0 = input "x" : f32[Batch=32,784]
//! %1 = input : f32[784,256]
//! enter "layer1"
//! %2 = matmul %0, %1 : f32[Batch=32,256] @"examples/digits.rs":12:5
//! free %0
//! %3 = add %2, 1.5 : f32[Batch=32,256]
//! %4 = sum[0,1] %3 : f32[]
//! exit "layer1"
//! output %4 "loss"
//! ```
//!
//! In full (`?` is optional, `*` any number, quoted words stand for themselves):
//!
//! ```text
//! tape    = "gt" "tape" "1" newline (entry? newline)*
//! entry   = value "=" "input" string? ":" type
//!         | value "=" op operands? (":" type)? ("@" string ":" number ":" number)?
//!         | "free" value | "enter" string | "exit" string | "output" value string?
//! operands= operand ("," operand)*        operand = value | scalar
//! value   = "%" digits
//! scalar  = 1 | -2.5 | 1e-3 | true | false | nan | inf | -inf
//! op      = name ("[" attribute "]")?
//! type    = dtype "[" dim,.. "]"          dim = 784 | Batch=32 | ?=17
//! ```
//!
//! `#` and `;` begin a comment that runs to the end of the line. The type of an instruction may be
//! left out; where it is written, [`load`] checks it against the inferred one.
//!
//! Guarantees: printing then parsing gives an equal tape, and any text is either parsed or refused
//! with every mistake located, within the limits below, without a panic. Parsing alone does not
//! verify: see [`load`].

mod lex;
mod parse;
mod print;

pub use parse::parse;
pub use print::{print, print_mapped};

use crate::{
    diagnostic::{Color, Diagnostic, render},
    source_map::SourceMap,
    tape::Tape,
    verify::{Fault, Verified, verify_declared},
};

/// The version in the first line.
pub const VERSION: u32 = 1;
/// The largest text that is read, in bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// The most mistakes that [`parse`] reports.
pub const MAX_ERRORS: usize = 100;

/// A tape that was read and verified.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The tape.
    pub tape: Tape,
    /// Where its entries are in the text.
    pub map: SourceMap,
    /// The types of its values.
    pub verified: Verified,
}

/// Parses and verifies, the written types included.
///
/// ```
/// use gt_ir::{Op, text};
/// let loaded = text::load("gt tape 1\n%0 = input : f32[2]\n%1 = exp %0\noutput %1\n").unwrap();
/// assert_eq!(loaded.tape.instrs().next().map(|i| i.op), Some(Op::Exp));
/// let errors = text::load("gt tape 1\n%0 = input : f32[2]\n%1 = exq %0\n").unwrap_err();
/// assert!(errors[0].hint.as_ref().is_some_and(|hint| hint.contains("exp")));
/// ```
///
/// # Errors
/// Every mistake found, located in `text`: those of the text, or, when there are none, the faults
/// of the tape.
pub fn load(text: &str) -> Result<Loaded, Vec<Diagnostic>> {
    let (tape, map) = parse(text)?;
    match verify_declared(&tape, |at| map.entry(at).and_then(|spans| spans.declared)) {
        Ok(verified) => Ok(Loaded { tape, map, verified }),
        Err(faults) => Err(faults.iter().map(|fault| fault.diagnostic(&map)).collect()),
    }
}

/// Draws the faults of a recorded tape over its printed form.
pub fn explain(tape: &Tape, faults: &[Fault], color: Color) -> String {
    let (text, map) = print_mapped(tape);
    let diagnostics: Vec<Diagnostic> = faults.iter().map(|fault| fault.diagnostic(&map)).collect();
    render(&diagnostics, "tape", &text, color)
}
