//! Waves and their jobs as users of memory, and the arena with the threads' scratch behind it.

use gt_ir::{Class, DType, Op};
use smallvec::SmallVec;

use super::plan::{At, Job, Plan, Stage, Tile, Wave, Work};
use crate::schedule::{
    BufferId, Buffers, FAR, Layout, MatMul, Multiplier, Routine, Uses, distance_in,
};

/// Alignment of buffers in the arena.
const ALIGN: usize = 64;

/// Gives every buffer its place.
pub(super) fn place(plan: &mut Plan, donated: &[bool], threads: usize) {
    let buffers = Buffers {
        sizes: &plan.sizes,
        n_inputs: plan.inputs.len(),
        outputs: &plan.outputs,
        donated,
        align: ALIGN,
    };
    plan.layout = Layout::new(&plan.waves, &buffers);
    let jobs = plan.waves.iter().flat_map(|wave| &wave.jobs);
    let scratch = jobs.map(|job| if let Job::Tile(tile) = job { tile.scratch } else { 0 });
    let scratch = scratch.max().unwrap_or(0).next_multiple_of(ALIGN);
    plan.scratch = (plan.layout.arena, scratch);
    plan.arena = plan.layout.arena + scratch * threads;
}

impl Uses for Wave {
    fn reads(&self) -> SmallVec<[BufferId; 4]> {
        self.jobs.iter().flat_map(|job| uses(job).0).collect()
    }

    fn writes(&self) -> SmallVec<[BufferId; 2]> {
        self.jobs.iter().flat_map(|job| uses(job).1).collect()
    }

    fn reads_for(&self, out: BufferId) -> Vec<BufferId> {
        self.jobs
            .iter()
            .map(uses)
            .filter(|(_, to)| to.contains(&out))
            .flat_map(|(r, _)| r)
            .collect()
    }

    fn can_fail(&self) -> bool {
        self.jobs.iter().any(can_fail)
    }

    /// What is added or put to must not be what is added, or where.
    fn base(&self) -> Option<(BufferId, BufferId)> {
        let [Job::Routine(routine)] = self.jobs.as_slice() else { return None };
        let (Op::ScatterAdd(_)
        | Op::IndexAdd(_)
        | Op::Scatter(_)
        | Op::IndexCopy(_)
        | Op::ScatterMax(_)
        | Op::ScatterMin(_)
        | Op::ScatterMul(_)) = routine.op
        else {
            return None;
        };
        let ((base, _), rest) = routine.inputs.split_first()?;
        rest.iter().all(|(b, _)| b != base).then_some((*base, routine.out))
    }

    /// Only the job that writes `out` may read `input`, and no other may write a part of `out`.
    fn distance(&self, input: BufferId, out: BufferId) -> Option<usize> {
        if self.base() == Some((input, out)) {
            return Some(0);
        }
        let mut nearest = FAR;
        for job in self.jobs.iter().filter(|job| reads(job, input)) {
            let Job::Tile(tile) = job else { return None };
            if self.jobs.iter().filter(|job| writes(job, out)).nth(1).is_some() {
                return None;
            }
            nearest = nearest.min(distance(tile, input, out)?);
        }
        Some(nearest)
    }
}

/// Only the stage that writes `out` may read `input`, element by element, or a stage before it, of
/// the rows that are written then.
fn distance(tile: &Tile, input: BufferId, out: BufferId) -> Option<usize> {
    let writer = tile.stages.iter().position(|stage| stage_writes(stage, out))?;
    if tile.copies.iter().any(|copy| copy.to == out) {
        return None;
    }
    let mut nearest = FAR;
    for (i, stage) in tile.stages.iter().enumerate().filter(|(_, s)| stage_reads(s, input)) {
        if i < writer && same_rows(stage, input, &tile.stages[writer], out) {
            continue;
        }
        if i != writer {
            return None;
        }
        nearest = nearest.min(distance_at(stage, input, out)?);
    }
    Some(nearest)
}

fn distance_at(stage: &Stage, input: BufferId, out: BufferId) -> Option<usize> {
    let Work::Kernel { nest, .. } = &stage.work else { return None };
    let buffer = |argument: u16| match stage.args[usize::from(argument)].at {
        At::Buffer(buffer) => Some(buffer),
        At::Scratch(_) => None,
    };
    let of = |wanted: BufferId| stage.args.iter().filter(move |arg| arg.at == At::Buffer(wanted));
    let together = of(input).all(|from| of(out).all(|to| from.outer == to.outer));
    if together { distance_in(&nest.spec, buffer, input, out) } else { None }
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
        Job::Routine(r) => of_routine(r),
        Job::Loop(l) => of_routine(&l.routine),
    }
}

fn of_routine(routine: &Routine) -> (Vec<BufferId>, Vec<BufferId>) {
    (routine.inputs.iter().map(|(b, _)| *b).collect(), vec![routine.out])
}

/// Asked for each donor of memory and each job: a list of all that a tile reads would take longer
/// than the compilation of its kernels.
fn reads(job: &Job, buffer: BufferId) -> bool {
    match job {
        Job::Tile(tile) => tile.stages.iter().any(|stage| stage_reads(stage, buffer)),
        Job::Chunked(_) | Job::MatMul(_) | Job::Fold(_) | Job::Routine(_) | Job::Loop(_) => {
            uses(job).0.contains(&buffer)
        }
    }
}

/// As [`reads`].
fn writes(job: &Job, buffer: BufferId) -> bool {
    match job {
        Job::Tile(tile) => {
            tile.copies.iter().any(|copy| copy.to == buffer)
                || tile.stages.iter().any(|stage| stage_writes(stage, buffer))
        }
        Job::Chunked(_) | Job::MatMul(_) | Job::Fold(_) | Job::Routine(_) | Job::Loop(_) => {
            uses(job).1.contains(&buffer)
        }
    }
}

/// Whether a job may find its data unfit, or may find no memory for what it needs on its way.
fn can_fail(job: &Job) -> bool {
    let allocates = |product: &MatMul| {
        product.by == Multiplier::Library && matches!(product.dtype, DType::F16 | DType::Bf16)
    };
    match job {
        Job::Routine(r) => r.can_fail() || r.op.spec().class == Class::Matrix,
        Job::Loop(_) => true,
        Job::MatMul(product) => allocates(product),
        Job::Tile(_) | Job::Chunked(_) | Job::Fold(_) => false,
    }
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

/// Whether an earlier stage's reads of `input` stay in the rows the writer of `out` writes. Only
/// the plainest case counts: both walk the rows with the same step and elements of one size, and so
/// do the outer loops.
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
    let width = w.spec.buffers[usize::from(store.buffer)].size();
    r.spec.loads().all(|(b, access)| {
        let from = &reader.args[usize::from(b)];
        if from.at != At::Buffer(input) {
            return true;
        }
        let local = r.spec.loops.iter().zip(&access.strides).skip(1);
        let last: i64 = local.clone().map(|(l, s)| s * (l.extent as i64 - 1)).sum();
        from.outer == to.outer
            && r.spec.buffers[usize::from(b)].size() == width
            && access.strides.first() == Some(&row)
            && store.access.offset == 0
            && access.offset >= 0
            && local.into_iter().all(|(_, s)| *s >= 0)
            && access.offset + last < row
    })
}
