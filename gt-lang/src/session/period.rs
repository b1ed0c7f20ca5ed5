//! Whether the stream of entries repeats, and where one repetition should end: segments of a loop
//! without reads or steps are cut at the same place in each round, so that each has the same
//! canonical key.
//!
//! Entries are compared by a hash of what they do and of how far back their operands lie, so that
//! rounds of a loop look alike although their values have other names. Sizes of dimensions are left
//! out, so rounds on batches of different sizes look alike as well. A period is known once as
//! many entries as it has repeated what came before them; it is forgotten at the first that does
//! not. Of nested loops the inner one is found first and lost where it ends, and then the outer one
//! is, which lasts.
//!
//! Signal scopes are left out: which of them stand on the tape depends on where it was cut.
//!
//! Guarantees: a constant number of steps an entry, whatever the stream; no allocation. It is a
//! guess: a wrong one moves the borders of segments and nothing else.

use std::hash::{Hash, Hasher};

use gt_ir::tape::Operands;
use gt_ir::{Op, Operand, Type, ValueId};

/// Entries after which a segment is submitted without a read: enough to keep a message's cost
/// small, few enough that the worker starts early. Only a stream known to repeat itself, or one of
/// micro-batches, is held back for longer.
pub(super) const SEGMENT_ENTRIES: usize = 512;
/// The longest period found, and the most entries held back for one.
pub(super) const MAX_PERIOD: usize = 1 << 14;
/// Entries remembered: two periods.
const KEPT: usize = 2 * MAX_PERIOD;
/// Entries that have to be alike before the rest is compared.
const GRAM: usize = 8;
/// Slots for where stretches of that length were seen last.
const SLOTS: usize = 1 << 14;
/// What a period has to repeat at least: shorter agreement is chance.
const MIN_RUN: usize = 32;
/// Steps an entry earns for comparing what came before it.
const EARNED: usize = 8;
/// Operands further back than this are all alike: they were there before the loop.
const NEAR: u64 = 64;

/// What is remembered of a boundary that the program makes.
const MARK: u32 = 1 << 2;
/// The low bits of what is remembered of an entry: by how much it changes the number of live
/// values, plus one.
const DELTA: u32 = 3;

/// Finds periods.
pub(super) struct Periods {
    /// What the last [`KEPT`] entries were.
    kept: Box<[u32]>,
    /// Where each stretch was seen last, plus one; positions count from the beginning and wrap.
    last: Box<[u32]>,
    /// Number of entries seen.
    seen: u64,
    /// Number of entries whose stretches are in `last`, and the hash of the stretch that ends
    /// there.
    noted: u64,
    gram: u64,
    /// Where noting began.
    from: u64,
    credit: usize,
    /// Where the program last made a boundary.
    marked: u64,
    state: Repetition,
}

/// Whether the stream is known to repeat.
#[derive(Clone, Copy)]
enum Repetition {
    Nothing,
    /// So many of the last entries are what they were one period earlier.
    Maybe {
        period: usize,
        run: usize,
    },
    /// The stream repeats itself; the next round ends there, or where the program says.
    Known {
        period: usize,
        next: u64,
    },
}

impl Periods {
    pub(super) fn new() -> Periods {
        Periods {
            kept: vec![0; KEPT].into(),
            last: vec![0; SLOTS].into(),
            seen: 0,
            noted: 0,
            gram: 0,
            from: 0,
            credit: 0,
            marked: 0,
            state: Repetition::Nothing,
        }
    }

    /// The period the stream follows.
    #[cfg(test)]
    pub(super) fn known(&self) -> Option<usize> {
        match self.state {
            Repetition::Known { period, .. } => Some(period),
            Repetition::Nothing | Repetition::Maybe { .. } => None,
        }
    }

    /// `None` if no better place to end a segment is known to come; else whether the `held` entries
    /// not yet submitted should end here, where a round ends. Short rounds share a segment.
    pub(super) fn is_due(&mut self, held: usize) -> Option<bool> {
        match &mut self.state {
            Repetition::Known { period, next } if self.seen >= *next => {
                *next += *period as u64;
                Some(held + *period > SEGMENT_ENTRIES)
            }
            Repetition::Known { .. } => Some(false),
            // A boundary of the program is in sight if the stream goes on like this.
            Repetition::Maybe { period, run }
                if *run >= MIN_RUN && self.seen - self.marked < *period as u64 =>
            {
                Some(false)
            }
            Repetition::Maybe { .. } | Repetition::Nothing => None,
        }
    }

    /// An instruction about to define `out`.
    #[inline]
    pub(super) fn instr(&mut self, op: &Op, inputs: &Operands, out: u64) {
        let mut hash = EntryHasher(inputs.len() as u64);
        op.hash(&mut hash);
        for operand in inputs {
            hash.write_u64(match operand {
                Operand::Value(id) => near(out, *id) << 3,
                Operand::Scalar(scalar) => (scalar.weak_dtype() as u64) << 3 | 1,
            });
        }
        self.entry(hash.0, 1);
    }

    pub(super) fn input(&mut self, ty: &Type) {
        let mut hash = EntryHasher(2);
        ty.hash(&mut hash);
        self.entry(hash.0, 1);
    }

    #[inline]
    pub(super) fn free(&mut self, value: ValueId, next_value: u64) {
        let mut hash = EntryHasher(3);
        hash.write_u64(near(next_value, value));
        self.entry(hash.0, -1);
    }

    /// A boundary that the program makes: a read, a step.
    pub(super) fn mark(&mut self) {
        self.take(MARK | 1);
        self.marked = self.seen;
    }

    #[inline]
    fn entry(&mut self, hash: u64, delta: i32) {
        // The highest bit keeps entries apart from marks.
        let word = (hash >> 32) as u32 | 1 << 31;
        self.take(word & !DELTA | (delta + 1) as u32);
    }

    /// Remembers an entry.
    #[inline]
    fn take(&mut self, word: u32) {
        let at = self.seen;
        self.kept[at as usize % KEPT] = word;
        self.seen += 1;
        self.credit = (self.credit + EARNED).min(4 * KEPT);
        let (Repetition::Maybe { period, .. } | Repetition::Known { period, .. }) = self.state
        else {
            return self.look(at);
        };
        if self.at(at - period as u64) != word {
            self.state = Repetition::Nothing;
            return self.look(at);
        }
        if let Repetition::Maybe { run, .. } = &mut self.state {
            *run += 1;
            if *run >= period.max(MIN_RUN) {
                self.settle(period);
            }
        }
    }

    /// What is remembered of the entry at a position.
    const fn at(&self, position: u64) -> u32 {
        self.kept[position as usize % KEPT]
    }

    /// Looks for an earlier stretch like the one that ends here.
    fn look(&mut self, at: u64) {
        let Some(period) = self.note(at) else { return };
        let reach = (at + 1).saturating_sub(period as u64).min(KEPT as u64 - period as u64);
        let reach = (reach as usize).min(period.max(MIN_RUN));
        if self.credit < 2 * reach {
            return;
        }
        let same = |back: &usize| {
            let position = at - *back as u64;
            self.at(position) == self.at(position - period as u64)
        };
        let run = (0..reach).take_while(same).count();
        self.credit -= 2 * run;
        if run >= period.max(MIN_RUN) {
            self.settle(period);
        } else if run >= GRAM {
            self.state = Repetition::Maybe { period, run };
        }
    }

    /// Notes the stretches that end up to here, and gives the distance to the last one that was
    /// like the last of them.
    fn note(&mut self, at: u64) -> Option<usize> {
        const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
        const OLDEST: u64 = {
            let (mut power, mut i) = (1_u64, 0);
            while i < GRAM {
                power = power.wrapping_mul(BASE);
                i += 1;
            }
            power
        };
        // What was forgotten meanwhile is not noted any more.
        let oldest = (at + 1).saturating_sub((KEPT - GRAM) as u64);
        if self.noted < oldest {
            (self.noted, self.from, self.gram) = (oldest, oldest, 0);
        }
        let mut before = 0;
        while self.noted <= at {
            let position = self.noted;
            let gone = if position >= self.from + GRAM as u64 {
                self.at(position - GRAM as u64)
            } else {
                0
            };
            self.gram = self
                .gram
                .wrapping_mul(BASE)
                .wrapping_add(self.at(position).into())
                .wrapping_sub(OLDEST.wrapping_mul(gone.into()));
            let slot = &mut self.last[(self.gram >> 50) as usize % SLOTS];
            self.noted += 1;
            before = std::mem::replace(slot, self.noted as u32);
        }
        let distance = (self.noted as u32).wrapping_sub(before) as usize;
        (before != 0 && distance <= MAX_PERIOD && at as usize >= distance + GRAM)
            .then_some(distance)
    }

    /// The stream has this period: finds where rounds should end.
    fn settle(&mut self, period: usize) {
        let start = self.seen - period as u64;
        let (mut live, mut least, mut best) = (0, i64::MAX, None);
        for position in start..self.seen {
            let word = self.at(position);
            if word & !DELTA == MARK {
                best = None;
                break;
            }
            live += i64::from(word & DELTA) - 1;
            if live < least {
                (least, best) = (live, Some(position + 1 + period as u64));
            }
        }
        self.state = Repetition::Known { period, next: best.unwrap_or(u64::MAX) };
    }
}

/// How far back a value lies, if that says anything.
#[inline]
const fn near(from: u64, value: ValueId) -> u64 {
    let distance = from.wrapping_sub(value.0);
    if distance <= NEAR { distance } else { 0 }
}

/// Firefox's hash: one multiplication a word. Equal ones are compared no further, and need not be.
struct EntryHasher(u64);

impl Hasher for EntryHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Sizes: rounds on batches of different sizes are alike.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::testing::Source;

    use super::*;

    /// The entries of a loop body, as hashes with what they do to the number of live values.
    fn body(source: &mut Source<'_>, n: usize) -> Vec<(u64, i32)> {
        (0..n).map(|i| (source.bits(), if i % 2 == 0 { 1 } else { -1 })).collect()
    }

    fn feed(periods: &mut Periods, entries: &[(u64, i32)]) {
        entries.iter().for_each(|(hash, delta)| periods.entry(*hash, *delta));
    }

    #[test]
    fn periods_of_any_length_are_found_in_two_rounds() {
        let mut source = Source::from_seed(1);
        for n in [1, 2, 3, 7, 64, 513, 2000, 8192, 16_000] {
            let mut periods = Periods::new();
            let noise = body(&mut source, 1000);
            let round = body(&mut source, n);
            feed(&mut periods, &noise);
            for _ in 0..2 + 2 * MIN_RUN / n {
                feed(&mut periods, &round);
            }
            feed(&mut periods, &round[..n.min(GRAM)]);
            assert_eq!(periods.known(), Some(n));
            feed(&mut periods, &noise[..1]);
            assert_eq!(periods.known(), None);
        }
    }

    #[test]
    fn the_outer_of_nested_loops_wins() {
        let mut source = Source::from_seed(2);
        let (inner, outer) = (body(&mut source, 90), body(&mut source, 300));
        let mut periods = Periods::new();
        for round in 0..6 {
            for _ in 0..8 {
                feed(&mut periods, &inner);
            }
            feed(&mut periods, &outer);
            if round >= 3 {
                assert_eq!(periods.known(), Some(8 * 90 + 300), "round {round}");
            }
        }
    }

    #[test]
    fn rounds_are_cut_where_little_is_alive() {
        let mut source = Source::from_seed(3);
        let deltas = (0..600).map(|i| if (i + 450) % 600 < 300 { 1 } else { -1 });
        let round: Vec<(u64, i32)> = deltas.map(|delta| (source.bits(), delta)).collect();
        let mut periods = Periods::new();
        let mut cuts = Vec::new();
        for i in 0..3000 {
            feed(&mut periods, &round[i % 600..=i % 600]);
            if periods.is_due(600) == Some(true) {
                cuts.push(i + 1);
            }
        }
        // Values pile up from entry 150 of a round on, and are gone 600 entries later.
        assert_eq!(cuts, [1350, 1950, 2550]);
    }

    #[test]
    fn boundaries_of_the_program_are_enough() {
        let mut source = Source::from_seed(4);
        let round = body(&mut source, 900);
        let mut periods = Periods::new();
        for _ in 0..5 {
            feed(&mut periods, &round);
            periods.mark();
        }
        assert_eq!(periods.known(), Some(901));
        feed(&mut periods, &round);
        assert_eq!(periods.is_due(900), Some(false));
    }

    /// Streams made to repeat and break at the worst places take a bounded number of steps an
    /// entry: this would not end.
    #[test]
    fn no_stream_is_expensive() {
        let mut source = Source::from_seed(5);
        let pieces: Vec<_> = [1, 2, 40, 4000].map(|n| body(&mut source, n)).into();
        let mut periods = Periods::new();
        let mut entries = 0;
        while entries < 3_000_000 {
            let piece = &pieces[source.below(4)];
            let n = 1 + source.below(piece.len());
            feed(&mut periods, &piece[piece.len() - n..]);
            feed(&mut periods, &piece[..n]);
            entries += 2 * n;
        }
    }
}
