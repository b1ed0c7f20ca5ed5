//! Bindings put back into a template.

use std::collections::HashSet;

use super::{Bindings, Template};
use crate::{
    dtype::DType,
    op::Operand,
    scalar::Scalar,
    tape::{Entry, Tape, ValueId},
};

/// Why bindings do not fit a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Another number of values or literals.
    #[error("{given} {what} given for a template that takes {wanted}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// A value named twice: the template is of a segment in which they were different.
    #[error("{0} stands for two values of the template")]
    Twice(ValueId),
    /// The names of the values defined end before the last of them.
    #[error("the values defined have no names left")]
    Names,
    /// A literal of another kind.
    #[error("literal {slot} is {given}, but the template takes a literal of kind {wanted}")]
    Kind {
        /// Which literal.
        slot: usize,
        /// What it is.
        given: Scalar,
        /// What it should be.
        wanted: DType,
    },
    /// The bounds of a random number, the wrong way around.
    #[error("randint: the range {low}..{high} is empty")]
    Range {
        /// The lower bound.
        low: Scalar,
        /// The upper bound.
        high: Scalar,
    },
}

impl Bindings {
    /// Whether these are bindings of a segment with this template.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn fits(&self, template: &Template) -> Result<(), Unfit> {
        let count = |what, given, wanted| {
            if given == wanted { Ok(()) } else { Err(Unfit::Count { what, given, wanted }) }
        };
        count("values", self.inputs.len(), template.n_inputs)?;
        count("definitions", self.defined.len(), template.n_defined)?;
        count("literals", self.scalars.len(), template.slots.len())?;
        self.names_are_different()?;
        for (slot, (given, wanted)) in self.scalars.iter().zip(&template.slots).enumerate() {
            if given.weak_dtype() != *wanted {
                return Err(Unfit::Kind { slot, given: *given, wanted: *wanted });
            }
        }
        for slot in &template.ranges {
            let (low, high) = (self.scalars[*slot], self.scalars[*slot + 1]);
            if low.as_i64() >= high.as_i64() {
                return Err(Unfit::Range { low, high });
            }
        }
        Ok(())
    }

    /// Whether no two values of the template would become one. Names come from a peer, and a
    /// plan of the template takes its values to be different.
    fn names_are_different(&self) -> Result<(), Unfit> {
        let n = self.defined.len();
        if n > 0 && self.defined.get(n - 1).is_none() {
            return Err(Unfit::Names);
        }
        let mut seen = HashSet::with_capacity(self.inputs.len());
        let listed = match &self.defined {
            super::Defined::Run(..) => &[][..],
            super::Defined::List(list) => list,
        };
        for id in self.inputs.iter().chain(listed) {
            let in_run = match self.defined {
                super::Defined::Run(first, count) => id.0.wrapping_sub(first.0) < count,
                super::Defined::List(_) => false,
            };
            if in_run || !seen.insert(*id) {
                return Err(Unfit::Twice(*id));
            }
        }
        Ok(())
    }
}

/// The segment a template and bindings stand for.
///
/// ```
/// use gt_ir::{canonical::{canonical, expand}, text};
/// let (tape, _) = text::parse("gt tape 1\n%8 = mul %3, 0.1\nfree %3\n").unwrap();
/// let (template, bindings) = canonical(&tape);
/// assert_eq!(expand(&template, &bindings), Ok(tape));
/// ```
///
/// # Errors
/// The bindings do not fit.
pub fn expand(template: &Template, bindings: &Bindings) -> Result<Tape, Unfit> {
    bindings.fits(template)?;
    let mut scalars = bindings.scalars.iter();
    let entries = template.tape.entries.iter().map(|entry| {
        let mut entry = entry.clone();
        bind(&mut entry, template, bindings, &mut scalars)?;
        Ok(entry)
    });
    Ok(Tape { entries: entries.collect::<Result<_, Unfit>>()? })
}

/// Puts the session's names and the next literals into an entry of the template.
fn bind<'a>(
    entry: &mut Entry,
    template: &Template,
    bindings: &Bindings,
    scalars: &mut impl Iterator<Item = &'a Scalar>,
) -> Result<(), Unfit> {
    let name = |id: &mut ValueId| -> Result<(), Unfit> {
        let k = usize::try_from(id.0).map_err(|_| Unfit::Names)?;
        *id = match k.checked_sub(template.n_inputs) {
            None => bindings.inputs.get(k).copied(),
            Some(k) => bindings.defined.get(k),
        }
        .ok_or(Unfit::Names)?;
        Ok(())
    };
    match entry {
        Entry::Input { out, .. } => name(out),
        Entry::Free(value) | Entry::Output { value, .. } => name(value),
        Entry::Enter(_) | Entry::Exit(_) => Ok(()),
        Entry::Instr(instr) => {
            name(&mut instr.out)?;
            for operand in &mut instr.inputs {
                match operand {
                    Operand::Value(value) => name(value)?,
                    Operand::Scalar(scalar) => {
                        *scalar = *scalars.next().ok_or(Unfit::Names)?;
                    }
                }
            }
            Ok(())
        }
    }
}
