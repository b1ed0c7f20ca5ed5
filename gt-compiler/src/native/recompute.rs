//! Groups of pieces as steps that may run again, where a plan would take more memory than it may.
//!
//! A group that runs again makes only the results that are wanted, in buffers of their own, from
//! the buffers that hold its operands then. Its pieces stay as they are, so its results have the
//! same bits.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::Class;

use super::tile::weight;
use crate::schedule::{
    BufferId, Group, Make, Piece, Run, Runs, Schedule, Sources, Step, group, recompute,
};

/// Pieces, and which of them run together, in order.
pub(super) struct Grouped {
    pub(super) pieces: Vec<Piece>,
    pub(super) sources: Vec<Sources>,
    pub(super) groups: Vec<Group>,
    /// For each group, which of its results something outside of it reads.
    pub(super) needed: Vec<BTreeSet<BufferId>>,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<usize>,
    /// Whether each buffer has memory of its own: inputs and results.
    kept: Vec<bool>,
    /// How many of the groups run again.
    pub(super) again: usize,
}

impl Grouped {
    /// The pieces of a schedule in groups of at most `most`.
    pub(super) fn new(schedule: &Schedule, most: usize) -> Grouped {
        let groups = group(&schedule.pieces, most);
        let (pieces, sources) = (schedule.pieces.clone(), schedule.sources.clone());
        let sizes = schedule.sizes.clone();
        let needed = needed(schedule, &groups);
        let mut kept = vec![false; sizes.len()];
        kept[..schedule.n_inputs].fill(true);
        schedule.outputs.iter().for_each(|(b, _)| kept[b.index()] = true);
        Grouped { pieces, sources, groups, needed, sizes, kept, again: 0 }
    }

    /// The same with values made again, so that what is neither an input nor a result takes at most
    /// `budget` bytes, or as few as can be. `None` if nothing can be saved.
    pub(super) fn recomputed(&self, budget: usize) -> Option<Grouped> {
        let steps = (0..self.groups.len()).map(|group| {
            let pieces = &self.groups[group].pieces;
            let repeats = pieces.iter().all(|&p| match &self.pieces[p] {
                Piece::Routine(r) => {
                    let takes_long = r.op.spec().class == Class::Matrix;
                    !r.can_fail() && r.update.is_none() && !takes_long
                }
                Piece::Kernel(_) | Piece::MatMul(_) | Piece::Fold(_) | Piece::Attention(_) => true,
            });
            let makes = self.needed[group].iter().map(|&out| self.make(group, out)).collect();
            Step { makes, repeats }
        });
        let steps: Vec<Step> = steps.collect();
        let Runs { runs, sizes } = recompute(&steps, &self.sizes, &self.kept, budget)?;
        let again = runs.len() - steps.len();
        let mut made = Grouped {
            pieces: Vec::new(),
            sources: Vec::new(),
            groups: Vec::new(),
            needed: Vec::new(),
            sizes,
            kept: Vec::new(),
            again,
        };
        runs.iter().for_each(|run| made.push(self, run));
        Some(made)
    }

    /// What it takes to make one result of a group, from what others read of the group, too.
    fn make(&self, group: usize, out: BufferId) -> Make {
        let leading: Vec<usize> = self.leading(group, &[out]).collect();
        let members = || leading.iter().map(|&p| &self.pieces[p]);
        let own: BTreeSet<BufferId> = members().flat_map(Piece::writes).collect();
        let reads: BTreeSet<BufferId> = members().flat_map(Piece::reads).collect();
        let parts = leading.iter().map(|&p| (p, weight(&self.pieces[p]))).collect();
        Make { out, reads: reads.difference(&own).copied().collect(), parts }
    }

    /// The pieces of a group that lead to some of its results, in order. The other results that are
    /// needed outside are there.
    fn leading(&self, group: usize, outs: &[BufferId]) -> impl Iterator<Item = usize> {
        let mut wanted: BTreeSet<BufferId> = outs.iter().copied().collect();
        let mut leading = Vec::new();
        for &p in self.groups[group].pieces.iter().rev() {
            if self.pieces[p].writes().iter().any(|b| wanted.contains(b)) {
                let operands = self.pieces[p].reads().into_iter();
                wanted.extend(operands.filter(|b| !self.needed[group].contains(b)));
                leading.push(p);
            }
        }
        leading.into_iter().rev()
    }

    /// Adds a run of a group of `from`.
    fn push(&mut self, from: &Grouped, run: &Run) {
        let group = &from.groups[run.step];
        let pieces: Vec<usize> = match run.again {
            true => from.leading(run.step, &run.makes).collect(),
            false => group.pieces.to_vec(),
        };
        let mut names: BTreeMap<BufferId, BufferId> = run.names.iter().copied().collect();
        if run.again {
            for own in pieces.iter().flat_map(|&p| from.pieces[p].writes()) {
                names.entry(own).or_insert_with(|| {
                    self.sizes.push(from.sizes[own.index()]);
                    BufferId(self.sizes.len() as u32 - 1)
                });
            }
        }
        let name = |b: BufferId| names.get(&b).copied().unwrap_or(b);
        let first = self.pieces.len();
        for &p in &pieces {
            let mut piece = from.pieces[p].clone();
            piece.rename(name);
            self.pieces.push(piece);
            self.sources.push(from.sources[p].clone());
        }
        let numbers = (first..self.pieces.len()).collect();
        self.groups.push(Group { pieces: numbers, rows: group.rows.clone() });
        self.needed.push(run.makes.iter().map(|b| name(*b)).collect());
    }
}

/// For each group, which of its results something outside reads.
fn needed(schedule: &Schedule, groups: &[Group]) -> Vec<BTreeSet<BufferId>> {
    const SEVERAL: usize = usize::MAX;
    let pieces = &schedule.pieces;
    let mut reader: Vec<Option<usize>> = vec![None; schedule.sizes.len()];
    for (g, group) in groups.iter().enumerate() {
        for b in group.pieces.iter().flat_map(|&p| pieces[p].reads()) {
            let of = &mut reader[b.index()];
            *of = Some(if of.is_none_or(|r| r == g) { g } else { SEVERAL });
        }
    }
    schedule.outputs.iter().for_each(|(b, _)| reader[b.index()] = Some(SEVERAL));
    let results = |g: &Group| g.pieces.iter().flat_map(|&p| pieces[p].writes()).collect::<Vec<_>>();
    let outside = |g: usize, b: &BufferId| reader[b.index()].is_some_and(|r| r != g);
    groups
        .iter()
        .enumerate()
        .map(|(g, group)| results(group).into_iter().filter(|b| outside(g, b)).collect())
        .collect()
}
