//! Where the buffers of a plan lie: lifetimes, one arena for what does not outlive the run, donated
//! inputs taken for results.
//!
//! Buffers whose lifetimes overlap never overlap in the arena. A donated input's memory is taken
//! only by a result of the same size, by the last wave that reads it, element by element, and only
//! after the last step that may still find its data unfit: a run that fails has changed no input.

use std::collections::BTreeSet;

use super::plan::{At, Job, Plan, Stage, Work};
use crate::schedule::{BufferId, Life, Place, layout};

/// Alignment of buffers in the arena.
const ALIGN: usize = 64;

/// Gives every buffer its place.
pub(super) fn place(plan: &mut Plan, donated: &[bool], threads: usize) {
    let lives = lives(plan);
    plan.places = vec![Place::Nowhere; plan.sizes.len()];
    for i in 0..plan.inputs.len() {
        plan.places[i] = Place::Input(i as u32);
    }
    let mut taken: BTreeSet<u32> = BTreeSet::new();
    for (id, _) in plan.outputs.clone() {
        if matches!(plan.places[id.index()], Place::Input(_)) {
            continue; // the value itself is given back
        }
        let donor = donor(plan, id, donated, &lives, &taken);
        taken.extend(donor);
        plan.places[id.index()] = Place::Output { donor };
    }
    let end = arena(plan, &lives);
    let scratch = plan
        .waves
        .iter()
        .flat_map(|w| &w.jobs)
        .map(|j| if let Job::Tile(t) = j { t.scratch } else { 0 })
        .max()
        .unwrap_or(0)
        .next_multiple_of(ALIGN);
    plan.scratch = (end, scratch);
    plan.arena = end + scratch * threads;
}

/// The buffers a job uses: read, then written.
pub(super) fn uses(job: &Job) -> (Vec<BufferId>, Vec<BufferId>) {
    match job {
        Job::Tile(t) => {
            let (mut reads, mut writes) = (Vec::new(), Vec::new());
            for stage in &t.stages {
                let buffer = |i: usize| match stage.args[i].at {
                    At::Buffer(b) => Some(b),
                    At::Scratch(_) => None,
                };
                match &stage.work {
                    Work::Kernel { nest, .. } => {
                        reads.extend(nest.spec.loads().filter_map(|(b, _)| buffer(usize::from(b))));
                        let stored = nest.spec.stores.iter().map(|s| usize::from(s.buffer));
                        writes.extend(stored.filter_map(buffer));
                    }
                    Work::Product(_) => {
                        reads.extend([0, 1].into_iter().filter_map(buffer));
                        writes.extend(buffer(2));
                    }
                }
            }
            writes.extend(t.copies.iter().map(|c| c.to));
            (reads, writes)
        }
        Job::Chunked(c) => {
            let reads = (0..c.buffers.len()).filter(|i| *i != c.out).map(|i| c.buffers[i]);
            (reads.collect(), vec![c.buffers[c.out]])
        }
        Job::MatMul(m) => (vec![m.lhs.buffer, m.rhs.buffer], vec![m.out]),
        Job::Fold(f) => (vec![f.from], vec![f.out]),
        Job::Routine(r) => (r.inputs.iter().map(|(b, _)| *b).collect(), vec![r.out]),
    }
}

fn lives(plan: &Plan) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; plan.sizes.len()];
    for (w, wave) in plan.waves.iter().enumerate() {
        for job in &wave.jobs {
            let (reads, writes) = uses(job);
            for b in reads.into_iter().chain(writes) {
                Life::used(&mut lives[b.index()], w);
            }
        }
    }
    lives
}

/// A donated input whose memory a result may take.
fn donor(
    plan: &Plan,
    out: BufferId,
    donated: &[bool],
    lives: &[Option<Life>],
    taken: &BTreeSet<u32>,
) -> Option<u32> {
    let life = lives[out.index()]?;
    let can_fail = |w: &usize| plan.waves[*w].jobs.iter().any(may_fail);
    if (life.first..plan.waves.len()).any(|w| can_fail(&w)) {
        return None;
    }
    let fits = |i: usize| {
        let is_output = plan.outputs.iter().any(|(b, _)| b.index() == i);
        donated.get(i) == Some(&true)
            && !taken.contains(&(i as u32))
            && !is_output
            && plan.sizes[i] == plan.sizes[out.index()]
    };
    let mut candidates = (0..plan.inputs.len()).filter(|&i| fits(i));
    candidates
        .find(|&i| match lives[i] {
            None => true,
            Some(read) => {
                read.last < life.first
                    || read.last == life.first && in_step(plan, life.first, i, out)
            }
        })
        .map(|i| i as u32)
}

fn may_fail(job: &Job) -> bool {
    match job {
        Job::Routine(r) => r.can_fail(),
        Job::Tile(_) | Job::Chunked(_) | Job::MatMul(_) | Job::Fold(_) => false,
    }
}

/// Whether in a wave an input is read only by the job that writes `out`, and there only where it
/// writes the same element afterwards.
fn in_step(plan: &Plan, wave: usize, input: usize, out: BufferId) -> bool {
    let input = BufferId(input as u32);
    let readers = plan.waves[wave].jobs.iter().filter(|j| uses(j).0.contains(&input));
    readers.into_iter().all(|job| {
        let Job::Tile(tile) = job else { return false };
        if !uses(job).1.contains(&out) || tile.copies.iter().any(|c| c.to == out) {
            return false;
        }
        let writer = tile.stages.iter().position(|s| stage_writes(s, out));
        tile.stages.iter().enumerate().all(|(i, stage)| {
            !stage_reads(stage, input)
                || writer.is_some_and(|w| i < w && same_rows(stage, input, &tile.stages[w], out))
                || writer == Some(i) && same_elements(stage, input, out)
        })
    })
}

fn argument(stage: &Stage, buffer: BufferId) -> impl Iterator<Item = usize> + '_ {
    let is = move |i: &usize| stage.args[*i].at == At::Buffer(buffer);
    (0..stage.args.len()).filter(is)
}

fn stage_reads(stage: &Stage, buffer: BufferId) -> bool {
    argument(stage, buffer).any(|i| match &stage.work {
        Work::Kernel { nest, .. } => nest.spec.loads().any(|(b, _)| usize::from(b) == i),
        Work::Product(_) => i < 2,
    })
}

fn stage_writes(stage: &Stage, buffer: BufferId) -> bool {
    argument(stage, buffer).any(|i| match &stage.work {
        Work::Kernel { nest, .. } => nest.spec.stores.iter().any(|s| usize::from(s.buffer) == i),
        Work::Product(_) => i == 2,
    })
}

/// Whether a kernel reads of `input` just the element of `out` it is about to write.
fn same_elements(stage: &Stage, input: BufferId, out: BufferId) -> bool {
    let Work::Kernel { nest, .. } = &stage.work else { return false };
    let Some(store) = nest
        .spec
        .stores
        .iter()
        .find(|s| stage.args[usize::from(s.buffer)].at == At::Buffer(out) && s.fold.is_none())
    else {
        return false;
    };
    let to = &stage.args[usize::from(store.buffer)];
    nest.spec.loads().all(|(b, access)| {
        let from = &stage.args[usize::from(b)];
        from.at != At::Buffer(input) || *access == store.access && from.outer == to.outer
    })
}

/// Whether an earlier stage's reads of `input` stay in the rows the writer of `out` writes. Only
/// the plainest case counts: both walk the rows with the same step, and so do the outer loops.
fn same_rows(reader: &Stage, input: BufferId, writer: &Stage, out: BufferId) -> bool {
    let (Work::Kernel { nest: r, .. }, Work::Kernel { nest: w, .. }) = (&reader.work, &writer.work)
    else {
        return false;
    };
    let Some(store) = w
        .spec
        .stores
        .iter()
        .find(|s| writer.args[usize::from(s.buffer)].at == At::Buffer(out) && s.fold.is_none())
    else {
        return false;
    };
    let row = store.access.strides.first().copied().unwrap_or(0);
    let to = &writer.args[usize::from(store.buffer)];
    r.spec.loads().all(|(b, access)| {
        let from = &reader.args[usize::from(b)];
        if from.at != At::Buffer(input) {
            return true;
        }
        let local = r.spec.loops.iter().zip(&access.strides).skip(1);
        let last: i64 = local.clone().map(|(l, s)| s * (l.extent as i64 - 1)).sum();
        from.outer == to.outer
            && access.strides.first() == Some(&row)
            && store.access.offset == 0
            && access.offset >= 0
            && local.into_iter().all(|(_, s)| *s >= 0)
            && access.offset + last < row
    })
}

/// Lays out what lives and dies within the run. Gives the end.
fn arena(plan: &mut Plan, lives: &[Option<Life>]) -> usize {
    let todo = lives.iter().enumerate().filter(|(b, _)| plan.places[*b] == Place::Nowhere);
    let todo = todo.filter_map(|(b, life)| Some((b, (*life)?))).collect();
    let (places, end) = layout(&plan.sizes, todo, ALIGN);
    for (b, at) in places {
        plan.places[b] = Place::Arena(at);
    }
    end
}
