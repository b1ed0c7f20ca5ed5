//! Where the buffers of a plan lie: lifetimes over its steps, one arena for what does not outlive a
//! run, donated inputs for results.
//!
//! Guarantees: buffers whose lifetimes overlap never overlap in the arena. A result takes the
//! memory of a donated input of its size that no step reads after the step that writes the result
//! first; in that step the input is read element by element only, each element before the result's
//! is written in its place; and no step from there on may find its data unfit once it writes. So a
//! run that fails on its data has changed no input. A result that a step makes of a base, adding
//! some elements, lies where the base lay if nobody else needs that. Nothing is allocated here:
//! that is the engine's.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::Type;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::piece::BufferId;
use crate::{
    engine::Value,
    error::EngineError,
    kernel::{Access, Expr, KernelSpec},
};

/// The distance of a result from an input it is not computed from.
pub(crate) const FAR: usize = usize::MAX;

/// A step of a plan, as far as memory is concerned.
pub(crate) trait Uses {
    fn reads(&self) -> SmallVec<[BufferId; 4]>;

    fn writes(&self) -> SmallVec<[BufferId; 2]>;

    /// The buffers that the part of the step that writes `out` reads. [`Uses::distance`] from any
    /// other buffer that the step reads is `None`.
    fn reads_for(&self, _out: BufferId) -> Vec<BufferId> {
        self.reads().to_vec()
    }

    /// Whether it may find its data unfit.
    fn can_fail(&self) -> bool;

    /// The buffer whose memory the step may find its result in, and the result: it looks at its
    /// data before it writes, and reads the buffer as the beginning of the result only.
    fn base(&self) -> Option<(BufferId, BufferId)> {
        None
    }

    /// The operations between an element of `input` and the element of `out` that takes its place,
    /// where the step reads one and writes the other; `None` where it reads of `input` what it has
    /// overwritten by then.
    fn distance(&self, input: BufferId, out: BufferId) -> Option<usize>;
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    /// In the memory of an input.
    Input(u32),
    /// Where this one of the results is made.
    Made(u32),
    /// In the arena, from this offset on.
    Arena(usize),
    /// Nowhere: the scratch of its tile, or no step is left that uses it.
    Nowhere,
}

/// A result made by a run. It outlives the run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) buffer: BufferId,
    /// The donated input whose memory it takes, where nobody else holds that.
    pub(crate) donor: Option<usize>,
}

/// Where an output is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Found {
    /// It is this input, as it came.
    Given(usize),
    /// It is this one of the results made.
    Made(usize),
    /// It is the same value as this earlier output.
    Again(usize),
}

/// The memory a result is made in.
pub(crate) enum Home<B> {
    Fresh(B),
    /// That of this input.
    Donor(usize),
}

/// One for each result made.
pub(crate) type Homes<B> = SmallVec<[Home<B>; 4]>;

/// The memory of a plan.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// Of each buffer.
    pub(crate) places: Vec<Place>,
    pub(crate) made: Vec<Made>,
    /// Of each output.
    pub(crate) found: Vec<Found>,
    /// Bytes of the arena.
    pub(crate) arena: usize,
}

/// First and last step of a plan that uses a buffer.
#[derive(Clone, Copy)]
struct Life {
    first: usize,
    last: usize,
}

/// What a layout is made of.
pub(crate) struct Buffers<'a> {
    /// Bytes of each buffer; those of the inputs come first.
    pub(crate) sizes: &'a [usize],
    pub(crate) n_inputs: usize,
    pub(crate) outputs: &'a [(BufferId, Type)],
    /// The inputs that nobody needs after a run; where it is shorter, the rest are kept.
    pub(crate) donated: &'a [bool],
    /// Of buffers in the arena.
    pub(crate) align: usize,
}

impl Layout {
    /// Gives every buffer its place.
    pub(crate) fn new<S: Uses>(steps: &[S], buffers: &Buffers<'_>) -> Layout {
        let mut lives = lives(buffers.sizes.len(), steps);
        let places = vec![Place::Nowhere; buffers.sizes.len()];
        let mut layout = Layout { places, ..Layout::default() };
        for i in 0..buffers.n_inputs {
            layout.places[i] = Place::Input(i as u32);
        }
        layout.find(buffers.outputs);
        let bases = layout.bases(steps, &mut lives, buffers);
        layout.take(steps, &lives, buffers);
        let todo = lives.iter().enumerate().filter(|(b, _)| layout.places[*b] == Place::Nowhere);
        let is_base = |b: usize| bases.iter().any(|(base, _)| base.index() == b);
        let todo = todo.filter(|(b, _)| !is_base(*b));
        let todo = todo.filter_map(|(b, life)| Some((b, (*life)?))).collect();
        let (places, end) = arena(buffers.sizes, todo, buffers.align);
        for (b, at) in places {
            layout.places[b] = Place::Arena(at);
        }
        for (base, out) in bases.into_iter().rev() {
            layout.places[base.index()] = layout.places[out.index()];
        }
        layout.arena = end;
        layout
    }

    /// The bases that lie where their results do, in order: those of this run's own making that
    /// nobody reads afterwards. A result lives from the first step of its base on.
    fn bases<S: Uses>(
        &self,
        steps: &[S],
        lives: &mut [Option<Life>],
        buffers: &Buffers<'_>,
    ) -> Vec<(BufferId, BufferId)> {
        let mut found = Vec::new();
        for (step, (base, out)) in
            steps.iter().enumerate().filter_map(|(i, s)| Some((i, s.base()?)))
        {
            let (Some(of), Some(to)) = (lives[base.index()], lives[out.index()]) else { continue };
            let own = self.places[base.index()] == Place::Nowhere;
            let size = |b: BufferId| buffers.sizes[b.index()];
            if own && of.last == step && to.first == step && size(base) == size(out) {
                lives[out.index()] = Some(Life { first: of.first, last: to.last });
                found.push((base, out));
            }
        }
        found
    }

    /// Decides where each output is found.
    fn find(&mut self, outputs: &[(BufferId, Type)]) {
        let mut first: BTreeMap<BufferId, usize> = BTreeMap::new();
        for (n, (id, _)) in outputs.iter().enumerate() {
            let found = match (self.places[id.index()], first.get(id)) {
                (Place::Input(i), _) => Found::Given(i as usize),
                (_, Some(&earlier)) => Found::Again(earlier),
                (_, None) => {
                    self.places[id.index()] = Place::Made(self.made.len() as u32);
                    self.made.push(Made { buffer: *id, donor: None });
                    Found::Made(self.made.len() - 1)
                }
            };
            first.entry(*id).or_insert(n);
            self.found.push(found);
        }
    }

    /// Decides which results take the memory of donated inputs: the nearest first, so that of a
    /// parameter and its moments, which are computed from each other, each gets its own.
    fn take<S: Uses>(&mut self, steps: &[S], lives: &[Option<Life>], buffers: &Buffers<'_>) {
        let sizes = buffers.sizes;
        let barrier = steps.iter().rposition(S::can_fail).map_or(0, |step| step + 1);
        let distance = |input: usize, out: BufferId, beside: &[BufferId]| {
            let first = lives[out.index()]?.first;
            if sizes[input] != sizes[out.index()] {
                return None;
            }
            let id = BufferId(input as u32);
            if first + 1 == barrier && steps[first].base() == Some((id, out)) {
                return (lives[input]?.last == first).then_some(0);
            }
            match lives[input] {
                _ if first < barrier => None,
                Some(read) if read.last > first => None,
                Some(read) if read.last == first => {
                    beside.contains(&id).then(|| steps[first].distance(id, out))?
                }
                Some(_) | None => Some(FAR),
            }
        };
        let outputs: BTreeSet<usize> = buffers.outputs.iter().map(|(b, _)| b.index()).collect();
        let is_free = |i: &usize| buffers.donated.get(*i) == Some(&true) && !outputs.contains(i);
        let donors: Vec<usize> = (0..buffers.n_inputs).filter(is_free).collect();
        let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
        for (n, Made { buffer, .. }) in self.made.iter().enumerate() {
            let first = lives[buffer.index()].map(|life| &steps[life.first]);
            let beside = first.map(|step| step.reads_for(*buffer)).unwrap_or_default();
            let donors = donors.iter();
            pairs.extend(donors.filter_map(|&i| Some((distance(i, *buffer, &beside)?, n, i))));
        }
        pairs.sort_unstable();
        let mut taken = vec![false; buffers.n_inputs];
        for (_, n, i) in pairs {
            let donor = &mut self.made[n].donor;
            if donor.is_none() && !taken[i] {
                (taken[i], *donor) = (true, Some(i));
            }
        }
    }

    /// Memory for the results of a run: that of donors that are free, else new.
    pub(crate) fn homes<B>(
        &self,
        is_free: impl Fn(usize) -> bool,
        mut alloc: impl FnMut(BufferId) -> Result<B, EngineError>,
    ) -> Result<Homes<B>, EngineError> {
        let home = |made: &Made| match made.donor.filter(|&i| is_free(i)) {
            Some(i) => Ok(Home::Donor(i)),
            None => alloc(made.buffer).map(Home::Fresh),
        };
        self.made.iter().map(home).collect()
    }

    /// The address of each buffer in a run.
    pub(crate) fn addresses<A: Copy, B>(
        &self,
        homes: &[Home<B>],
        input: impl Fn(usize) -> A,
        arena: impl Fn(usize) -> A,
        block: impl Fn(&B) -> A,
        nowhere: A,
    ) -> impl Iterator<Item = A> {
        self.places.iter().map(move |place| match place {
            Place::Input(i) => input(*i as usize),
            Place::Arena(at) => arena(*at),
            Place::Made(n) => match &homes[*n as usize] {
                Home::Fresh(memory) => block(memory),
                Home::Donor(i) => input(*i),
            },
            Place::Nowhere => nowhere,
        })
    }

    /// The values of a run; `made` gives the value of this type in that memory.
    pub(crate) fn values<B>(
        &self,
        outputs: &[(BufferId, Type)],
        inputs: &[&Value],
        homes: &[Home<B>],
        made: impl Fn(Type, &Home<B>) -> Result<Value, EngineError>,
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        let mut values: SmallVec<[Value; 4]> = SmallVec::new();
        for (found, &(_, ty)) in self.found.iter().zip(outputs) {
            let value = match found {
                Found::Given(i) => Value { ty, storage: inputs[*i].storage.clone() },
                Found::Again(n) => Value { ty, storage: values[*n].storage.clone() },
                Found::Made(n) => made(ty, &homes[*n])?,
            };
            values.push(value);
        }
        Ok(values)
    }
}

fn lives<S: Uses>(n_buffers: usize, steps: &[S]) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; n_buffers];
    for (step, uses) in steps.iter().enumerate() {
        for b in uses.reads().into_iter().chain(uses.writes()) {
            lives[b.index()].get_or_insert(Life { first: step, last: step }).last = step;
        }
    }
    lives
}

/// The distance of `out` from `input` in one kernel, which may read of `input` just the element of
/// `out` that it is about to write. Elements of another size lie elsewhere, though the buffers have
/// the same bytes: half of an `f32` input as `f64`. `buffer` names the buffer of an argument.
pub(crate) fn distance_in(
    spec: &KernelSpec,
    buffer: impl Fn(u16) -> Option<BufferId>,
    input: BufferId,
    out: BufferId,
) -> Option<usize> {
    let mut stores = spec.stores.iter();
    let store = stores.find(|s| buffer(s.buffer) == Some(out) && s.fold.is_none())?;
    let width = |b: u16| spec.buffers[usize::from(b)].size();
    let mut loads = spec.loads().filter(|(b, _)| buffer(*b) == Some(input));
    let is_same = |(b, at): (u16, &Access)| *at == store.access && width(b) == width(store.buffer);
    if !is_one_to_one(spec, &store.access.strides) || !loads.all(is_same) {
        return None;
    }
    let mut distances: Vec<usize> = Vec::with_capacity(spec.nodes.len());
    for node in &spec.nodes {
        let reads =
            |e: &Expr| matches!(e, Expr::Load { buffer: b, .. } if buffer(*b) == Some(input));
        distances.push(if reads(&node.expr) {
            0
        } else {
            let operands = node.expr.operands();
            let nearest = operands.iter().map(|o| distances[o.0 as usize]).min();
            nearest.map_or(FAR, |n| n.saturating_add(1))
        });
    }
    Some(distances[store.value.0 as usize])
}

/// Whether every iteration stores an element of its own.
fn is_one_to_one(spec: &KernelSpec, strides: &[i64]) -> bool {
    spec.loops.iter().zip(strides).all(|(l, stride)| l.extent <= 1 || *stride != 0)
}

/// Offsets for these buffers by their lifetimes, first fit, larger buffers first; and the end of
/// all.
fn arena(
    sizes: &[usize],
    mut todo: Vec<(usize, Life)>,
    align: usize,
) -> (Vec<(usize, usize)>, usize) {
    todo.sort_by_key(|(b, life)| (std::cmp::Reverse(sizes[*b]), life.first, *b));
    let mut placed: Vec<(usize, usize, Life)> = Vec::new(); // start, end, life; by start
    let (mut places, mut end) = (Vec::with_capacity(todo.len()), 0);
    for (b, life) in todo {
        // At least a line: code may load what does not change in a loop before it knows that the
        // loop has no rounds.
        let size = sizes[b].max(1).next_multiple_of(align);
        let mut at = 0;
        for (start, stop, other) in &placed {
            let overlaps = other.first <= life.last && life.first <= other.last;
            if !overlaps {
                continue;
            }
            if at + size <= *start {
                break;
            }
            at = at.max(*stop);
        }
        places.push((b, at));
        let position = placed.partition_point(|(start, ..)| *start <= at);
        placed.insert(position, (at, at + size, life));
        end = end.max(at + size);
    }
    (places, end)
}

#[cfg(test)]
mod tests {
    use gt_ir::{DType, Shape};

    use super::*;

    /// Reads inputs and writes results; each result is as far from each input as is said.
    struct Step {
        reads: Vec<u32>,
        writes: Vec<u32>,
        fails: bool,
        base: Option<(u32, u32)>,
        near: fn(u32, u32) -> Option<usize>,
    }

    impl Uses for Step {
        fn reads(&self) -> SmallVec<[BufferId; 4]> {
            self.reads.iter().map(|&b| BufferId(b)).collect()
        }

        fn writes(&self) -> SmallVec<[BufferId; 2]> {
            self.writes.iter().map(|&b| BufferId(b)).collect()
        }

        fn can_fail(&self) -> bool {
            self.fails
        }

        fn base(&self) -> Option<(BufferId, BufferId)> {
            self.base.map(|(base, out)| (BufferId(base), BufferId(out)))
        }

        fn distance(&self, input: BufferId, out: BufferId) -> Option<usize> {
            (self.near)(input.0, out.0)
        }
    }

    /// Two donated inputs, 0 and 1, and the donors of the results 2 and 3; 3 is given twice.
    fn donors(steps: &[Step]) -> Vec<Option<usize>> {
        let ty = Type::new(DType::F32, Shape::new(&[4]).unwrap());
        let layout = Layout::new(
            steps,
            &Buffers {
                sizes: &[16; 4],
                n_inputs: 2,
                outputs: &[2, 3, 3].map(|b| (BufferId(b), ty)),
                donated: &[true; 2],
                align: 64,
            },
        );
        assert_eq!(layout.found, [Found::Made(0), Found::Made(1), Found::Again(1)]);
        layout.made.iter().map(|made| made.donor).collect()
    }

    fn step(reads: &[u32], writes: &[u32], near: fn(u32, u32) -> Option<usize>) -> Step {
        Step { reads: reads.to_vec(), writes: writes.to_vec(), fails: false, base: None, near }
    }

    #[test]
    fn results_take_the_nearest_donors() {
        let crossed = |input, out| Some(if input + out == 3 { 1 } else { 2 });
        assert_eq!(donors(&[step(&[0, 1], &[2, 3], crossed)]), [Some(1), Some(0)]);
        let only = |input, out| (input == 0 && out == 3).then_some(5);
        assert_eq!(donors(&[step(&[0, 1], &[2, 3], only)]), [None, Some(0)]);
    }

    #[test]
    fn nothing_is_overwritten_before_it_is_read_or_while_a_step_may_fail() {
        let all = |_, _| Some(0);
        let later = [step(&[0], &[2], all), step(&[0], &[3], all)];
        assert_eq!(donors(&later), [Some(1), Some(0)]);
        let failing = Step { fails: true, ..step(&[], &[3], all) };
        assert_eq!(donors(&[step(&[0, 1], &[2], all), failing]), [None, None]);
    }
    #[test]
    fn a_result_lies_where_its_base_lay() {
        let none = |_, _| None;
        let added = |base, out| Step {
            fails: true,
            base: Some((base, out)),
            ..step(&[base], &[out], none)
        };
        // A donated base that nobody reads later; one that is read later.
        assert_eq!(donors(&[step(&[], &[3], none), added(0, 2)]), [Some(0), None]);
        assert_eq!(donors(&[added(0, 2), step(&[0], &[3], none)])[0], None);
        // A failure after the base was changed would leave it changed.
        assert_eq!(donors(&[added(0, 2), added(1, 3)]), [None, Some(1)]);
    }

    #[test]
    fn a_base_in_the_arena_shares_its_place_with_the_result() {
        let none = |_, _| None;
        let ty = Type::new(DType::F32, Shape::new(&[4]).unwrap());
        let place = |last: &[u32]| {
            let added = Step { base: Some((1, 2)), ..step(&[1], &[2], none) };
            let steps = [step(&[0], &[1], none), added, step(last, &[3], none)];
            let buffers = Buffers {
                sizes: &[16; 4],
                n_inputs: 1,
                outputs: &[(BufferId(3), ty)],
                donated: &[],
                align: 64,
            };
            let layout = Layout::new(&steps, &buffers);
            (layout.places[1], layout.places[2])
        };
        assert_eq!(place(&[2]), (Place::Arena(0), Place::Arena(0)));
        let (base, out) = place(&[1, 2]);
        assert!(base != out, "the base is read afterwards");
    }
}
