//! What becomes of the results of a template's launches, and which of them need not be made.
//!
//! A tensor with a handle at the end of a segment is a result of the segment. So are the
//! temporaries of an expression that ends with a read, which the program then frees unused. If
//! some results were unused in each of [`ENOUGH`] launches, later launches run a plan without them.
//! Only results that can be made afterwards from values that are still there are left out: none
//! that the segment computes from something it frees, whose memory its plan may overwrite, and none
//! of an instruction that can fail, because its error would be lost. A template whose results were
//! wanted after all [`MOST_WRONG`] times makes all of them again.
//!
//! This module decides. `executor/spared` watches the launches and makes what is missing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gt_ir::canonical::Template;
use gt_ir::{Entry, Operand, Tape, ValueId};

use crate::footprint::Footprint;

/// The launches after which results that none of them needed count as unused.
const ENOUGH: u32 = 2;
/// The wrong guesses after which all results are made.
const MOST_WRONG: u32 = 3;

/// The results of a template that launches do not make, by their place among its definitions, in
/// order.
#[derive(Debug)]
pub(super) struct Sparing {
    pub(super) results: Vec<u32>,
    /// The values that they are computed from, by their place among the template's inputs, behind
    /// which the uploads follow.
    pub(super) roots: Vec<u32>,
    /// The tape of the template, which frees these results at its end and does not put them out.
    pub(super) tape: Arc<Tape>,
}

/// What became of the results of a template's launches.
#[derive(Debug, Default)]
pub(super) struct Fates(Mutex<State>);

#[derive(Debug)]
enum State {
    /// So many launches left all of these unused, which have so many bytes.
    Watched(u32, Option<BTreeMap<u32, usize>>),
    /// These results are left out. So many guesses were wrong.
    Spared(Arc<Sparing>, u32),
    /// All results are made.
    Made,
}

impl Default for State {
    fn default() -> State {
        State::Watched(0, None)
    }
}

impl Fates {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody is to watch the results of the next launch.
    pub(super) fn are_watched(&self) -> bool {
        matches!(*self.state(), State::Watched(..))
    }

    /// The results that a launch need not make.
    pub(super) fn spared(&self) -> Option<Arc<Sparing>> {
        match &*self.state() {
            State::Spared(sparing, _) => Some(sparing.clone()),
            State::Watched(..) | State::Made => None,
        }
    }

    /// Notes the results of a launch that nobody used, with their bytes. From `least` bytes on they
    /// are worth a plan of their own.
    pub(super) fn note(
        &self,
        (template, footprint): (&Template, &Footprint),
        unused: &[(u32, usize)],
        least: usize,
    ) {
        let mut state = self.state();
        let State::Watched(launches, before) = &mut *state else { return };
        let mut unused: BTreeMap<u32, usize> = unused.iter().copied().collect();
        unused.retain(|at, _| before.as_ref().is_none_or(|before| before.contains_key(at)));
        *launches += 1;
        if !unused.is_empty() && *launches < ENOUGH {
            *before = Some(unused);
            return;
        }
        let sparing = Sparing::of(template, footprint, unused.keys().copied());
        let saved: usize = sparing.results.iter().filter_map(|at| unused.get(at)).sum();
        *state = match !sparing.results.is_empty() && saved >= least {
            true => State::Spared(Arc::new(sparing), 0),
            false => State::Made,
        };
    }

    /// Notes that a result was wanted which a launch had left out.
    pub(super) fn was_wrong(&self) {
        let mut state = self.state();
        if let State::Spared(_, wrong) = &mut *state {
            *wrong += 1;
            if *wrong >= MOST_WRONG {
                *state = State::Made;
            }
        }
    }
}

/// Of equal templates the tapes differ in source locations only.
impl PartialEq for Sparing {
    fn eq(&self, other: &Sparing) -> bool {
        (&self.results, &self.roots) == (&other.results, &other.roots)
    }
}

impl Eq for Sparing {}

impl Sparing {
    /// Those of these definitions that can be made after a launch.
    fn of(
        template: &Template,
        footprint: &Footprint,
        unused: impl Iterator<Item = u32>,
    ) -> Sparing {
        let n_inputs = template.n_inputs;
        let is_there = |at: u32| footprint.kept.binary_search(&at).is_ok();
        // Whether each value can be made, by its number.
        let mut is_made = vec![true; n_inputs];
        is_made.resize(n_inputs + template.n_defined, false);
        footprint.freed.iter().for_each(|at| is_made[*at as usize] = false);
        for (at, _) in footprint.uploads.iter().filter(|(at, _)| is_there(*at)) {
            is_made[n_inputs + *at as usize] = true;
        }
        for instr in template.tape.instrs() {
            let mut operands = instr.inputs.iter().filter_map(Operand::value);
            is_made[instr.out.0 as usize] =
                !instr.op.spec().can_fail() && operands.all(|value| is_made[value.0 as usize]);
        }
        let is_made = |at: &u32| is_made[n_inputs + *at as usize];
        let is_upload = |at: &u32| footprint.uploads.iter().any(|(upload, _)| upload == at);
        let results: Vec<u32> = unused.filter(|at| is_made(at) && !is_upload(at)).collect();
        let number = |at: &u32| ValueId((n_inputs + *at as usize) as u64);
        let values: BTreeSet<ValueId> = results.iter().map(number).collect();
        let needed = needed(&template.tape, values.iter().copied());
        let uploads = footprint.uploads.iter().map(|(at, _)| n_inputs as u32 + at);
        let roots = (0..).zip((0..n_inputs as u32).chain(uploads));
        let roots = roots.filter(|(_, value)| needed.contains(&ValueId(u64::from(*value))));
        let roots = roots.map(|(root, _)| root).collect();
        let is_kept = |entry: &&Entry| match entry {
            Entry::Output { value, .. } => !values.contains(value),
            Entry::Input { .. } | Entry::Instr(_) | Entry::Free(_) => true,
            Entry::Enter(_) | Entry::Exit(_) => true,
        };
        let entries = template.tape.entries.iter().filter(is_kept).cloned();
        let frees = values.iter().map(|value| Entry::Free(*value));
        let tape = Arc::new(Tape { entries: entries.chain(frees).collect() });
        Sparing { results, roots, tape }
    }
}

/// The values that some values of a tape are computed from, themselves included.
pub(super) fn needed(tape: &Tape, values: impl Iterator<Item = ValueId>) -> HashSet<ValueId> {
    let mut needed: HashSet<ValueId> = values.collect();
    for entry in tape.entries.iter().rev() {
        if let Entry::Instr(instr) = entry
            && needed.contains(&instr.out)
        {
            needed.extend(instr.inputs.iter().filter_map(Operand::value));
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_ir::canonical::canonical;
    use gt_ir::graph::segment;

    #[test]
    fn what_cannot_be_made_afterwards_is_not_left_out() {
        // Of values from outside, %1 stays and %2 does not.
        let text = "gt tape 1\n%3 = input : f32[4]\n%4 = neg %1\n%5 = exp %4\n%6 = exp %2\n%7 = \
                    mul %3, %5\n%8 = index_select[0] %1, %9\nfree %2\nfree %4\noutput %5\noutput \
                    %7\n";
        let (tape, _) = gt_ir::text::parse(text).unwrap();
        let (template, bindings) = canonical(&tape);
        let footprint = Footprint::of(&template);
        let sparing = Sparing::of(&template, &footprint, footprint.kept.iter().copied());
        let named = |at: &u32| bindings.defined.get(*at as usize).unwrap().0;
        assert_eq!(sparing.results.iter().map(named).collect::<Vec<_>>(), [5, 7]);
        let n_inputs = bindings.inputs.len();
        let roots: Vec<u64> = sparing
            .roots
            .iter()
            .map(|root| match bindings.inputs.get(*root as usize) {
                Some(input) => input.0,
                None => named(&footprint.uploads[*root as usize - n_inputs].0),
            })
            .collect();
        assert_eq!(roots, [1, 3]);
        let ty = |value: ValueId| {
            let ty = if bindings.inputs[value.0 as usize].0 == 9 { "i64[2]" } else { "f32[4]" };
            ty.parse().ok()
        };
        let outputs = |tape: &Tape| segment(tape, ty).unwrap().outputs.len();
        assert_eq!([outputs(&template.tape), outputs(&sparing.tape)], [5, 3]);
    }
}
