//! Where the buffers of a plan lie: lifetimes over its steps, one arena, donated inputs taken for
//! results.
//!
//! The rule of taking is the native engine's: a result takes the memory of a donated input of its
//! size that nobody reads after the step that writes the result first, and in that step only
//! element by element; and no step from there on may find its data unfit. So a run that fails on
//! its data has changed no input.

use std::collections::BTreeMap;

use super::plan::{Found, Plan, WORD};
use crate::{
    device::Launch,
    kernel::{Expr, KernelSpec},
    schedule::{BufferId, Life, Piece, Place, layout},
};

/// Alignment of buffers in the arena: a device loads whole lines from it.
const ALIGN: usize = 256;
/// The distance of what is not computed from each other.
const FAR: usize = usize::MAX;

/// Gives every buffer its place.
pub(super) fn place(plan: &mut Plan, launches: &[Launch], donated: &[bool]) {
    let lives = lives(plan.sizes.len(), launches);
    plan.first_write = first_writes(plan.sizes.len(), launches);
    plan.is_read = lives[..plan.inputs.len()].iter().map(Option::is_some).collect();
    plan.donated = (0..plan.inputs.len()).map(|i| donated.get(i) == Some(&true)).collect();
    plan.places = vec![Place::Nowhere; plan.sizes.len()];
    for i in 0..plan.inputs.len() {
        plan.places[i] = Place::Input(i as u32);
    }
    outputs(plan, launches, &lives);
    let todo = lives.iter().enumerate().filter(|(b, _)| plan.places[*b] == Place::Nowhere);
    let todo = todo.filter_map(|(b, life)| Some((b, (*life)?))).collect();
    let (places, end) = layout(&plan.sizes, todo, ALIGN);
    for (b, at) in places {
        plan.places[b] = Place::Arena(at);
    }
    plan.words = end;
    plan.arena = end + plan.n_words() * WORD;
}

/// Decides where each output is found.
fn outputs(plan: &mut Plan, launches: &[Launch], lives: &[Option<Life>]) {
    let mut first: BTreeMap<BufferId, usize> = BTreeMap::new();
    for (n, (id, _)) in plan.outputs.clone().into_iter().enumerate() {
        let found = match (plan.places[id.index()], first.get(&id)) {
            (Place::Input(i), _) => Found::Given(i as usize),
            (_, Some(&earlier)) => Found::Again(earlier),
            (_, None) => {
                plan.places[id.index()] = Place::Output { donor: None };
                plan.made.push((id, None));
                Found::Made(plan.made.len() - 1)
            }
        };
        first.entry(id).or_insert(n);
        plan.found.push(found);
    }
    donors(plan, launches, lives);
}

/// Decides which results take the memory of donated inputs: the nearest first, so that of a
/// parameter and its moments, which are computed from each other, each gets its own.
fn donors(plan: &mut Plan, launches: &[Launch], lives: &[Option<Life>]) {
    let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
    for (made, (out, _)) in plan.made.iter().enumerate() {
        let inputs = (0..plan.inputs.len()).filter(|&i| plan.donated[i]);
        pairs.extend(
            inputs.filter_map(|i| Some((distance(plan, launches, lives, i, *out)?, made, i))),
        );
    }
    pairs.sort_unstable();
    let mut taken = vec![false; plan.inputs.len()];
    for (_, made, i) in pairs {
        let (out, donor) = &mut plan.made[made];
        if donor.is_none() && !taken[i] {
            (taken[i], *donor) = (true, Some(i));
            plan.places[out.index()] = Place::Output { donor: Some(i as u32) };
        }
    }
}

fn lives(n_buffers: usize, launches: &[Launch]) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; n_buffers];
    for (step, launch) in launches.iter().enumerate() {
        for b in launch.reads().into_iter().chain(launch.writes()) {
            Life::used(&mut lives[b.index()], step);
        }
    }
    lives
}

fn first_writes(n_buffers: usize, launches: &[Launch]) -> Vec<usize> {
    let mut first = vec![launches.len(); n_buffers];
    for (step, launch) in launches.iter().enumerate().rev() {
        launch.writes().into_iter().for_each(|b| first[b.index()] = step);
    }
    first
}

/// How far a result is from an input whose memory it may take: the operations between the element
/// that is overwritten and the new one, and `FAR` where it is computed from others. `None` where it
/// may not.
fn distance(
    plan: &Plan,
    launches: &[Launch],
    lives: &[Option<Life>],
    input: usize,
    out: BufferId,
) -> Option<usize> {
    let first = lives[out.index()]?.first;
    let is_output = plan.outputs.iter().any(|(b, _)| b.index() == input);
    let fits = plan.sizes[input] == plan.sizes[out.index()];
    if first < plan.barrier() || is_output || !fits {
        return None;
    }
    match lives[input] {
        Some(read) if read.last > first => None,
        Some(read) if read.last == first => in_step(&launches[first], BufferId(input as u32), out),
        Some(_) | None => Some(FAR),
    }
}

/// The same where the launch that writes the result reads the input too: it may read just the
/// element it is about to write, and of several kernels only the one that writes may read it at
/// all.
fn in_step(launch: &Launch, input: BufferId, out: BufferId) -> Option<usize> {
    match launch {
        Launch::Piece(Piece::Kernel(k)) => over(&k.spec, |b| Some(k.buffer(b)), input, out),
        Launch::Joint { work, buffers, .. } => {
            let mut found = None;
            for part in &work.parts {
                let of = |b: u16| part.argument(b).map(|n| buffers[usize::from(n)]);
                if part.spec.loads().any(|(b, _)| of(b) == Some(input)) {
                    found = Some(over(&part.spec, of, input, out)?);
                }
            }
            found
        }
        Launch::Piece(_) | Launch::Affine(..) => None,
    }
}

/// The same for one kernel.
fn over(
    spec: &KernelSpec,
    buffer: impl Fn(u16) -> Option<BufferId>,
    input: BufferId,
    out: BufferId,
) -> Option<usize> {
    let mut stores = spec.stores.iter();
    let store = stores.find(|s| buffer(s.buffer) == Some(out) && s.fold.is_none())?;
    let mut loads = spec.loads().filter(|(b, _)| buffer(*b) == Some(input));
    if !is_one_to_one(spec, &store.access.strides) || !loads.all(|(_, at)| *at == store.access) {
        return None;
    }
    let mut distances: Vec<usize> = Vec::with_capacity(spec.nodes.len());
    for node in &spec.nodes {
        distances.push(match &node.expr {
            Expr::Load { buffer: b, .. } if buffer(*b) == Some(input) => 0,
            other => {
                let operands = other.operands();
                let nearest = operands.iter().map(|o| distances[o.0 as usize]).min();
                nearest.map_or(FAR, |n| n.saturating_add(1))
            }
        });
    }
    Some(distances[store.value.0 as usize])
}

/// Whether every iteration stores an element of its own.
fn is_one_to_one(spec: &KernelSpec, strides: &[i64]) -> bool {
    spec.loops.iter().zip(strides).all(|(l, stride)| l.extent <= 1 || *stride != 0)
}
