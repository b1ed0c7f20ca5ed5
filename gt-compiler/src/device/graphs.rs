//! The graphs of one program: which one fits a call, and when to capture another.
//!
//! A graph holds the addresses it was captured with. Inputs that lie where they lay before
//! (parameters and optimizer state, updated in place) are *bound*: the graph reads and overwrites
//! them where they are. The others (batches) are *copied* into blocks of the graph's own before a
//! replay. A result that is not in place is made in a block of the graph's own, and that block
//! itself is lent out as the value; where the value of the last replay is still held when the next
//! one comes, the result is copied out from then on.
//!
//! This file decides; `replay` talks to the device.

use std::{collections::HashMap, sync::Arc};

use gt_ir::Scalar;
use smallvec::SmallVec;

use super::{
    gpu::Gpu,
    memory::{Charge, Memory, is_sole},
    plan::Plan,
};
use crate::{
    engine::Value,
    schedule::{BufferId, Found},
};

/// Runs step by step before a capture: the first may find its inputs wherever instructions left
/// them, the second is the first on the results of the first, the third is the first whose inputs
/// can be compared with those of a run like it. By then every function is loaded and every library
/// has its workspace, neither of which may happen during a capture.
const WARM: usize = 2;
/// Graphs of one program, for as many sets of bound addresses: sessions that share it.
const MOST_GRAPHS: usize = 4;
/// Captures a program may have for nothing; beyond, one for so many replays.
const FREE_CAPTURES: usize = 8;
const REPLAYS_A_CAPTURE: u64 = 64;
/// Runs whose addresses are remembered.
const HISTORY: usize = 8;
/// Inputs larger than this are never copied while their addresses may still settle.
const COPIED: usize = 32 << 20;

/// The graphs of a program, and what is known of its calls.
pub(super) struct Graphs<G: Gpu> {
    all: Vec<Captured<G>>,
    /// Addresses of the inputs of the last runs that were no replays.
    history: Vec<SmallVec<[u64; 8]>>,
    /// Runs that no graph fitted since one was captured; those of other sessions may lie between.
    misses: usize,
    captures: usize,
    replays: u64,
    /// Inputs found elsewhere while the others stayed.
    moving: Vec<bool>,
    /// Results that were still held when the next replay came, by buffer.
    pub(super) held: Vec<BufferId>,
    /// Why this program is not captured.
    refused: Option<String>,
    /// The reason told last.
    pub(super) told: String,
}

impl<G: Gpu> Default for Graphs<G> {
    fn default() -> Graphs<G> {
        Graphs {
            all: Vec::new(),
            history: Vec::new(),
            misses: 0,
            captures: 0,
            replays: 0,
            moving: Vec::new(),
            held: Vec::new(),
            refused: None,
            told: String::new(),
        }
    }
}

/// A graph, its memory, and the calls it fits.
pub(super) struct Captured<G: Gpu> {
    pub(super) graph: G::Graph,
    /// The way of each input into the graph.
    pub(super) feeds: Vec<Feed<G>>,
    /// The way of each buffer that is made for the caller out of the graph.
    pub(super) outs: Vec<Out<G>>,
    pub(super) words_at: u64,
    /// The numbers that the host handed to calls.
    pub(super) told: Vec<u64>,
    /// When it was last used, in runs of the engine.
    pub(super) used: u64,
    /// The memory of its temporary buffers and its words.
    pub(super) _arena: Option<Arc<G::Block>>,
    pub(super) _charge: Charge,
}

/// How an input gets into a graph.
pub(super) enum Feed<G: Gpu> {
    /// It lies there; `taken` when a result takes its memory.
    Bound { at: u64, taken: bool },
    /// It is copied there.
    Copied(Arc<G::Block>),
    /// No step reads it.
    Unread,
}

/// How a result gets out of a graph.
pub(super) enum Out<G: Gpu> {
    /// It is made in the memory of this input.
    InPlace(usize),
    /// It is made in this block, which is lent out.
    Lent(Arc<G::Block>),
    /// It is made in this block and copied out.
    Copied(Arc<G::Block>),
}

/// The choice of how to do a call.
pub(super) enum Choice {
    Replay(usize),
    Capture,
    /// Step by step; the reason, where it is not that the program is still warming up.
    Plain(Option<String>),
}

impl<G: Gpu> Graphs<G> {
    /// Decides about a call.
    pub(super) fn choose(
        &mut self,
        memory: &Memory<G>,
        plan: &Plan,
        inputs: &[&Value],
        scalars: &[Scalar],
    ) -> Choice {
        if let Some(n) = self.all.iter().position(|graph| graph.fits(plan, inputs, scalars)) {
            let Some(out) = self.all[n].conflict(memory, plan, inputs) else {
                self.replays += 1;
                return Choice::Replay(n);
            };
            self.all.remove(n);
            self.held.push(out);
            self.misses = WARM;
            return Choice::Plain(Some(
                "a result of the last replay is still held; it is copied out from now on".into(),
            ));
        }
        self.miss(inputs);
        if let Some(reason) = &self.refused {
            return Choice::Plain(Some(reason.clone()));
        }
        if self.misses <= WARM {
            let known = !self.all.is_empty();
            return Choice::Plain(known.then(|| "inputs lie elsewhere than in any graph".into()));
        }
        let spent = self.captures.saturating_sub(FREE_CAPTURES) as u64;
        if self.captures >= FREE_CAPTURES && spent >= self.replays / REPLAYS_A_CAPTURE {
            return Choice::Plain(Some("inputs move too often to be captured".into()));
        }
        Choice::Capture
    }

    fn miss(&mut self, inputs: &[&Value]) {
        self.misses += 1;
        self.moving.resize(inputs.len(), false);
        // If most inputs lie as in a graph, the others are the ones that move.
        let moved = |graph: &Captured<G>| graph.moved(inputs).count();
        if let Some(nearest) = self.all.iter().min_by_key(|graph| moved(graph)) {
            let bound = nearest.feeds.iter().filter(|f| matches!(f, Feed::Bound { .. })).count();
            if 2 * moved(nearest) <= bound || self.captures >= MOST_GRAPHS {
                for i in nearest.moved(inputs).collect::<SmallVec<[usize; 8]>>() {
                    self.moving[i] = true;
                }
            }
        }
    }

    /// Remembers where the inputs of a run lay.
    pub(super) fn note(&mut self, inputs: &[&Value]) {
        if self.history.len() == HISTORY {
            self.history.remove(0);
        }
        self.history.push(inputs.iter().map(|v| v.address() as u64).collect());
    }

    /// Which inputs a graph captured now would bind: those that lie where they lay in the most
    /// similar of the last runs.
    pub(super) fn bound(&self, plan: &Plan, inputs: &[&Value]) -> SmallVec<[bool; 8]> {
        let same = |old: &[u64], i: usize| old.get(i) == Some(&(inputs[i].address() as u64));
        let agreeing = |old: &&SmallVec<[u64; 8]>| {
            (0..inputs.len()).filter(|&i| same(old, i)).map(|i| 1 + plan.sizes[i]).sum::<usize>()
        };
        // The last of equals: the most recent.
        let nearest = self.history.iter().max_by_key(agreeing);
        let stays = |i: usize| nearest.is_some_and(|old| same(old, i)) && !self.moving[i];
        (0..inputs.len()).map(|i| stays(i) || plan.sizes[i] > COPIED).collect()
    }

    pub(super) fn get(&mut self, n: usize) -> &mut Captured<G> {
        &mut self.all[n]
    }

    /// Adds a graph, in place of the one used longest ago if there are many.
    pub(super) fn add(&mut self, graph: Captured<G>) -> usize {
        if self.all.len() >= MOST_GRAPHS {
            self.drop_oldest();
        }
        (self.misses, self.captures) = (0, self.captures + 1);
        self.all.push(graph);
        self.all.len() - 1
    }

    /// There was no memory for a graph: another attempt is made after some more runs, and counts as
    /// a capture.
    pub(super) fn postpone(&mut self) {
        (self.misses, self.captures) = (0, self.captures + 1);
    }

    pub(super) fn refuse(&mut self, reason: String) {
        self.refused = Some(reason);
    }

    /// When the graph used longest ago was used.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.all.iter().map(|graph| graph.used).min()
    }

    pub(super) fn drop_oldest(&mut self) {
        if let Some(n) = (0..self.all.len()).min_by_key(|&n| self.all[n].used) {
            self.all.remove(n);
        }
    }
}

impl<G: Gpu> Captured<G> {
    /// Whether the bound inputs lie where they are bound, those overwritten are nobody else's, and
    /// calls are told what they were told.
    fn fits(&self, plan: &Plan, inputs: &[&Value], scalars: &[Scalar]) -> bool {
        self.moved(inputs).next().is_none()
            && self.told.iter().copied().eq(plan.told(scalars))
            && self.feeds.iter().zip(inputs).all(|(feed, value)| match feed {
                Feed::Bound { taken: true, .. } => is_sole(value),
                Feed::Bound { taken: false, .. } | Feed::Copied(_) | Feed::Unread => true,
            })
    }

    fn moved<'a>(&'a self, inputs: &'a [&Value]) -> impl Iterator<Item = usize> + 'a {
        let feeds = self.feeds.iter().zip(inputs).enumerate();
        feeds.filter_map(|(i, (feed, value))| match feed {
            Feed::Bound { at, .. } => (*at != value.address() as u64).then_some(i),
            Feed::Copied(_) | Feed::Unread => None,
        })
    }

    /// A result whose block somebody holds, other than as an input that is copied before the block
    /// is written and not needed afterwards: not one that is a result itself, since what is handed
    /// out then is the input's block.
    fn conflict(&self, memory: &Memory<G>, plan: &Plan, inputs: &[&Value]) -> Option<BufferId> {
        let mut given: Option<HashMap<*const G::Block, usize>> = None;
        plan.layout.made.iter().zip(&self.outs).find_map(|(made, out)| {
            let Out::Lent(block) = out else { return None };
            let others = Arc::strong_count(block) - 1;
            if others == 0 {
                return None;
            }
            let given = given.get_or_insert_with(|| self.given_up(memory, plan, inputs));
            let n_given = given.get(&Arc::as_ptr(block)).copied().unwrap_or(0);
            (others > n_given).then_some(made.buffer)
        })
    }

    /// The blocks that inputs give up before results are made in them, and how many inputs do.
    fn given_up(
        &self,
        memory: &Memory<G>,
        plan: &Plan,
        inputs: &[&Value],
    ) -> HashMap<*const G::Block, usize> {
        let mut given = HashMap::new();
        // A run that may yet fail on its data has to leave its inputs as they are.
        if memory.needs_check(plan, inputs) {
            return given;
        }
        let mut stays: Vec<bool> =
            self.feeds.iter().map(|feed| matches!(feed, Feed::Bound { .. })).collect();
        for found in &plan.layout.found {
            if let Found::Given(i) = found {
                stays[*i] = true;
            }
        }
        for (i, input) in inputs.iter().enumerate() {
            if plan.donated[i]
                && !stays[i]
                && is_sole(input)
                && let Ok(held) = memory.resident(input)
            {
                *given.entry(Arc::as_ptr(&held.block)).or_default() += 1;
            }
        }
        given
    }
}
