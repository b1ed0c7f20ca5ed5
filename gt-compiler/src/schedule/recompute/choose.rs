//! Which values to give up: those that free most bytes for the longest time, for the least work.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::runs::Laid;
use super::{Make, Space};
use crate::schedule::BufferId;

/// Values that are made again for one, at most.
const CHAIN: usize = 100;

/// A value that may be given up, first of `gone`, and what is given up with it.
pub(super) struct Choice {
    pub(super) gone: SmallVec<[(usize, BufferId); 2]>,
    /// Bytes that it frees.
    bytes: usize,
    /// Work to make it again.
    work: usize,
}

impl Space<'_> {
    /// The values to give up where `laid` uses most memory, the cheapest first, as many as free the
    /// `excess`.
    pub(super) fn choose(
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
