//! Why two segments are not the same: for whoever asks why one ran anew, and for comparing
//! programs.

use std::fmt;

use super::{Template, number::Place};
use crate::{
    attr::Attr,
    dtype::DType,
    op::{Op, Operand},
    shape::{Shape, Type},
    tape::{Entry, Instr, ValueId},
};

/// What part of a key differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Nothing: the templates are equal.
    Nothing,
    /// One goes on where the other ends.
    Length,
    /// Entries of different kinds: an instruction here, a free there.
    EntryKind,
    /// Different ops.
    Op,
    /// The same op with other attributes.
    Attribute,
    /// The element type of a shape attribute, a cast or an upload.
    DType,
    /// Sizes or names of dimensions of a shape attribute or an upload.
    Shape,
    /// Another number of operands.
    Arity,
    /// An operand computed by another instruction.
    Wiring,
    /// Two operands are one value here and two values there.
    Alias,
    /// A tensor here and a literal there, or literals of different kinds.
    Literal,
    /// Another value is freed.
    Free,
    /// Another signal scope.
    Signal,
    /// Another value is read.
    Output,
}

/// The first difference of two templates. Prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The entry; the number of entries where nothing differs.
    pub entry: usize,
    /// What of it.
    pub part: Part,
    /// What it is in the first.
    pub first: String,
    /// What it is in the second.
    pub second: String,
}

/// The first difference, in words.
///
/// ```
/// use gt_ir::{canonical::{canonical, explain}, text};
/// let template = |line: &str| {
///     let (tape, _) = text::parse(&format!("gt tape 1\n{line}\n")).unwrap();
///     canonical(&tape).0
/// };
/// let difference = explain(&template("%1 = exp %0"), &template("%1 = log %0"));
/// assert_eq!(difference.to_string(), "entry 0: the op differs: exp against log");
/// ```
pub fn explain(a: &Template, b: &Template) -> Difference {
    let (first, second) = (&a.tape.entries, &b.tape.entries);
    for (entry, (x, y)) in first.iter().zip(second).enumerate() {
        if let Some((part, first, second)) = (Pair { a, b }).entry(x, y) {
            return Difference { entry, part, first, second };
        }
    }
    let entry = first.len().min(second.len());
    let part = if first.len() == second.len() { Part::Nothing } else { Part::Length };
    let rest = |entries: &[Entry]| entries.get(entry).map_or_else(|| "the end".into(), line);
    Difference { entry, part, first: rest(first), second: rest(second) }
}

/// What differs, and the words for it on both sides; `None` where nothing does.
type Found = Option<(Part, String, String)>;

/// The templates compared; numbers of values mean something only beside them.
#[derive(Clone, Copy)]
struct Pair<'a> {
    a: &'a Template,
    b: &'a Template,
}

impl Pair<'_> {
    /// The difference of two entries at the same position.
    fn entry(self, x: &Entry, y: &Entry) -> Found {
        match (x, y) {
            (Entry::Instr(x), Entry::Instr(y)) => self.instr(x, y),
            (Entry::Free(x), Entry::Free(y)) => self.value(*x, *y, Part::Free),
            (Entry::Output { value: x, .. }, Entry::Output { value: y, .. }) => {
                self.value(*x, *y, Part::Output)
            }
            (Entry::Input { ty: x, .. }, Entry::Input { ty: y, .. }) => types(x, y),
            (Entry::Enter(x), Entry::Enter(y)) | (Entry::Exit(x), Entry::Exit(y)) => {
                (x != y).then(|| (Part::Signal, format!("{x:?}"), format!("{y:?}")))
            }
            _ => {
                let scope = |e: &Entry| matches!(e, Entry::Enter(_) | Entry::Exit(_));
                let part = if scope(x) || scope(y) { Part::Signal } else { Part::EntryKind };
                Some((part, line(x), line(y)))
            }
        }
    }

    /// The op first, then the operands from left to right.
    fn instr(self, x: &Instr, y: &Instr) -> Found {
        if let Some(found) = ops(&x.op, &y.op) {
            return Some(found);
        }
        if x.inputs.len() != y.inputs.len() {
            let count = |i: &Instr| format!("{} operands", i.inputs.len());
            return Some((Part::Arity, count(x), count(y)));
        }
        x.inputs.iter().zip(&y.inputs).find_map(|(x, y)| match (x, y) {
            (Operand::Value(x), Operand::Value(y)) => self.value(*x, *y, Part::Wiring),
            (Operand::Scalar(x), Operand::Scalar(y)) => (x.weak_dtype() != y.weak_dtype())
                .then(|| (Part::Literal, literal(x.weak_dtype()), literal(y.weak_dtype()))),
            (Operand::Value(_), Operand::Scalar(_)) | (Operand::Scalar(_), Operand::Value(_)) => {
                let word = |o: &Operand| match o {
                    Operand::Value(_) => "a value".to_owned(),
                    Operand::Scalar(s) => literal(s.weak_dtype()),
                };
                Some((Part::Literal, word(x), word(y)))
            }
        })
    }

    /// Values differ when they come from different places. Both templates number what comes from
    /// outside by first use, so of two such values with different numbers one was met before and
    /// the other may not have been.
    fn value(self, x: ValueId, y: ValueId, part: Part) -> Found {
        let (x, y) = (Place::of(x, self.a.n_inputs), Place::of(y, self.b.n_inputs));
        let part = match (x, y) {
            (Place::Outside(_), Place::Outside(_)) if part == Part::Wiring => Part::Alias,
            _ => part,
        };
        (x != y).then(|| (part, place(x), place(y)))
    }
}

/// The difference of two ops. The syntax of the attribute tells which part of it is meant: an op
/// whose attribute is a type differs in its dtype or in its shape.
fn ops(x: &Op, y: &Op) -> Found {
    if x == y {
        return None;
    }
    let (first, second) = (x.to_string(), y.to_string());
    let part = match x.spec().attr {
        _ if x.kind() != y.kind() => Part::Op,
        <DType as Attr>::SYNTAX => Part::DType,
        <Shape as Attr>::SYNTAX => Part::Shape,
        <Type as Attr>::SYNTAX if dtype(&first) != dtype(&second) => Part::DType,
        <Type as Attr>::SYNTAX => Part::Shape,
        _ => Part::Attribute,
    };
    Some((part, first, second))
}

/// The `f32` of `full[f32[2,3]]`.
fn dtype(op: &str) -> Option<&str> {
    op.split('[').nth(1)
}

/// The difference of the types of two uploads.
fn types(x: &Type, y: &Type) -> Found {
    let part = if x.dtype == y.dtype { Part::Shape } else { Part::DType };
    (x != y).then(|| (part, x.to_string(), y.to_string()))
}

/// A literal by its kind; its value is no part of a key.
fn literal(dtype: DType) -> String {
    format!("a literal of kind {dtype}")
}

/// The place of a value, in words.
fn place(place: Place) -> String {
    match place {
        Place::Outside(k) => format!("value {k} from outside"),
        Place::Here(k) => format!("value {k} of the segment"),
    }
}

/// An entry as it is said in a message: without the numbers of its values, which mean nothing
/// across templates.
fn line(entry: &Entry) -> String {
    match entry {
        Entry::Input { ty, .. } => format!("an upload of {ty}"),
        Entry::Instr(instr) => format!("`{}`", instr.op),
        Entry::Free(_) => "a free".into(),
        Entry::Enter(name) => format!("the beginning of signal {name:?}"),
        Entry::Exit(name) => format!("the end of signal {name:?}"),
        Entry::Output { .. } => "a read".into(),
    }
}

impl Part {
    /// What it is called in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Nothing => "nothing",
            Part::Length => "the length",
            Part::EntryKind => "the kind of entry",
            Part::Op => "the op",
            Part::Attribute => "an attribute",
            Part::DType => "a dtype",
            Part::Shape => "a shape",
            Part::Arity => "the number of operands",
            Part::Wiring => "the wiring of an operand",
            Part::Alias => "which operands are the same value",
            Part::Literal => "a literal",
            Part::Free => "which value is freed",
            Part::Signal => "a signal scope",
            Part::Output => "which value is read",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { entry, part, first, second } = self;
        if *part == Part::Nothing {
            return f.write_str("nothing differs");
        }
        write!(f, "entry {entry}: {part} differs: {first} against {second}")
    }
}
