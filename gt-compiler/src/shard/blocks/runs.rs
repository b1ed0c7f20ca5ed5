//! Runs: places where a tape repeats a block of entries. Each round does the same as the one before
//! it, with values that are as far away, or that move on by the same number of entries each round.

use std::hash::{Hash as _, Hasher as _};
use std::ops::Range;

use gt_ir::layout::Layout;
use gt_ir::{Entry, Operand, Type, ValueId};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::facts::{Fact, facts};
use crate::shard::Request;

/// Entries that have to be alike for a period to be considered.
const ALIKE: usize = 8;
/// The most periods that are considered at an entry: updates of parameters of other shapes are
/// alike, too.
const PERIODS: usize = 64;
/// The fewest rounds of a run, and the fewest entries.
const ROUNDS: usize = 4;
const LENGTH: usize = 48;
/// Comparisons for each entry of the tape, after which no further runs are found.
const EFFORT: usize = 32;

/// A block of `period` entries from the entry `first` on, so many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) period: usize,
    pub(super) times: usize,
}

impl Run {
    /// The entry behind the last one.
    pub(super) const fn end(&self) -> usize {
        self.first + self.period * self.times
    }

    /// How many entries it has.
    pub(super) const fn len(&self) -> usize {
        self.period * self.times
    }

    /// The round of an entry.
    pub(super) const fn round(&self, entry: usize) -> usize {
        (entry - self.first) / self.period
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A value from outside, by its number.
    Outside(usize),
    /// The entry that defines it.
    Entry(usize),
}

/// The entries of a segment, and where the values that they use come from.
pub(super) struct Wires<'a> {
    pub(super) entries: &'a [Entry],
    inputs: &'a [(Type, Layout)],
    /// What is known about each value.
    pub(super) facts: Vec<Fact>,
    /// The entries that define values, in order.
    definers: Vec<usize>,
}

impl<'a> Wires<'a> {
    /// None if the segment's types do not fit.
    pub(super) fn new(request: &Request<'a>) -> Option<Wires<'a>> {
        let entries = &request.template.tape.entries;
        let defines = |(at, entry): (usize, &Entry)| entry.defines().map(|_| at);
        let definers = entries.iter().enumerate().filter_map(defines).collect();
        Some(Wires { entries, inputs: request.inputs, facts: facts(request)?, definers })
    }

    pub(super) fn source(&self, value: ValueId) -> Source {
        let number = value.0 as usize;
        match number.checked_sub(self.inputs.len()) {
            None => Source::Outside(number),
            Some(defined) => Source::Entry(self.definers[defined]),
        }
    }

    /// Where the values come from that an entry uses.
    pub(super) fn sources(&self, entry: usize) -> SmallVec<[Source; 3]> {
        used(&self.entries[entry]).map(|value| self.source(value)).collect()
    }

    /// How far what `now` uses is from what `then` uses; none if the entries do not do the same.
    fn steps(&self, then: usize, now: usize) -> Option<SmallVec<[isize; 3]>> {
        if !alike(&self.entries[then], &self.entries[now]) {
            return None;
        }
        let (then, now) = (&self.entries[then], &self.entries[now]);
        let fact = |value: ValueId| self.facts[value.0 as usize];
        if then.defines().map(fact) != now.defines().map(fact) {
            return None;
        }
        let step = |(then, now): (ValueId, ValueId)| {
            if fact(then) != fact(now) {
                return None;
            }
            let distance = |then: usize, now: usize| now as isize - then as isize;
            match (self.source(then), self.source(now)) {
                (Source::Entry(then), Source::Entry(now)) => Some(distance(then, now)),
                (Source::Outside(then), Source::Outside(now)) => {
                    (self.inputs[then] == self.inputs[now]).then(|| distance(then, now))
                }
                (Source::Entry(_), Source::Outside(_)) | (Source::Outside(_), Source::Entry(_)) => {
                    None
                }
            }
        };
        used(then).zip(used(now)).map(step).collect()
    }

    /// The runs of the tape, in order. None overlap.
    pub(super) fn runs(&self) -> Vec<Run> {
        let next = self.next_alike();
        let effort = EFFORT * self.entries.len();
        let mut search = Search { differ: FxHashMap::default(), effort };
        let (mut runs, mut at) = (Vec::new(), 0);
        while at < self.entries.len() {
            match self.run(at, &next, &mut search) {
                Some(run) => {
                    at = run.end();
                    runs.push(run);
                }
                None => at += 1,
            }
        }
        runs
    }

    /// For each entry the next one from which on some entries look alike.
    fn next_alike(&self) -> Vec<Option<usize>> {
        let marks: Vec<u64> = self.entries.iter().map(mark).collect();
        let mut next = vec![None; self.entries.len()];
        let mut last = FxHashMap::default();
        for (at, marks) in marks.windows(ALIKE).enumerate().rev() {
            next[at] = last.insert(marks, at);
        }
        next
    }

    /// The longest run that begins at an entry.
    fn run(&self, first: usize, next: &[Option<usize>], search: &mut Search) -> Option<Run> {
        let mut best: Option<Run> = None;
        let mut other = next[first];
        for _ in 0..PERIODS {
            let Some(second) = other else { break };
            let period = second - first;
            if period * ROUNDS > self.entries.len() - first {
                break;
            }
            other = next[second];
            // Two rounds of a run are no better as one.
            if best.is_some_and(|best| period.is_multiple_of(best.period)) {
                continue;
            }
            let Some(end) = self.end(first, period, search) else { continue };
            if !self.closes_scopes(first..second) {
                continue;
            }
            let run = Run { first, period, times: (end - first) / period };
            let is_long = run.times >= ROUNDS && run.len() >= LENGTH;
            if is_long && best.is_none_or(|best| best.end() < run.end()) {
                best = Some(run);
            }
        }
        best
    }

    /// Whether as many scopes begin as end.
    fn closes_scopes(&self, entries: Range<usize>) -> bool {
        let count = |is: fn(&Entry) -> bool| {
            self.entries[entries.clone()].iter().filter(|entry| is(entry)).count()
        };
        count(|entry| matches!(entry, Entry::Enter(_)))
            == count(|entry| matches!(entry, Entry::Exit(_)))
    }

    /// The first entry that does not do the same as the one a period before it; none if three
    /// rounds differ already.
    fn end(&self, first: usize, period: usize, search: &mut Search) -> Option<usize> {
        let differs = search.differ.get(&period);
        if differs.is_some_and(|at| (first..first + period).contains(at)) {
            return None;
        }
        let mut steps = Vec::new();
        for then in first..first + period {
            search.effort = search.effort.checked_sub(1)?;
            let later = self.steps(then + period, then + 2 * period);
            if later.is_none() || self.steps(then, then + period) != later {
                search.differ.insert(period, then);
                return None;
            }
            steps.extend(later);
        }
        let is_alike = |now: &usize| {
            let found = self.steps(now - period, *now);
            found.is_some_and(|found| found == steps[(now - first) % period])
        };
        let rest = first + 3 * period..self.entries.len();
        let end = rest.clone().find(|now| !is_alike(now)).unwrap_or(rest.end);
        search.effort = search.effort.saturating_sub(end - first);
        Some(end)
    }
}

/// What has been found out about periods.
struct Search {
    /// For each period the last entry from which on three rounds were found to differ.
    differ: FxHashMap<usize, usize>,
    /// How many more entries may be compared.
    effort: usize,
}

/// The values that an entry uses.
pub(super) fn used(entry: &Entry) -> impl Iterator<Item = ValueId> {
    let (operands, other): (&[Operand], _) = match entry {
        Entry::Instr(instr) => (&instr.inputs, None),
        Entry::Free(value) | Entry::Output { value, .. } => (&[], Some(*value)),
        Entry::Input { .. } | Entry::Enter(_) | Entry::Exit(_) => (&[], None),
    };
    let value = |operand: &Operand| match operand {
        Operand::Value(value) => Some(*value),
        Operand::Scalar(_) => None,
    };
    operands.iter().filter_map(value).chain(other)
}

/// Whether two entries do the same, whatever values they use.
fn alike(a: &Entry, b: &Entry) -> bool {
    match (a, b) {
        (Entry::Instr(a), Entry::Instr(b)) => {
            let mut operands = a.inputs.iter().zip(&b.inputs);
            a.op == b.op
                && a.inputs.len() == b.inputs.len()
                && operands.all(|(a, b)| match (a, b) {
                    (Operand::Value(_), Operand::Value(_)) => true,
                    (a, b) => a == b,
                })
        }
        (Entry::Input { ty: a, .. }, Entry::Input { ty: b, .. }) => a == b,
        (Entry::Enter(a), Entry::Enter(b)) | (Entry::Exit(a), Entry::Exit(b)) => a == b,
        (Entry::Free(_), Entry::Free(_)) | (Entry::Output { .. }, Entry::Output { .. }) => true,
        _ => false,
    }
}

/// A number that entries which do the same share.
fn mark(entry: &Entry) -> u64 {
    let mut hasher = FxHasher::default();
    std::mem::discriminant(entry).hash(&mut hasher);
    match entry {
        Entry::Instr(instr) => (instr.op, instr.inputs.len()).hash(&mut hasher),
        Entry::Input { ty, .. } => ty.hash(&mut hasher),
        Entry::Enter(name) | Entry::Exit(name) => name.hash(&mut hasher),
        Entry::Free(_) | Entry::Output { .. } => {}
    }
    hasher.finish()
}
