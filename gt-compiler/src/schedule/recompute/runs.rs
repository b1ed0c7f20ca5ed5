//! The runs of all steps if some values are given up, and the memory that they take.

use smallvec::SmallVec;

use super::{Gone, Run, Space};
use crate::schedule::BufferId;

/// Steps within which results of a step are needed that are worth making again together.
const NEAR: usize = 8;

impl Space<'_> {
    /// The runs of all steps if these buffers are given up.
    pub(super) fn lay(&self, gone: &Gone) -> Laid {
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
pub(super) struct Laid {
    pub(super) runs: Vec<Run>,
    /// For each run, the step before which it stands or which it is.
    pub(super) times: Vec<usize>,
    /// For each buffer, that of the steps which it is.
    pub(super) of: Vec<BufferId>,
    /// For each run, the buffers that it uses.
    pub(super) used: Vec<SmallVec<[BufferId; 4]>>,
    /// For each buffer, the first and the last run that use it.
    pub(super) lives: Vec<Option<(usize, usize)>>,
    /// Bytes in use at each run.
    pub(super) live: Vec<usize>,
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
    pub(super) fn peak(&self) -> (usize, usize) {
        let most = self.live.iter().copied().max().unwrap_or(0);
        (self.live.iter().position(|live| *live == most).unwrap_or(0), most)
    }

    /// Whether these runs need less memory than others: at their peak, or beyond the budget.
    pub(super) fn improves(&self, other: &Laid, budget: usize) -> bool {
        let excess = |laid: &Laid| {
            laid.live.iter().map(|live| live.saturating_sub(budget) as u128).sum::<u128>()
        };
        let (ours, theirs) = (self.peak().1, other.peak().1);
        ours < theirs || ours == theirs && excess(self) < excess(other)
    }
}
