//! From pieces to a plan: groups become tiles, tiles and other jobs become waves, buffers get their
//! places.
//!
//! Jobs that follow each other and do not depend on each other share a wave: the steps of an
//! optimizer over all its parameters are one launch, as are the two products of a linear layer's
//! gradient. Where memory is short, values are made again (`recompute`).

use std::collections::BTreeSet;

use gt_ir::{Graph, Type};
use smallvec::SmallVec;

use super::{
    loops, memory,
    plan::{Chunked, Job, Plan, Wave},
    recompute::Grouped,
    tile::{GRAIN, Setting, tile, weight},
};
use crate::{
    error::EngineError,
    schedule::{BufferId, Group, MAX_PIECES, Piece, Schedule, Sources, cuts, is_whole},
};

/// Makes the plan of a part of a loop.
pub(super) type Parts<'a> = dyn Fn(&Graph) -> Result<Plan, EngineError> + 'a;

/// Pieces of a group at most, one number after the other until a plan fits into its memory: values
/// live as long as the groups that use them run, and each group runs again by itself.
const SMALLER: [usize; 3] = [MAX_PIECES, 12, 4];
/// Times that a plan is made again for less memory, at most: buffers do not lie without gaps, so
/// that a plan may take more than its values.
const TRIES: usize = 3;

/// What a plan is made for.
pub(super) struct Wanted<'a> {
    /// The inputs that nobody needs after a run.
    pub(super) donated: &'a [bool],
    pub(super) threads: usize,
    /// Bytes that a run may allocate.
    pub(super) memory: Option<usize>,
}

/// Assembles the plan of a scheduled graph, and with `parts` those of its loops.
pub(super) fn assemble(
    graph: &Graph,
    schedule: &Schedule,
    wanted: &Wanted<'_>,
    parts: &Parts<'_>,
) -> Result<Plan, EngineError> {
    let planned = |groups: &Grouped| planned(graph, &schedule.outputs, groups, wanted, parts);
    let memory = wanted.memory.unwrap_or(usize::MAX);
    let mut least: Option<Plan> = None;
    for most in SMALLER {
        let groups = Grouped::new(schedule, most);
        let mut plan = planned(&groups)?;
        let mut budget = plan.layout.arena;
        for tries in 0..=TRIES {
            let excess = plan.bytes().saturating_sub(memory);
            if excess == 0 {
                return Ok(plan);
            }
            if least.as_ref().is_none_or(|least| plan.bytes() < least.bytes()) {
                least = Some(plan);
            }
            if budget == 0 || tries == TRIES {
                break;
            }
            budget = budget.saturating_sub(excess);
            let Some(smaller) = groups.recomputed(budget) else { break };
            plan = planned(&smaller)?;
        }
    }
    least.ok_or_else(|| EngineError::Codegen("no plan was made".into()))
}

/// The plan of groups of pieces.
fn planned(
    graph: &Graph,
    outputs: &[(BufferId, Type)],
    grouped: &Grouped,
    wanted: &Wanted<'_>,
    parts: &Parts<'_>,
) -> Result<Plan, EngineError> {
    let Grouped { pieces, sources, groups, needed, sizes, again, .. } = grouped;
    let mut plan = Plan {
        inputs: graph.inputs().iter().map(|id| graph.node(*id).ty).collect(),
        n_scalars: graph.slots().len(),
        outputs: outputs.iter().copied().collect(),
        sizes: sizes.clone(),
        again: *again,
        ..Plan::default()
    };
    // Of the jobs of the last wave, which are apart.
    let mut beside = Vec::new();
    for (group, needed) in groups.iter().zip(needed) {
        let members: Vec<&Piece> = group.pieces.iter().map(|&p| &pieces[p]).collect();
        let jobs = jobs(&plan, &members, group, needed, wanted.threads, parts)?;
        let of = |pieces: &[usize]| Sources::join(pieces.iter().map(|&p| &sources[p]));
        let is_one = jobs.len() == 1;
        for (job, piece) in jobs.into_iter().zip(group.pieces.iter()) {
            let of = if is_one { of(&group.pieces) } else { of(&[*piece]) };
            let apart = members.iter().all(|m| matches!(m, Piece::Kernel(k) if k.apart));
            push(&mut plan.waves, &mut beside, (job, apart), of);
        }
    }
    plan.waves.iter_mut().for_each(|wave| wave.portions = portions(&wave.jobs));
    let jobs = plan.waves.iter().flat_map(|wave| &wave.jobs);
    let rounds = jobs.filter_map(|job| if let Job::Loop(l) = job { Some(l.work()) } else { None });
    plan.work = pieces.iter().map(weight).chain(rounds).fold(0, usize::saturating_add);
    memory::place(&mut plan, wanted.donated, wanted.threads);
    Ok(plan)
}

/// Portions of the tasks of several tiles: neighboring tasks that have little work together. Where
/// tiles store parts of one buffer, portions of all of them take turns: a thread stores whole rows
/// of the buffer, because a column of it would fill a part of a cache only.
fn portions(jobs: &[Job]) -> SmallVec<[(usize, usize); 1]> {
    let tiles =
        jobs.iter().filter_map(|job| if let Job::Tile(tile) = job { Some(tile) } else { None });
    let written: Vec<BufferId> = jobs.iter().flat_map(|job| memory::uses(job).1).collect();
    let takes_turns = written.iter().collect::<BTreeSet<_>>().len() < written.len();
    let (mut portions, mut places) = (SmallVec::<[(usize, usize); 1]>::new(), Vec::new());
    let (mut first, mut n, mut filled) = (0, 0, 0);
    for (number, tile) in tiles.enumerate() {
        for task in 0..tile.n_tasks {
            let work = tile.work / tile.n_tasks;
            if n > first && (filled + work > GRAIN || takes_turns && task == 0) {
                portions.push((first, n));
                (first, filled) = (n, 0);
            }
            if n == first {
                places.push(((task << 16) / tile.n_tasks, number));
            }
            (filled, n) = (filled + work, n + 1);
        }
    }
    portions.push((first, n));
    if takes_turns {
        let mut order: Vec<usize> = (0..portions.len()).collect();
        order.sort_by_key(|i| places[*i]);
        portions = order.iter().map(|i| portions[*i]).collect();
    }
    portions
}

fn jobs(
    plan: &Plan,
    members: &[&Piece],
    group: &Group,
    needed: &BTreeSet<BufferId>,
    threads: usize,
    parts: &Parts<'_>,
) -> Result<SmallVec<[Job; 1]>, EngineError> {
    let is_whole = |b: BufferId| !group.rows.is_empty() && members.iter().any(|m| is_whole(m, b));
    let setting = Setting { threads, sizes: &plan.sizes, needed, is_whole: &is_whole };
    if let [piece] = members {
        return Ok(SmallVec::from_iter([alone(piece, &group.rows, &setting, parts)?]));
    }
    match tile(members, &group.rows, &setting) {
        Some(tile) => Ok(SmallVec::from_iter([Job::Tile(Box::new(tile))])),
        None => {
            // Every result is needed by somebody once its reader is another job.
            let all = members.iter().flat_map(|m| m.writes()).collect();
            let setting = Setting { needed: &all, ..setting };
            members.iter().map(|m| alone(m, &[], &setting, parts)).collect()
        }
    }
}

fn alone(
    piece: &Piece,
    rows: &[usize],
    setting: &Setting<'_>,
    parts: &Parts<'_>,
) -> Result<Job, EngineError> {
    let own = || cuts(piece);
    let tiled = |rows: &[usize]| tile(&[piece], rows, setting).map(|t| Job::Tile(Box::new(t)));
    let job = match piece {
        Piece::Kernel(k) => match Chunked::of(k) {
            Some(chunked) => Some(Job::Chunked(Box::new(chunked))),
            None if rows.is_empty() => tiled(&own()),
            None => tiled(rows),
        },
        Piece::MatMul(m) if m.is_tiled() => tiled(&own()),
        Piece::MatMul(m) => Some(Job::MatMul(m.clone())),
        Piece::Fold(f) => Some(Job::Fold(Box::new(f.clone()))),
        Piece::Routine(r) => Some(match loops::of_routine(r, parts)? {
            Some(of_rounds) => Job::Loop(Box::new(of_rounds)),
            None => Job::Routine(r.clone()),
        }),
        Piece::Attention(_) => None,
    };
    job.ok_or_else(|| EngineError::Codegen("a piece cannot be cut into rows".into()))
}

/// Adds a job to the last wave where it does not depend on its jobs, else to a new one. `beside`
/// says which jobs of that wave are apart, and so is the second part of a job.
fn push(
    waves: &mut Vec<Wave>,
    beside: &mut Vec<bool>,
    (job, apart): (Job, bool),
    sources: Sources,
) {
    if let (Job::Tile(_), Some(last)) = (&job, waves.last_mut()) {
        let mut others = last.jobs.iter().zip(&*beside);
        if others.all(|(other, is_apart)| independent(other, &job, *is_apart && apart)) {
            last.jobs.push(job);
            last.sources.push(sources);
            beside.push(apart);
            return;
        }
    }
    waves.push(Wave {
        jobs: SmallVec::from_iter([job]),
        sources: SmallVec::from_iter([sources]),
        portions: SmallVec::new(),
    });
    *beside = vec![apart];
}

/// Whether two jobs may run at once; `apart`, if they store no element both.
fn independent(a: &Job, b: &Job, apart: bool) -> bool {
    let (Job::Tile(_), Job::Tile(_)) = (a, b) else { return false };
    let ((ra, wa), (rb, wb)) = (memory::uses(a), memory::uses(b));
    let meet = |x: &[BufferId], y: &[BufferId]| x.iter().any(|b| y.contains(b));
    !meet(&wa, &rb) && !meet(&wb, &ra) && (apart || !meet(&wa, &wb))
}
