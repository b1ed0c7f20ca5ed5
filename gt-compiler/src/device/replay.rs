//! Captures graphs of a program and replays them.
//!
//! Guarantees: a replay is what the steps would be, bit for bit; it says one upload of scalars, the
//! copies of moving inputs and one launch to the device, and allocates what outlives it before. A
//! capture that fails has run nothing. A failure of a replay itself is the end of the device, which
//! has overwritten parameters by then.

use std::sync::Arc;

use gt_ir::Scalar;
use smallvec::SmallVec;

use super::{
    gpu::Gpu,
    graphs::{Captured, Feed, Graphs, Out},
    memory::{Memory, is_sole},
    plan::Plan,
    program::Loaded,
    run::{Failure, Frame, results},
};
use crate::{
    engine::Value,
    error::EngineError,
    schedule::{Home, Homes, Made},
};

/// Captures the program for calls like this one, in which these inputs are bound. The error is the
/// reason why it cannot be.
pub(super) fn capture<G: Gpu>(
    memory: &mut Memory<G>,
    frame: &mut Frame,
    loaded: &Loaded<G>,
    graphs: &Graphs<G>,
    inputs: &[&Value],
    bound: &[bool],
    scalars: &[Scalar],
) -> Result<Captured<G>, EngineError> {
    let plan = &loaded.plan;
    let outs = outs(memory, plan, graphs, inputs, bound)?;
    let feeds = feeds(memory, plan, inputs, bound, &outs)?;
    let arena = match plan.arena {
        0 => None,
        bytes => Some(memory.alloc(bytes)?),
    };
    let start = arena.as_ref().map_or(0, |block| memory.address(block));
    let input = |i: usize| match &feeds[i] {
        Feed::Bound { at, .. } => *at,
        Feed::Copied(block) => memory.address(block),
        Feed::Unread => inputs[i].address() as u64,
    };
    frame.place(&memory.gpu, plan, start, input, &homes(&outs));
    plan.fill_words(scalars, &mut frame.words);
    frame.upload_words(&memory.gpu)?;
    let graph = record(&memory.gpu, frame, loaded)?;
    let charge = memory.charge(bytes(plan, inputs, bound));
    Ok(Captured {
        graph,
        feeds,
        outs,
        words_at: frame.words_at,
        told: plan.told(scalars).collect(),
        used: 0,
        _arena: arena,
        _charge: charge,
    })
}

/// Bytes of memory a graph captured for this call holds.
pub(super) fn bytes(plan: &Plan, inputs: &[&Value], bound: &[bool]) -> usize {
    let copied = (0..bound.len()).filter(|&i| !bound[i] && plan.is_read[i]).map(|i| plan.sizes[i]);
    let own = plan.layout.made.iter().filter(|made| in_place(made, inputs, bound).is_none());
    let own = own.map(|made| plan.sizes[made.buffer.index()]);
    plan.arena + copied.sum::<usize>() + own.sum::<usize>()
}

/// The input whose memory a result takes.
fn in_place(made: &Made, inputs: &[&Value], bound: &[bool]) -> Option<usize> {
    made.donor.filter(|&i| bound[i] && is_sole(inputs[i]))
}

fn record<G: Gpu>(gpu: &G, frame: &mut Frame, loaded: &Loaded<G>) -> Result<G::Graph, EngineError> {
    gpu.begin_capture()?;
    let recorded = (0..loaded.plan.steps.len()).try_for_each(|step| frame.step(gpu, loaded, step));
    let graph = gpu.end_capture();
    recorded.and(graph)
}

fn outs<G: Gpu>(
    memory: &mut Memory<G>,
    plan: &Plan,
    graphs: &Graphs<G>,
    inputs: &[&Value],
    bound: &[bool],
) -> Result<Vec<Out<G>>, EngineError> {
    let out = |made: &Made| {
        if let Some(i) = in_place(made, inputs, bound) {
            return Ok(Out::InPlace(i));
        }
        let block = memory.alloc(plan.sizes[made.buffer.index()])?;
        Ok(if graphs.held.contains(&made.buffer) { Out::Copied(block) } else { Out::Lent(block) })
    };
    plan.layout.made.iter().map(out).collect()
}

fn feeds<G: Gpu>(
    memory: &mut Memory<G>,
    plan: &Plan,
    inputs: &[&Value],
    bound: &[bool],
    outs: &[Out<G>],
) -> Result<Vec<Feed<G>>, EngineError> {
    let feed = |i: usize| {
        let taken = outs.iter().any(|out| matches!(out, Out::InPlace(by) if *by == i));
        if !taken && !plan.is_read[i] {
            return Ok(Feed::Unread);
        }
        if bound[i] {
            return Ok(Feed::Bound { at: inputs[i].address() as u64, taken });
        }
        memory.alloc(plan.sizes[i]).map(Feed::Copied)
    };
    (0..inputs.len()).map(feed).collect()
}

/// The results' homes as the steps see them.
fn homes<G: Gpu>(outs: &[Out<G>]) -> Homes<Arc<G::Block>> {
    let home = |out: &Out<G>| match out {
        Out::InPlace(i) => Home::Donor(*i),
        Out::Lent(block) | Out::Copied(block) => Home::Fresh(block.clone()),
    };
    outs.iter().map(home).collect()
}

/// Whether a graph of the program may run before its indices are known to be good.
pub(super) fn may_run_ahead<G: Gpu>(memory: &Memory<G>, plan: &Plan, inputs: &[&Value]) -> bool {
    plan.layout.made.iter().all(|made| made.donor.is_none()) || !memory.needs_check(plan, inputs)
}

/// Replays a graph that fits the call.
pub(super) fn replay<G: Gpu>(
    memory: &mut Memory<G>,
    frame: &mut Frame,
    plan: &Plan,
    captured: &Captured<G>,
    inputs: &[&Value],
    scalars: &[Scalar],
) -> Result<SmallVec<[Value; 4]>, Failure> {
    let homes = receivers(memory, plan, captured).map_err(Failure::Clean)?;
    let checks = memory.needs_check(plan, inputs);
    plan.fill_words(scalars, &mut frame.words);
    frame.words_at = captured.words_at;
    enqueue(memory, frame, plan, captured, inputs, &homes).map_err(Failure::Broken)?;
    if checks && let Some(error) = frame.index_error(&memory.gpu, plan).map_err(Failure::Broken)? {
        return Err(Failure::Clean(error));
    }
    results(memory, plan, inputs, &homes).map_err(Failure::Broken)
}

/// The results for the caller: in place, in a lent block, or in a fresh one.
fn receivers<G: Gpu>(
    memory: &mut Memory<G>,
    plan: &Plan,
    captured: &Captured<G>,
) -> Result<Homes<Arc<G::Block>>, EngineError> {
    let receiver = |(made, out): (&Made, &Out<G>)| match out {
        Out::InPlace(i) => Ok(Home::Donor(*i)),
        Out::Lent(block) => Ok(Home::Fresh(block.clone())),
        Out::Copied(_) => memory.alloc(plan.sizes[made.buffer.index()]).map(Home::Fresh),
    };
    plan.layout.made.iter().zip(&captured.outs).map(receiver).collect()
}

fn enqueue<G: Gpu>(
    memory: &Memory<G>,
    frame: &Frame,
    plan: &Plan,
    captured: &Captured<G>,
    inputs: &[&Value],
    homes: &Homes<Arc<G::Block>>,
) -> Result<(), EngineError> {
    let gpu = &memory.gpu;
    for (i, feed) in captured.feeds.iter().enumerate() {
        if let Feed::Copied(block) = feed {
            gpu.copy(inputs[i].address() as u64, gpu.address(block), plan.sizes[i])?;
        }
    }
    if plan.has_news() {
        frame.upload_words(gpu)?;
    }
    gpu.replay(&captured.graph)?;
    for (made, (out, home)) in plan.layout.made.iter().zip(captured.outs.iter().zip(homes)) {
        if let (Out::Copied(from), Home::Fresh(to)) = (out, home) {
            gpu.copy(gpu.address(from), gpu.address(to), plan.sizes[made.buffer.index()])?;
        }
    }
    Ok(())
}
