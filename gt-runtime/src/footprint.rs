//! The effect of a template on a session's values, as far as its canonical tape shows it.
//!
//! It is computed once, when a template is defined. The checks of a launch then cost time for each
//! value at the segment's boundary, and none for its instructions. A footprint has no types of
//! computed values, because they depend on the inputs.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hasher as _};

use gt_ir::canonical::{Bindings, Defined, Template};
use gt_ir::verify::IdHash;
use gt_ir::{Entry, Op, Operand, OperandType, Scalar, Tape, Type, ValueId, infer};

/// The effect of a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Footprint {
    /// The number of its instructions.
    pub(crate) n_instrs: usize,
    /// The inputs that it frees.
    pub(crate) freed: Vec<u32>,
    /// The inputs that it frees and does nothing else with.
    pub(crate) idle: Vec<u32>,
    /// The definitions that are alive at its end.
    pub(crate) kept: Vec<u32>,
    /// The definitions that are uploads, with their types.
    pub(crate) uploads: Vec<(u32, Type)>,
    /// How deep its signal scopes nest. None if it leaves a scope open or closes one too many.
    pub(crate) depth: Option<usize>,
    /// The instructions whose operands are all literals, with their first slot and the number of
    /// slots. Only their type rules may look at a literal's value.
    sources: Vec<(Op, usize, usize)>,
}

impl Footprint {
    /// The effect of a template.
    pub(crate) fn of(template: &Template) -> Footprint {
        let n_inputs = template.n_inputs;
        let mut it = Footprint { depth: Some(0), ..Footprint::default() };
        let mut alive = vec![true; template.n_defined];
        let (mut n_slots, mut open, mut deepest) = (0, 0_usize, 0);
        let offset = |value: ValueId| (value.0 as usize).checked_sub(n_inputs);
        for entry in &template.tape.entries {
            match entry {
                Entry::Input { out, ty, .. } => {
                    it.uploads.extend(offset(*out).map(|at| (at as u32, *ty)));
                }
                Entry::Instr(instr) => {
                    it.n_instrs += 1;
                    let literals =
                        instr.inputs.iter().filter(|input| matches!(input, Operand::Scalar(_)));
                    let n = literals.count();
                    if n > 0 && n == instr.inputs.len() {
                        it.sources.push((instr.op, n_slots, n));
                    }
                    n_slots += n;
                }
                Entry::Free(value) => match offset(*value) {
                    None => it.freed.push(value.0 as u32),
                    Some(at) => alive.iter_mut().skip(at).take(1).for_each(|a| *a = false),
                },
                Entry::Enter(_) => {
                    open += 1;
                    deepest = deepest.max(open);
                }
                Entry::Exit(_) if open == 0 => it.depth = None,
                Entry::Exit(_) => open -= 1,
                Entry::Output { .. } => {}
            }
        }
        let idle = idle(&template.tape);
        let is_idle = |at: &u32| idle.contains(&ValueId(u64::from(*at)));
        it.idle = (0..n_inputs as u32).filter(is_idle).collect();
        it.kept = (0..).zip(&alive).filter(|(_, alive)| **alive).map(|(at, _)| at).collect();
        it.depth = it.depth.filter(|_| open == 0).map(|_| deepest);
        it
    }

    /// Whether the type rules that look at literals accept these literals.
    pub(crate) fn accepts(&self, scalars: &[Scalar]) -> bool {
        self.sources.iter().all(|(op, first, n)| {
            let given: smallvec::SmallVec<[OperandType; 3]> =
                scalars.iter().skip(*first).take(*n).copied().map(OperandType::Scalar).collect();
            infer(op, &given).is_ok()
        })
    }
}

/// Values by their numbers.
pub(crate) type Ids = HashSet<ValueId, IdHash>;

/// The values that a tape frees and does nothing else with.
pub(crate) fn idle(tape: &Tape) -> Ids {
    let freed = |entry: &Entry| match entry {
        Entry::Free(value) => Some(*value),
        Entry::Input { .. } | Entry::Instr(_) | Entry::Output { .. } => None,
        Entry::Enter(_) | Entry::Exit(_) => None,
    };
    let mut idle: Ids = tape.entries.iter().filter_map(freed).collect();
    for entry in &tape.entries {
        match entry {
            Entry::Instr(instr) => {
                instr.inputs.iter().filter_map(Operand::value).for_each(|value| {
                    idle.remove(&value);
                })
            }
            Entry::Output { value, .. } => _ = idle.remove(value),
            Entry::Free(_) | Entry::Input { .. } | Entry::Enter(_) | Entry::Exit(_) => {}
        }
    }
    idle
}

/// The first value that a segment defines, if its values are numbered consecutively.
pub(crate) fn first_defined(bindings: &Bindings) -> Option<ValueId> {
    if let Defined::Run(first, _) = bindings.defined { Some(first) } else { None }
}

/// Tells whether values are distinct, without allocating after it has grown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct {
    /// Values by their hash, each with the round in which it was seen.
    seen: Vec<(u32, ValueId)>,
    round: u32,
    hash: IdHash,
}

impl Distinct {
    /// Begins a new round, for at most `n` values.
    pub(crate) fn begin(&mut self, n: usize) {
        let size = (2 * n).next_power_of_two().max(16);
        self.round = self.round.wrapping_add(1);
        if self.seen.len() < size || self.round == 0 {
            self.seen = vec![(0, ValueId(0)); size.max(self.seen.len())];
            self.round = 1;
        }
    }

    /// Whether the value is new in this round.
    pub(crate) fn add(&mut self, value: ValueId) -> bool {
        let mask = self.seen.len() - 1;
        let mut hasher = self.hash.build_hasher();
        hasher.write_u64(value.0);
        let mut at = hasher.finish() as usize;
        loop {
            at &= mask;
            let slot = &mut self.seen[at];
            if slot.0 != self.round {
                *slot = (self.round, value);
                return true;
            }
            if slot.1 == value {
                return false;
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_values_are_told_apart() {
        let mut distinct = Distinct::default();
        for n in [0, 1, 5, 100, 3000] {
            distinct.begin(n);
            assert!((0..n as u64).all(|i| distinct.add(ValueId(i << 9))));
            assert!((0..n as u64).all(|i| !distinct.add(ValueId(i << 9))));
        }
    }
}
