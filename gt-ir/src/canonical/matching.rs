//! A recorded segment against a template one expects: the comparison that makes a launch cheap.

use super::{
    Bindings, Template,
    number::{Numbers, Place},
};
use crate::{
    op::Operand,
    scalar::Scalar,
    tape::{Entry, Instr, Tape, ValueId},
};

/// Where a segment stops being the one of a template; [`explain`](super::explain) says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The first entry that differs.
    pub entry: usize,
}

/// Compares segments with templates and fills bindings as it goes. Meant to be reused: it keeps its
/// buffers.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// Whether instructions must also stand where those of the template stand in the source.
    places: bool,
    numbers: Numbers,
    scalars: Vec<Scalar>,
}

/// Whether a segment is one of `template`, whose bindings then are in `bindings`.
///
/// ```
/// use gt_ir::{canonical::{Bindings, canonical, matches}, text};
/// let tape = |scale: &str| {
///     let text = format!("gt tape 1\n%1 = mul %0, {scale}\n%2 = exp %1\n");
///     text::parse(&text).unwrap().0
/// };
/// let (template, mut bindings) = canonical(&tape("0.1"));
/// assert_eq!(matches(&template, &tape("0.2"), &mut bindings), Ok(()));
/// assert_eq!(bindings.scalars, [0.2.into()]);
/// assert_eq!(matches(&template, &tape("2"), &mut bindings).unwrap_err().entry, 0);
/// ```
///
/// # Errors
/// The first entry that differs.
pub fn matches(template: &Template, tape: &Tape, bindings: &mut Bindings) -> Result<(), Mismatch> {
    Matcher::default().matches(template, tape, bindings)
}

impl Matcher {
    /// One that has seen nothing.
    pub fn new() -> Matcher {
        Matcher::default()
    }

    /// One that finds a segment different whose instructions were written elsewhere: errors then
    /// name the right line.
    pub fn with_places() -> Matcher {
        Matcher { places: true, ..Matcher::default() }
    }

    /// As [`matches()`].
    ///
    /// # Errors
    /// The first entry that differs; `bindings` are then as they were.
    pub fn matches(
        &mut self,
        template: &Template,
        tape: &Tape,
        bindings: &mut Bindings,
    ) -> Result<(), Mismatch> {
        self.numbers.clear();
        self.scalars.clear();
        let (wanted, given) = (&template.tape.entries, &tape.entries);
        if wanted.len() != given.len() {
            let shared = wanted.len().min(given.len());
            let differs = wanted.iter().zip(given).position(|(w, g)| !self.entry(w, g, template));
            return Err(Mismatch { entry: differs.unwrap_or(shared) });
        }
        let differs = wanted.iter().zip(given).position(|(w, g)| !self.entry(w, g, template));
        if let Some(entry) = differs {
            return Err(Mismatch { entry });
        }
        self.numbers.give(bindings);
        std::mem::swap(&mut bindings.scalars, &mut self.scalars);
        Ok(())
    }

    /// Whether an entry is that of the template. Its values are numbered as it is compared, so
    /// nothing is read twice.
    #[inline]
    fn entry(&mut self, wanted: &Entry, given: &Entry, template: &Template) -> bool {
        match (wanted, given) {
            (Entry::Instr(wanted), Entry::Instr(given)) => self.instr(wanted, given, template),
            (Entry::Free(wanted), Entry::Free(given)) => self.value(*wanted, *given, template),
            (Entry::Output { value: wanted, .. }, Entry::Output { value: given, .. }) => {
                self.value(*wanted, *given, template)
            }
            (Entry::Input { ty: wanted, .. }, Entry::Input { ty: given, out, .. }) => {
                self.numbers.define(*out);
                wanted == given
            }
            (Entry::Enter(wanted), Entry::Enter(given))
            | (Entry::Exit(wanted), Entry::Exit(given)) => wanted == given,
            _ => false,
        }
    }

    /// Whether an instruction is that of the template, whatever its literals are. They are
    /// collected.
    #[inline]
    fn instr(&mut self, wanted: &Instr, given: &Instr, template: &Template) -> bool {
        if wanted.op != given.op || wanted.inputs.len() != given.inputs.len() {
            return false;
        }
        if self.places && wanted.loc != given.loc {
            return false;
        }
        for (wanted, given) in wanted.inputs.iter().zip(&given.inputs) {
            let same = match (wanted, given) {
                (Operand::Value(wanted), Operand::Value(given)) => {
                    self.value(*wanted, *given, template)
                }
                (Operand::Scalar(wanted), Operand::Scalar(given)) => {
                    self.scalars.push(*given);
                    wanted.weak_dtype() == given.weak_dtype()
                }
                (Operand::Value(_), Operand::Scalar(_))
                | (Operand::Scalar(_), Operand::Value(_)) => false,
            };
            if !same {
                return false;
            }
        }
        self.numbers.define(given.out);
        true
    }

    /// Whether two values come from the same place.
    #[inline]
    fn value(&mut self, wanted: ValueId, given: ValueId, template: &Template) -> bool {
        self.numbers.place(given) == Place::of(wanted, template.n_inputs)
    }
}
