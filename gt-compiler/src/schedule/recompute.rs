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

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::piece::BufferId;

/// Times that values are given up, at most.
const ROUNDS: usize = 400;
/// The part of the missing bytes that is given up at a time, because what is given up changes what
/// is best to give up next.
const PART: usize = 64;
/// Steps within which results of a step are needed that are worth making again together.
const NEAR: usize = 8;
/// Values that are made again for one, at most.
const CHAIN: usize = 100;

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

/// A value that may be given up, first of `gone`, and what is given up with it.
struct Choice {
    gone: SmallVec<[(usize, BufferId); 2]>,
    /// Bytes that it frees.
    bytes: usize,
    /// Work to make it again.
    work: usize,
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

    /// The runs of all steps if these buffers are given up.
    fn lay(&self, gone: &Gone) -> Laid {
        let mut walk = Walk { space: self, now: Vec::new(), laid: Laid::default() };
        walk.now = (0..self.sizes.len() as u32).map(|b| Some(BufferId(b))).collect();
        walk.laid.of = (0..self.sizes.len() as u32).map(BufferId).collect();
        for (at, step) in self.steps.iter().enumerate() {
            step.makes.iter().flat_map(|make| &make.reads).for_each(|b| walk.ensure(*b, at));
            walk.run((at, false), step.makes.iter().map(|make| make.out).collect(), at);
            let here = (at, BufferId(0))..=(at, BufferId(u32::MAX));
            gone.range(here).for_each(|(_, b)| walk.now[b.index()] = None);
        }
        walk.laid.measure(self);
        walk.laid
    }

    /// The values to give up where `laid` uses most memory, the cheapest first, as many as free the
    /// `excess`.
    fn choose(
        &self,
        laid: &Laid,
        at: usize,
        excess: usize,
        known: &dyn Fn(&(usize, BufferId)) -> bool,
    ) -> Vec<Choice> {
        let mut moment =
            Moment { time: laid.times[at], alive: vec![false; self.sizes.len()], known };
        let mut next = vec![at; self.sizes.len()];
        for (run, names) in laid.used.iter().enumerate().skip(at).rev() {
            names.iter().for_each(|name| next[laid.of[name.index()].index()] = run);
        }
        for (of, life) in laid.of.iter().zip(&laid.lives) {
            moment.alive[of.index()] |= life.is_some_and(|(first, last)| first < at && at < last);
        }
        let over = (0..self.sizes.len()).filter(|b| moment.alive[*b] && next[*b] > at);
        let rated = over.filter_map(|b| {
            let choice = self.choice(BufferId(b as u32), &moment)?;
            let worth = choice.bytes as f64 * (next[b] - at) as f64;
            Some((worth / (choice.work as f64 + 1.0), choice))
        });
        let mut rated: Vec<(f64, Choice)> = rated.collect();
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.gone.cmp(&b.1.gone)));
        let mut freed = 0;
        let enough = rated.into_iter().map(|(_, choice)| choice).take_while(|choice| {
            let more = freed < excess;
            freed += choice.bytes;
            more
        });
        enough.collect()
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

    /// A buffer that is given up at a moment. What is needed to make it again and is not alive then
    /// is made again, too, or kept where that is impossible. Its work counts, and so does that of
    /// values given up before which are made of it: they wait for it. Work that is done again
    /// anyway counts nothing.
    fn choice(&self, buffer: BufferId, moment: &Moment<'_>) -> Option<Choice> {
        let (own, _) = self.make(buffer)?;
        let mut parts = Parts::default();
        let siblings = self.steps[own].makes.iter().filter(|make| self.is_gone(make.out, moment));
        siblings.for_each(|make| parts.add(own, make));
        parts.work = 0;
        let (mut gone, mut bytes) = (SmallVec::new(), self.sizes[buffer.index()]);
        let mut needed = Reached::from(buffer);
        while let Some(next) = needed.next() {
            let key = (self.last_use(next, moment.time)?, next);
            let is_known = (moment.known)(&key);
            if next == buffer && is_known || needed.is_full() {
                return None;
            }
            let Some((step, make)) = self.make(next) else {
                bytes = bytes.checked_sub(self.sizes[next.index()])?;
                continue;
            };
            if !is_known {
                gone.push(key);
            }
            parts.add(step, make);
            let is_lost = |b: &&BufferId| !self.kept[b.index()] && !moment.alive[b.index()];
            make.reads.iter().filter(is_lost).for_each(|b| needed.reach(*b));
        }
        let mut waiting = Reached::from(buffer);
        while let Some(next) = waiting.next().filter(|_| !waiting.is_full()) {
            for &reader in &self.readers[next.index()] {
                if let Some((step, make)) =
                    self.make(reader).filter(|_| self.is_gone(reader, moment))
                {
                    parts.add(step, make);
                    waiting.reach(reader);
                }
            }
        }
        (bytes > 0).then_some(Choice { gone, bytes, work: parts.work })
    }

    /// Whether a buffer is given up at a moment: it was there, and will be.
    fn is_gone(&self, buffer: BufferId, moment: &Moment<'_>) -> bool {
        !moment.alive[buffer.index()]
            && self.maker[buffer.index()].is_some_and(|made| made < moment.time)
            && self.users[buffer.index()].last().is_some_and(|last| *last >= moment.time)
    }

    /// The next step from `time` on that uses a buffer.
    fn next_use(&self, buffer: BufferId, time: usize) -> Option<usize> {
        let users = &self.users[buffer.index()];
        users.get(users.partition_point(|user| *user < time)).copied()
    }
}

/// Buffers that are reached from one, each once, in order.
struct Reached {
    buffers: SmallVec<[BufferId; 16]>,
    at: usize,
}

impl Reached {
    fn from(buffer: BufferId) -> Reached {
        Reached { buffers: SmallVec::from_slice(&[buffer]), at: 0 }
    }

    fn next(&mut self) -> Option<BufferId> {
        self.at += 1;
        self.buffers.get(self.at - 1).copied()
    }

    fn reach(&mut self, buffer: BufferId) {
        if !self.buffers.contains(&buffer) {
            self.buffers.push(buffer);
        }
    }

    /// Whether so many are reached that no more are looked at.
    fn is_full(&self) -> bool {
        self.at > CHAIN
    }
}

/// The parts of steps that run again for a value, and their work.
#[derive(Default)]
struct Parts {
    seen: BTreeSet<(usize, usize)>,
    work: usize,
}

impl Parts {
    /// Adds the parts for a result that are not among them.
    fn add(&mut self, step: usize, make: &Make) {
        for (part, work) in &make.parts {
            if self.seen.insert((step, *part)) {
                self.work = self.work.saturating_add(*work);
            }
        }
    }
}

/// When values are to be given up.
struct Moment<'a> {
    /// The step that runs then, or before which another runs again.
    time: usize,
    /// The buffers that are in memory then.
    alive: Vec<bool>,
    /// Whether a buffer is given up already behind a step, or cannot be.
    known: &'a dyn Fn(&(usize, BufferId)) -> bool,
}

/// The runs under way.
struct Walk<'a> {
    space: &'a Space<'a>,
    /// The name of each buffer of the steps; none of one that is given up.
    now: Vec<Option<BufferId>>,
    laid: Laid,
}

impl Walk<'_> {
    /// Makes a buffer again if it is given up, and before it what it is made of.
    fn ensure(&mut self, buffer: BufferId, time: usize) {
        let mut stack = vec![buffer];
        while let Some(&top) = stack.last() {
            let space = self.space;
            let made = self.now[top.index()].map_or_else(|| space.make(top), |_| None);
            let Some((at, _)) = made else {
                stack.pop();
                continue;
            };
            // Another result that needs more than is there would be waited for by this one.
            let is_there = |b: BufferId| b == top || self.now[b.index()].is_some();
            let is_soon = |out: BufferId| {
                let next = space.next_use(out, time);
                out == top
                    || next.is_some_and(|next| next <= time + NEAR)
                        && space.reads_of(out).all(is_there)
            };
            let outs: SmallVec<[BufferId; 2]> = space.steps[at]
                .makes
                .iter()
                .map(|make| make.out)
                .filter(|out| self.now[out.index()].is_none() && is_soon(*out))
                .collect();
            let missing = outs.iter().flat_map(|out| space.reads_of(*out));
            let mut missing = missing.filter(|b| !outs.contains(b));
            let missing = missing.find(|b| self.now[b.index()].is_none());
            match missing {
                Some(operand) => stack.push(operand),
                None => {
                    for out in &outs {
                        self.now[out.index()] = Some(BufferId(self.laid.of.len() as u32));
                        self.laid.of.push(*out);
                    }
                    self.run((at, true), outs, time);
                    stack.pop();
                }
            }
        }
    }

    fn run(&mut self, (step, again): (usize, bool), makes: SmallVec<[BufferId; 2]>, time: usize) {
        let own = self.space.steps[step].makes.iter().filter(|make| makes.contains(&make.out));
        let own = own.flat_map(|make| make.reads.iter().copied().chain([make.out]));
        let own: SmallVec<[BufferId; 4]> = own.collect();
        let named = own.iter().map(|b| (*b, self.now[b.index()].unwrap_or(*b)));
        let mut names: SmallVec<[(BufferId, BufferId); 4]> = SmallVec::new();
        for (own, name) in named.clone().filter(|(own, name)| own != name) {
            if !names.contains(&(own, name)) {
                names.push((own, name));
            }
        }
        self.laid.used.push(named.map(|(_, name)| name).collect());
        self.laid.runs.push(Run { step, again, makes, names });
        self.laid.times.push(time);
    }
}

/// The runs of all steps, and the memory that they take.
#[derive(Default)]
struct Laid {
    runs: Vec<Run>,
    /// For each run, the step before which it stands or which it is.
    times: Vec<usize>,
    /// For each buffer, that of the steps which it is.
    of: Vec<BufferId>,
    /// For each run, the buffers that it uses.
    used: Vec<SmallVec<[BufferId; 4]>>,
    /// For each buffer, the first and the last run that use it.
    lives: Vec<Option<(usize, usize)>>,
    /// Bytes in use at each run.
    live: Vec<usize>,
}

impl Laid {
    fn measure(&mut self, space: &Space<'_>) {
        self.lives = vec![None; self.of.len()];
        for (at, used) in self.used.iter().enumerate() {
            for name in used {
                self.lives[name.index()].get_or_insert((at, at)).1 = at;
            }
        }
        let mut change = vec![0isize; self.runs.len() + 1];
        for (of, life) in self.of.iter().zip(&self.lives) {
            if let (Some((first, last)), false) = (life, space.kept[of.index()]) {
                change[*first] += space.sizes[of.index()] as isize;
                change[last + 1] -= space.sizes[of.index()] as isize;
            }
        }
        let mut bytes = 0;
        self.live = change[..self.runs.len()]
            .iter()
            .map(|change| {
                bytes += change;
                bytes as usize
            })
            .collect();
    }

    /// The first run with the most bytes in use, and those bytes.
    fn peak(&self) -> (usize, usize) {
        let most = self.live.iter().copied().max().unwrap_or(0);
        (self.live.iter().position(|live| *live == most).unwrap_or(0), most)
    }

    /// Whether these runs need less memory than others: at their peak, or beyond the budget.
    fn improves(&self, other: &Laid, budget: usize) -> bool {
        let excess = |laid: &Laid| {
            laid.live.iter().map(|live| live.saturating_sub(budget) as u128).sum::<u128>()
        };
        let (ours, theirs) = (self.peak().1, other.peak().1);
        ours < theirs || ours == theirs && excess(self) < excess(other)
    }
}

#[cfg(test)]
mod tests;
