//! Spans: the rounds that are left out of each run, so that what is left belongs together. Where
//! the gradients of a layer are left out, so are its forward pass and its updates.

use std::collections::BTreeMap;

use super::runs::{Run, Source, Wires};

/// The rounds of a run that are left out, at least one after the first and one before the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) run: Run,
    pub(super) from: usize,
    /// How many; the same for all runs.
    pub(super) n: usize,
    /// Whether the rounds come in the order of the main run's, or in the opposite order.
    forwards: bool,
}

impl Span {
    /// The round that stands for those that are left out. It is a round of the same layer in all
    /// runs.
    fn stand_in(&self) -> usize {
        if self.forwards { self.from - 1 } else { self.from + self.n }
    }
}

/// The runs of which rounds are left out.
pub(super) struct Spans(Vec<Span>);

/// How the rounds of one run follow from those of another: by their order, and by the round that
/// belongs to round 0.
#[derive(Clone, Copy)]
pub(super) struct Link {
    forwards: bool,
    offset: isize,
}

impl Spans {
    /// Leaves `n` rounds out of the run `main` and of the runs that belong to it; none if one of
    /// them has too few.
    pub(super) fn new(runs: &[Run], links: &Links, (main, n): (usize, usize)) -> Option<Spans> {
        let from = runs[main].times.checked_sub(n)? / 2;
        let mut spans = BTreeMap::from([(main, Span { run: runs[main], from, n, forwards: true })]);
        let mut open = vec![main];
        while let Some(at) = open.pop() {
            let Span { from, forwards, .. } = spans[&at];
            for (&(_, other), link) in links.range((at, 0)..(at + 1, 0)) {
                let last = from as isize + n as isize - 1;
                let first = match link.forwards {
                    true => link.offset + from as isize,
                    false => link.offset - last,
                };
                let span = Span {
                    run: runs[other],
                    from: usize::try_from(first).ok()?,
                    n,
                    forwards: forwards == link.forwards,
                };
                match spans.insert(other, span) {
                    None => open.push(other),
                    Some(known) if known != span => return None,
                    Some(_) => {}
                }
            }
        }
        let fits = |span: &Span| span.from > 0 && span.from + n < span.run.times;
        let spans: Vec<Span> = spans.into_values().collect();
        spans.iter().all(fits).then_some(Spans(spans))
    }

    /// The span of a run that has an entry.
    fn of(&self, entry: usize) -> Option<&Span> {
        let after = self.0.partition_point(|span| span.run.first <= entry);
        self.0[..after].last().filter(|span| entry < span.run.end())
    }

    /// The span that leaves an entry out, and the entry's round.
    fn without(&self, entry: usize) -> Option<(&Span, usize)> {
        let span = self.of(entry)?;
        let round = span.run.round(entry);
        (span.from..span.from + span.n).contains(&round).then_some((span, round))
    }

    pub(super) fn leave_out(&self, entry: usize) -> bool {
        self.without(entry).is_some()
    }

    /// Whether an entry is one of a block.
    pub(super) fn contain(&self, entry: usize) -> bool {
        self.of(entry).is_some()
    }

    /// The entry that stands for an entry: itself, if it is not left out.
    pub(super) fn stand_in(&self, entry: usize) -> usize {
        let Some((span, round)) = self.without(entry) else { return entry };
        let moved = (span.stand_in() as isize - round as isize) * span.run.period as isize;
        entry.wrapping_add_signed(moved)
    }

    /// The entry that takes the place of one in a layer beside those that are left out: the layers
    /// on both sides become neighbors. None if the run has no such entry.
    pub(super) fn neighbor(&self, entry: usize) -> Option<usize> {
        let Some((span, round)) = self.without(entry) else { return Some(entry) };
        let all = span.n * span.run.period;
        let is_near_first = round - span.from < span.from + span.n - 1 - round;
        let near = if is_near_first { entry + all } else { entry.checked_sub(all)? };
        (span.run.first..span.run.end()).contains(&near).then_some(near)
    }
}

/// How pairs of runs belong together, by their numbers.
pub(super) type Links = BTreeMap<(usize, usize), Link>;

/// How runs belong together, by the values that a round in the middle of each uses.
pub(super) fn links(wires: &Wires<'_>, runs: &[Run]) -> Links {
    let mut links = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        let round = run.times / 2;
        let first = run.first + round * run.period;
        for entry in first..first + run.period {
            let before = wires.sources(entry - run.period);
            for (then, now) in before.into_iter().zip(wires.sources(entry)) {
                let (Source::Entry(then), Source::Entry(now)) = (then, now) else { continue };
                let other = runs.partition_point(|other| other.first <= now);
                let Some(other) = other.checked_sub(1).filter(|o| now < runs[*o].end()) else {
                    continue;
                };
                let period = runs[other].period as isize;
                let step = now as isize - then as isize;
                if other == at || step.abs() != period {
                    continue;
                }
                let (forwards, there) = (step > 0, runs[other].round(now) as isize);
                let round = round as isize;
                let offset = if forwards { there - round } else { there + round };
                links.entry((at, other)).or_insert(Link { forwards, offset });
                let back = if forwards { -offset } else { offset };
                links.entry((other, at)).or_insert(Link { forwards, offset: back });
            }
        }
    }
    links
}
