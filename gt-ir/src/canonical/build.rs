//! Templates: from segments, and from tapes that claim to be canonical.

use std::sync::Arc;

use super::{Bindings, Canonicalizer, Template, number::Place};
use crate::{
    op::{Op, Operand},
    scalar::Scalar,
    tape::{Entry, Instr, Tape, ValueId},
};

/// Why a tape is not a template's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry} is not in canonical form")]
pub struct NotCanonical {
    /// Index into [`Tape::entries`].
    pub entry: usize,
}

/// The canonical form of a segment, and what it leaves out.
pub fn canonical(tape: &Tape) -> (Template, Bindings) {
    let mut taking = Canonicalizer::new();
    let mut build = Build::default();
    build.entries.reserve_exact(tape.entries.len());
    for entry in &tape.entries {
        let renamed = build.entry(entry, &mut taking);
        taking.push(entry);
        build.entries.push(renamed);
    }
    let (mut bindings, n_defined) = (Bindings::default(), taking.n_defined());
    let key = taking.finish(&mut bindings);
    let n_inputs = bindings.inputs.len();
    build.entries.iter_mut().for_each(|entry| number(entry, n_inputs));
    let template = Template {
        tape: Arc::new(Tape { entries: build.entries }),
        key,
        n_inputs,
        n_defined,
        slots: bindings.scalars.iter().map(|scalar| scalar.weak_dtype()).collect(),
        ranges: build.ranges,
    };
    (template, bindings)
}

impl Template {
    /// A template from the tape of another.
    ///
    /// # Errors
    /// The tape is not in canonical form.
    pub fn new(tape: Arc<Tape>) -> Result<Template, NotCanonical> {
        let (template, _) = canonical(&tape);
        let pairs = template.tape.entries.iter().zip(&tape.entries);
        match pairs.into_iter().position(|(canonical, given)| canonical != given) {
            None => Ok(Template { tape, ..template }),
            Some(entry) => Err(NotCanonical { entry }),
        }
    }
}

/// What a literal becomes: zero of its kind. The range of `randint` must not be empty, hence 1 for
/// its end.
fn placeholder(scalar: Scalar, op: &Op, operand: usize) -> Scalar {
    let ends_range = matches!(op, Op::Randint(_)) && operand == 1;
    match scalar {
        Scalar::F64(_) => Scalar::F64(f64::from(u8::from(ends_range))),
        Scalar::I64(_) => Scalar::I64(i64::from(ends_range)),
        Scalar::Bool(_) => Scalar::Bool(ends_range),
    }
}

/// A canonical tape in the making. Until the number of inputs is known, values are named by their
/// places.
#[derive(Default)]
struct Build {
    entries: Vec<Entry>,
    n_scalars: usize,
    ranges: Vec<usize>,
}

impl Build {
    /// An entry with its values renamed, just before `taking` takes it.
    fn entry(&mut self, entry: &Entry, taking: &mut Canonicalizer) -> Entry {
        let out = name(Place::Here(taking.n_defined() as u32));
        match entry {
            Entry::Input { ty, name, .. } => Entry::Input { out, ty: *ty, name: name.clone() },
            Entry::Instr(instr) => self.instr(instr, out, taking),
            Entry::Free(value) => Entry::Free(name(taking.place(*value))),
            Entry::Output { value, name: label } => {
                Entry::Output { value: name(taking.place(*value)), name: label.clone() }
            }
            Entry::Enter(_) | Entry::Exit(_) => entry.clone(),
        }
    }

    fn instr(&mut self, instr: &Instr, out: ValueId, taking: &mut Canonicalizer) -> Entry {
        if let (Op::Randint(_), [Operand::Scalar(_), Operand::Scalar(_), ..]) =
            (instr.op, instr.inputs.as_slice())
        {
            self.ranges.push(self.n_scalars);
        }
        let operand = |(i, operand): (usize, &Operand)| match operand {
            Operand::Value(value) => Operand::Value(name(taking.place(*value))),
            Operand::Scalar(scalar) => {
                self.n_scalars += 1;
                Operand::Scalar(placeholder(*scalar, &instr.op, i))
            }
        };
        let inputs = instr.inputs.iter().enumerate().map(operand).collect();
        Entry::Instr(Instr { out, op: instr.op, inputs, loc: instr.loc })
    }
}

/// A name that holds a place.
const fn name(place: Place) -> ValueId {
    ValueId(place.word())
}

/// Turns names that hold places into canonical numbers.
fn number(entry: &mut Entry, n_inputs: usize) {
    let number = |id: &mut ValueId| {
        let k = (id.0 >> 1) as u32;
        let place = if id.0 & 1 == 1 { Place::Here(k) } else { Place::Outside(k) };
        *id = place.number(n_inputs);
    };
    match entry {
        Entry::Input { out, .. } => number(out),
        Entry::Instr(instr) => {
            number(&mut instr.out);
            for operand in &mut instr.inputs {
                if let Operand::Value(value) = operand {
                    number(value);
                }
            }
        }
        Entry::Free(value) | Entry::Output { value, .. } => number(value),
        Entry::Enter(_) | Entry::Exit(_) => (),
    }
}
