//! Rematerialization: values that a plan makes again where they are needed late, in place of
//! keeping them from their first use to their last.
//!
//! Works on steps that name what they read and make, and knows no engine. Greedy, as XLA's pass of
//! this name and the heuristic of Dynamic Tensor Rematerialization (Kirisame et al., 2021): at the
//! step where most memory is in use, the values that nobody uses there are given up, those first
//! that cost the least work for their bytes; they are made again before their next use, from what
//! is there then.
//!
//! Guarantees: deterministic; its work is bounded by counts; the steps that make the memory fit, or
//! else the best ones found. A step runs again with the operands of its first run, so results keep
//! their bits. A step that can fail runs once.

mod choose;
mod runs;

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::piece::BufferId;

/// Times that values are given up, at most.
const ROUNDS: usize = 400;
/// The part of the missing bytes that is given up at a time, because what is given up changes what
/// is best to give up next.
const PART: usize = 64;

/// A step of a plan, as far as running it again is concerned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// The results that other steps read, or that are results of the plan.
    pub(crate) makes: SmallVec<[Make; 2]>,
    /// Whether it may run more than once.
    pub(crate) repeats: bool,
}

/// What it takes to make one result of a step, of which it may read other results.
#[derive(Clone, Debug)]
pub(crate) struct Make {
    pub(crate) out: BufferId,
    pub(crate) reads: Vec<BufferId>,
    /// The parts of the step that lead to it, by number, with their work in elements, about.
    pub(crate) parts: Vec<(usize, usize)>,
}

/// A run of a step.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) step: usize,
    /// Whether it is not the first run of its step.
    pub(crate) again: bool,
    /// The results it makes: all of them in its first run.
    pub(crate) makes: SmallVec<[BufferId; 2]>,
    /// The buffers that it uses in place of the step's own.
    pub(crate) names: SmallVec<[(BufferId, BufferId); 4]>,
}

/// The runs of all steps, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub(crate) runs: Vec<Run>,
    /// Bytes of each buffer, those of the steps first.
    pub(crate) sizes: Vec<usize>,
}

/// The bytes that a run of these steps needs at a time, beside `kept` buffers, if nothing is made
/// again.
#[cfg(test)]
fn peak(steps: &[Step], sizes: &[usize], kept: &[bool]) -> usize {
    Space::new(steps, sizes, kept).lay(&Gone::new()).peak().1
}

/// The runs of `steps` that need at most `budget` bytes at a time, or as few as can be; `None`
/// where nothing can be saved. `kept` buffers have memory of their own: inputs and results.
pub(crate) fn recompute(
    steps: &[Step],
    sizes: &[usize],
    kept: &[bool],
    budget: usize,
) -> Option<Runs> {
    let space = Space::new(steps, sizes, kept);
    let (mut gone, mut refused) = (Gone::new(), Gone::new());
    let mut best = space.lay(&gone);
    for _ in 0..ROUNDS {
        let (at, peak) = best.peak();
        if peak <= budget {
            break;
        }
        let known = |key: &(usize, BufferId)| gone.contains(key) || refused.contains(key);
        let mut chosen = space.choose(&best, at, (peak - budget).div_ceil(PART), &known);
        let found = loop {
            let mut all = gone.clone();
            chosen.iter().for_each(|choice| all.extend(&choice.gone));
            let laid = space.lay(&all);
            match chosen.len() {
                0 => break None,
                _ if laid.improves(&best, budget) => break Some((all, laid)),
                1 => {
                    refused.extend(chosen[0].gone.first());
                    break None;
                }
                n => chosen.truncate(n / 2),
            }
        };
        match found {
            Some((all, laid)) => (gone, best) = (all, laid),
            None if chosen.is_empty() => break,
            None => {}
        }
    }
    (!gone.is_empty()).then(|| Runs {
        sizes: best.of.iter().map(|of| sizes[of.index()]).collect(),
        runs: best.runs,
    })
}

/// Buffers that are given up, each behind a step that uses it.
type Gone = BTreeSet<(usize, BufferId)>;

struct Space<'a> {
    steps: &'a [Step],
    sizes: &'a [usize],
    kept: &'a [bool],
    /// The step that makes each buffer; `None` for inputs, and for buffers of several steps.
    maker: Vec<Option<usize>>,
    /// The steps that use each buffer, in order.
    users: Vec<Vec<usize>>,
    /// The buffers that are made of each buffer.
    readers: Vec<Vec<BufferId>>,
}

impl<'a> Space<'a> {
    fn new(steps: &'a [Step], sizes: &'a [usize], kept: &'a [bool]) -> Space<'a> {
        let mut maker = vec![None; sizes.len()];
        let mut several = vec![false; sizes.len()];
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); sizes.len()];
        for (at, step) in steps.iter().enumerate() {
            for make in &step.makes {
                let out = make.out.index();
                several[out] |= maker[out].is_some_and(|other| other != at);
                maker[out] = Some(at);
            }
            for used in step.makes.iter().flat_map(|make| make.reads.iter().chain([&make.out])) {
                let users = &mut users[used.index()];
                if users.last() != Some(&at) {
                    users.push(at);
                }
            }
        }
        let alone = maker.into_iter().zip(several).map(|(m, several)| m.filter(|_| !several));
        let mut readers = vec![Vec::new(); sizes.len()];
        for make in steps.iter().flat_map(|step| &step.makes) {
            make.reads.iter().for_each(|read| readers[read.index()].push(make.out));
        }
        Space { steps, sizes, kept, maker: alone.collect(), users, readers }
    }

    /// What it takes to make a buffer again, if that is possible.
    fn make(&self, buffer: BufferId) -> Option<(usize, &Make)> {
        let at = self.maker[buffer.index()].filter(|at| self.steps[*at].repeats)?;
        let make = self.steps[at].makes.iter().find(|make| make.out == buffer)?;
        (!self.kept[buffer.index()]).then_some((at, make))
    }

    /// What the making of a buffer reads.
    fn reads_of(&self, buffer: BufferId) -> impl Iterator<Item = BufferId> {
        let at = self.maker[buffer.index()];
        let makes = at.into_iter().flat_map(|at| &self.steps[at].makes);
        makes.filter(move |make| make.out == buffer).flat_map(|make| make.reads.iter().copied())
    }

    /// The last step before `time` that uses a buffer.
    fn last_use(&self, buffer: BufferId, time: usize) -> Option<usize> {
        let users = &self.users[buffer.index()];
        users[..users.partition_point(|user| *user < time)].last().copied()
    }

    /// The next step from `time` on that uses a buffer.
    fn next_use(&self, buffer: BufferId, time: usize) -> Option<usize> {
        let users = &self.users[buffer.index()];
        users.get(users.partition_point(|user| *user < time)).copied()
    }
}

#[cfg(test)]
mod tests;
