//! Where the buffers of a plan lie: lifetimes over its steps, one arena, donated inputs taken for results.
//!
//! The rule of taking is the native engine's: a result takes the memory of a donated input of its size that nobody reads after the step
//! that writes the result first, and in that step only element by element; and no step from there on may find its data unfit. So a run
//! that fails on its data has changed no input.

use std::collections::BTreeMap;

use super::plan::{Found, Plan, WORD};
use crate::native::{BufferId, KernelPiece, Life, Piece, Place, layout};

/// Alignment of buffers in the arena: a device loads whole lines from it.
const ALIGN: usize = 256;

/// Gives every buffer its place.
pub(super) fn place(plan: &mut Plan, pieces: &[Piece], donated: &[bool]) {
    let lives = lives(plan.sizes.len(), pieces);
    plan.first_write = first_writes(plan.sizes.len(), pieces);
    plan.is_read = lives[..plan.inputs.len()].iter().map(Option::is_some).collect();
    plan.donated = (0..plan.inputs.len()).map(|i| donated.get(i) == Some(&true)).collect();
    plan.places = vec![Place::Nowhere; plan.sizes.len()];
    for i in 0..plan.inputs.len() {
        plan.places[i] = Place::Input(i as u32);
    }
    outputs(plan, pieces, &lives);
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
fn outputs(plan: &mut Plan, pieces: &[Piece], lives: &[Option<Life>]) {
    let mut first: BTreeMap<BufferId, usize> = BTreeMap::new();
    for (n, (id, _)) in plan.outputs.clone().into_iter().enumerate() {
        let found = match (plan.places[id.index()], first.get(&id)) {
            (Place::Input(i), _) => Found::Given(i as usize),
            (_, Some(&earlier)) => Found::Again(earlier),
            (_, None) => {
                let donor = donor(plan, pieces, id, lives);
                plan.places[id.index()] = Place::Output { donor: donor.map(|i| i as u32) };
                plan.made.push((id, donor));
                Found::Made(plan.made.len() - 1)
            }
        };
        first.entry(id).or_insert(n);
        plan.found.push(found);
    }
}

fn lives(n_buffers: usize, pieces: &[Piece]) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; n_buffers];
    for (step, piece) in pieces.iter().enumerate() {
        for b in piece.reads().into_iter().chain(piece.writes()) {
            Life::used(&mut lives[b.index()], step);
        }
    }
    lives
}

fn first_writes(n_buffers: usize, pieces: &[Piece]) -> Vec<usize> {
    let mut first = vec![pieces.len(); n_buffers];
    for (step, piece) in pieces.iter().enumerate().rev() {
        piece.writes().into_iter().for_each(|b| first[b.index()] = step);
    }
    first
}

/// A donated input whose memory a result may take.
fn donor(plan: &Plan, pieces: &[Piece], out: BufferId, lives: &[Option<Life>]) -> Option<usize> {
    let first = lives[out.index()]?.first;
    if first < plan.barrier() {
        return None;
    }
    let fits = |i: usize| {
        plan.donated[i]
            && plan.made.iter().all(|(_, taken)| *taken != Some(i))
            && plan.outputs.iter().all(|(b, _)| b.index() != i)
            && plan.sizes[i] == plan.sizes[out.index()]
    };
    let is_over = |i: usize| match lives[i] {
        None => true,
        Some(read) if read.last == first => is_in_step(&pieces[first], BufferId(i as u32), out),
        Some(read) => read.last < first,
    };
    (0..plan.inputs.len()).find(|&i| fits(i) && is_over(i))
}

/// Whether a piece reads of `input` just the element of `out` it is about to write.
fn is_in_step(piece: &Piece, input: BufferId, out: BufferId) -> bool {
    let Piece::Kernel(k) = piece else { return false };
    let store = k.spec.stores.iter().find(|s| k.buffer(s.buffer) == out && s.fold.is_none());
    let Some(store) = store.filter(|s| is_one_to_one(k, &s.access.strides)) else { return false };
    k.spec.loads().all(|(b, access)| k.buffer(b) != input || *access == store.access)
}

/// Whether every iteration stores an element of its own, reduce loops left out since a store without a fold has none.
fn is_one_to_one(k: &KernelPiece, strides: &[i64]) -> bool {
    k.spec.loops.iter().zip(strides).all(|(l, stride)| l.extent <= 1 || *stride != 0)
}
