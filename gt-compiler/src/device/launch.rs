//! From pieces to the launches of a device with memory of its own.
//!
//! Pieces that hand each other rows are one launch: one kernel where they walk the same elements,
//! else kernels one after the other over the same rows, each of which a few threads take from the
//! first to the last. Kernels that know nothing of each other are one launch too, each with blocks
//! of its own: an optimizer over all parameters. Exact: every element is computed by the same
//! operations in the same order, and folds have the order they have alone. The result depends on
//! the pieces alone.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::DType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::affine::{self, Affine};
use crate::{
    kernel::{Expr, KernelSpec},
    options::Numerics,
    schedule::{
        BufferId, Group, KernelPiece, KernelStage, MAX_PIECES, MatMul, Multiplier, Piece,
        ScalarArg, Schedule, Uses, distance_in, group, kernels, together,
    },
};

/// Rows from which on a device is busy with one row a few threads.
const ROWS: usize = 64;
/// Elements of a row that are a few threads' work however few rows there are.
const SHORT: usize = 4 << 10;
/// Elements of a row at most.
const LONG: usize = 64 << 10;
/// Bytes that kernels of a row may hand each other: what every device has for a block, with room
/// for what folds need.
const HANDED: usize = 40 << 10;
/// Buffers of kernels side by side: a launch takes four kilobytes of arguments.
const BUFFERS: usize = 480;
/// Launches a kernel may overtake to stand beside another.
const REACH: usize = 16;

/// The work that a device is asked for at once.
#[derive(Clone, Debug)]
pub(crate) enum Launch {
    Piece(Piece),
    /// A product, and what is done to its rows.
    Affine(Box<MatMul>, Affine),
    /// Several kernels, and what they work on: buffers and scalars by argument.
    Joint {
        work: Box<Joint>,
        buffers: Vec<BufferId>,
        scalars: Vec<ScalarArg>,
    },
}

/// Kernels of one launch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Joint {
    pub(crate) way: Way,
    pub(crate) parts: Vec<Part>,
    /// Element types of the buffers, in argument order.
    pub(crate) buffers: Vec<DType>,
    /// Types of the scalars.
    pub(crate) scalars: Vec<DType>,
}

/// How the parts of a launch go together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Way {
    /// They know nothing of each other.
    Beside,
    /// One after the other over the same rows, which loop 0 of each walks. Bytes of a row of each
    /// local.
    Rows { rows: usize, locals: Vec<usize> },
}

/// A kernel of a launch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) spec: KernelSpec,
    /// The place of each of its buffers.
    pub(crate) slots: Vec<Slot>,
    /// The launch's scalar that is its first one. Kernels along rows share all of them.
    pub(crate) first_scalar: usize,
}

/// The place of a buffer of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Slot {
    /// The launch's argument with this number.
    Argument(u16),
    /// A value that only the parts of this launch know, row by row.
    Local(u16),
}

/// The launches of a schedule, in an order that respects what they read; none for pieces that have
/// nothing to do.
pub(crate) fn launches(
    schedule: &mut Schedule,
    n_inputs: usize,
    numerics: Numerics,
) -> Vec<Launch> {
    schedule.pieces.retain(|piece| !is_empty(piece));
    let affine = affine::take(schedule, n_inputs, numerics);
    for piece in &mut schedule.pieces {
        if let Piece::MatMul(work) = piece {
            work.by = Multiplier::Library;
        }
    }
    let joiner = Joiner::new(schedule);
    let groups = group(&schedule.pieces, MAX_PIECES);
    let with_rows = |launch| {
        let Launch::Piece(Piece::MatMul(work)) = launch else { return launch };
        match affine.get(&work.out) {
            Some(affine) => Launch::Affine(work, *affine),
            None => Launch::Piece(Piece::MatMul(work)),
        }
    };
    beside(groups.iter().flat_map(|group| joiner.divide(group)).map(with_rows).collect())
}

/// Whether a piece has nothing to do: no elements to compute, and no indices to look at.
fn is_empty(piece: &Piece) -> bool {
    match piece {
        Piece::MatMul(m) => m.m * m.n * m.batch.iter().product::<usize>() == 0,
        Piece::Routine(r) => {
            let looks_at_indices = r.can_fail() && r.inputs[1].1.shape.numel() > 0;
            r.out_ty.shape.numel() == 0 && !looks_at_indices
        }
        Piece::Kernel(k) => k.spec.parallel_len() == 0,
        Piece::Fold(f) => f.len == 0,
        Piece::Attention(_) => false,
    }
}

impl Uses for Launch {
    fn reads(&self) -> SmallVec<[BufferId; 4]> {
        match self {
            Launch::Piece(piece) => piece.reads(),
            Launch::Affine(work, affine) => {
                SmallVec::from_slice(&[work.lhs.buffer, work.rhs.buffer, affine.bias])
            }
            Launch::Joint { work, buffers, .. } => {
                let reads = work.parts.iter().flat_map(Part::reads);
                reads.map(|n| buffers[usize::from(n)]).collect()
            }
        }
    }

    fn writes(&self) -> SmallVec<[BufferId; 2]> {
        match self {
            Launch::Piece(piece) => piece.writes(),
            Launch::Affine(work, _) => SmallVec::from_slice(&[work.out]),
            Launch::Joint { work, buffers, .. } => {
                let writes = work.parts.iter().flat_map(Part::writes);
                writes.map(|n| buffers[usize::from(n)]).collect()
            }
        }
    }

    fn can_fail(&self) -> bool {
        matches!(self, Launch::Piece(Piece::Routine(routine)) if routine.can_fail())
    }

    /// If there are several kernels, only the kernel that writes `out` may read `input`.
    fn distance(&self, input: BufferId, out: BufferId) -> Option<usize> {
        match self {
            Launch::Piece(Piece::Kernel(k)) => {
                distance_in(&k.spec, |b| Some(k.buffer(b)), input, out)
            }
            Launch::Joint { work, buffers, .. } => {
                let mut found = None;
                for part in &work.parts {
                    let of = |b: u16| part.argument(b).map(|n| buffers[usize::from(n)]);
                    if part.spec.loads().any(|(b, _)| of(b) == Some(input)) {
                        found = Some(distance_in(&part.spec, of, input, out)?);
                    }
                }
                found
            }
            Launch::Piece(_) | Launch::Affine(..) => None,
        }
    }
}

impl Part {
    /// The launch's arguments it reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = u16> {
        self.spec.loads().filter_map(|(buffer, _)| self.argument(buffer))
    }

    /// The launch's arguments it writes.
    pub(crate) fn writes(&self) -> impl Iterator<Item = u16> {
        self.spec.stores.iter().filter_map(|store| self.argument(store.buffer))
    }

    /// The launch's argument that a buffer of this part is.
    pub(crate) fn argument(&self, buffer: u16) -> Option<u16> {
        match self.slots[usize::from(buffer)] {
            Slot::Argument(n) => Some(n),
            Slot::Local(_) => None,
        }
    }
}

/// The facts that joining depends on.
struct Joiner<'s> {
    pieces: &'s [Piece],
    sizes: &'s [usize],
    outputs: BTreeSet<BufferId>,
    /// The pieces that read each buffer.
    readers: BTreeMap<BufferId, Vec<usize>>,
}

impl<'s> Joiner<'s> {
    fn new(schedule: &'s Schedule) -> Joiner<'s> {
        let mut readers: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
        for (p, piece) in schedule.pieces.iter().enumerate() {
            piece.reads().into_iter().for_each(|b| readers.entry(b).or_default().push(p));
        }
        let outputs = schedule.outputs.iter().map(|(b, _)| *b).collect();
        Joiner { pieces: &schedule.pieces, sizes: &schedule.sizes, outputs, readers }
    }

    /// A group as launches, each of as many pieces as go together.
    fn divide(&self, group: &Group) -> Vec<Launch> {
        let (mut rest, mut out) = (&group.pieces[..], Vec::new());
        while let [first, ..] = *rest {
            let whole = (2..=rest.len()).rev();
            let joined = whole.into_iter().find_map(|n| Some((n, self.joined(&rest[..n])?)));
            let (n, launch) =
                joined.unwrap_or_else(|| (1, Launch::Piece(self.pieces[first].clone())));
            out.push(launch);
            rest = &rest[n..];
        }
        out
    }

    /// Pieces as one launch, rows as fine as these pieces allow: some of a group often allow finer
    /// ones than all of it.
    fn joined(&self, numbers: &[usize]) -> Option<Launch> {
        let members: SmallVec<[&Piece; 8]> = numbers.iter().map(|&p| &self.pieces[p]).collect();
        let needed = self.needed(numbers);
        together(&members).iter().rev().find_map(|&rows| {
            let mut stages = kernels(&members, rows, &needed)?;
            match stages.len() {
                1 => stages.pop().map(|stage| Launch::Piece(Piece::Kernel(Box::new(alone(stage))))),
                _ => self.rowwise(stages, rows, &needed),
            }
        })
    }

    /// The buffers of pieces that others read.
    fn needed(&self, numbers: &[usize]) -> BTreeSet<BufferId> {
        let is_needed = |b: &BufferId| {
            let mut readers = self.readers.get(b).into_iter().flatten();
            self.outputs.contains(b) || readers.any(|p| !numbers.contains(p))
        };
        numbers.iter().flat_map(|&p| self.pieces[p].writes()).filter(is_needed).collect()
    }

    /// Kernels one after the other over the same rows, where few threads can do a row of each.
    fn rowwise(
        &self,
        stages: Vec<KernelStage>,
        rows: usize,
        needed: &BTreeSet<BufferId>,
    ) -> Option<Launch> {
        let rows_of: Option<Vec<Row>> = stages.iter().map(|stage| Row::of(&stage.spec)).collect();
        let rows_of = rows_of?;
        let longest = rows_of.iter().map(|row| row.len).max()?;
        let mut folded = rows_of.iter().filter(|row| row.folds).map(|row| row.len);
        let equal = folded.next().is_none_or(|first| folded.all(|len| len == first));
        if !equal || longest > LONG || rows < ROWS && longest > SHORT {
            return None;
        }
        let written =
            stages.iter().flat_map(|s| s.spec.stores.iter().map(|t| s.argument(t.buffer)));
        let local: BTreeSet<BufferId> =
            written.map(|argument| argument.buffer).filter(|b| !needed.contains(b)).collect();
        let locals: Vec<usize> = local.iter().map(|b| self.sizes[b.index()] / rows).collect();
        if locals.iter().map(|bytes| bytes.next_multiple_of(16)).sum::<usize>() > HANDED {
            return None;
        }
        let mut joining = Joining::new(Way::Rows { rows, locals });
        for stage in stages {
            let buffers: Vec<BufferId> = stage.arguments.iter().map(|a| a.buffer).collect();
            joining.add(stage.spec, &buffers, &stage.scalars, &local);
        }
        Some(joining.finish())
    }
}

/// The work of a kernel in one row.
struct Row {
    /// Elements it walks.
    len: usize,
    folds: bool,
}

impl Row {
    /// `None` where it makes several folds of a row.
    fn of(spec: &KernelSpec) -> Option<Row> {
        let along = |reduce: bool| {
            let loops = spec.loops[1..].iter().filter(|l| l.reduce == reduce);
            loops.map(|l| l.extent).product::<usize>()
        };
        let (kept, folded) = (along(false), along(true));
        let folds = spec.stores.iter().any(|store| store.fold.is_some());
        (kept == 1 || folded == 1).then_some(Row { len: kept * folded, folds })
    }
}

/// A stage as a piece of its own.
fn alone(stage: KernelStage) -> KernelPiece {
    let buffers = stage.arguments.iter().map(|argument| argument.buffer).collect();
    KernelPiece { spec: stage.spec, buffers, scalars: stage.scalars, cut: None, apart: true }
}

/// A launch as it grows.
struct Joining {
    work: Joint,
    buffers: Vec<BufferId>,
    scalars: Vec<ScalarArg>,
}

impl Joining {
    fn new(way: Way) -> Joining {
        let work = Joint { way, parts: Vec::new(), buffers: Vec::new(), scalars: Vec::new() };
        Joining { work, buffers: Vec::new(), scalars: Vec::new() }
    }

    /// Adds a kernel; `local` are the buffers that only this launch knows, in order.
    fn add(
        &mut self,
        mut spec: KernelSpec,
        buffers: &[BufferId],
        scalars: &[ScalarArg],
        local: &BTreeSet<BufferId>,
    ) {
        let known = buffers.iter().zip(&spec.buffers);
        let slot = |(&b, &dtype): (&BufferId, &DType)| match local.iter().position(|l| *l == b) {
            Some(n) => Slot::Local(n as u16),
            None => Slot::Argument(number(&mut self.buffers, &mut self.work.buffers, (b, dtype))),
        };
        let slots = known.map(slot).collect();
        let first_scalar = match self.work.way {
            // Kernels with scalars of their own are equal where they compute the same.
            Way::Beside => {
                self.scalars.extend_from_slice(scalars);
                self.work.scalars.extend_from_slice(&spec.scalars);
                self.scalars.len() - scalars.len()
            }
            Way::Rows { .. } => {
                self.share(&mut spec, scalars);
                0
            }
        };
        self.work.parts.push(Part { spec, slots, first_scalar });
    }

    /// Numbers a kernel's scalars by those of the launch.
    fn share(&mut self, spec: &mut KernelSpec, scalars: &[ScalarArg]) {
        let own = scalars.iter().copied().zip(spec.scalars.iter().copied());
        let own: Vec<(ScalarArg, DType)> = own.collect();
        for node in &mut spec.nodes {
            if let Expr::Scalar(slot) = &mut node.expr {
                let scalar = own[usize::from(*slot)];
                *slot = number(&mut self.scalars, &mut self.work.scalars, scalar);
            }
        }
    }

    fn finish(mut self) -> Launch {
        if let Way::Rows { .. } = self.work.way {
            for part in &mut self.work.parts {
                part.spec.scalars.clone_from(&self.work.scalars);
            }
        }
        Launch::Joint { work: Box::new(self.work), buffers: self.buffers, scalars: self.scalars }
    }
}

/// The number of an argument of this dtype, new or known.
fn number<T: Copy + PartialEq>(all: &mut Vec<T>, dtypes: &mut Vec<DType>, new: (T, DType)) -> u16 {
    let mut known = all.iter().zip(dtypes.iter());
    let found = known.position(|(a, dtype)| (*a, *dtype) == new);
    let number = found.unwrap_or_else(|| {
        all.push(new.0);
        dtypes.push(new.1);
        all.len() - 1
    });
    number as u16 // a launch has at most BUFFERS of them, and kernels few scalars
}

/// Puts kernels that compute each element on its own beside the last such launch, where nothing
/// from there on concerns them.
fn beside(launches: Vec<Launch>) -> Vec<Launch> {
    let mut places: Vec<Place> = Vec::with_capacity(launches.len());
    let mut last = None;
    for launch in launches {
        let place = Place::of(launch);
        if !is_pointwise(&place.launch) {
            places.push(place);
            continue;
        }
        match last.filter(|&at| may_join(&places, at, &place)) {
            Some(at) => places[at].join(place),
            None => {
                last = Some(places.len());
                places.push(place);
            }
        }
    }
    places.into_iter().map(Place::finish).collect()
}

/// A launch, and those that join it.
struct Place {
    launch: Launch,
    joined: Vec<Launch>,
    reads: BTreeSet<BufferId>,
    writes: BTreeSet<BufferId>,
}

impl Place {
    fn of(launch: Launch) -> Place {
        let reads = launch.reads().into_iter().collect();
        let writes = launch.writes().into_iter().collect();
        Place { launch, joined: Vec::new(), reads, writes }
    }

    fn join(&mut self, other: Place) {
        self.joined.push(other.launch);
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
    }

    /// Whether two may run in any order.
    fn is_apart(&self, other: &Place) -> bool {
        self.writes.is_disjoint(&other.reads)
            && self.writes.is_disjoint(&other.writes)
            && self.reads.is_disjoint(&other.writes)
    }

    fn finish(self) -> Launch {
        if self.joined.is_empty() {
            return self.launch;
        }
        let mut joining = Joining::new(Way::Beside);
        for launch in [self.launch].into_iter().chain(self.joined) {
            if let Launch::Piece(Piece::Kernel(k)) = launch {
                joining.add(k.spec, &k.buffers, &k.scalars, &BTreeSet::new());
            }
        }
        joining.finish()
    }
}

fn is_pointwise(launch: &Launch) -> bool {
    let Launch::Piece(Piece::Kernel(k)) = launch else { return false };
    k.cut.is_none() && k.spec.stores.iter().all(|store| store.fold.is_none())
}

fn may_join(places: &[Place], at: usize, new: &Place) -> bool {
    let n_buffers = [&places[at], new].map(|p| p.reads.len() + p.writes.len());
    places.len() - at <= REACH
        && n_buffers.iter().sum::<usize>() <= BUFFERS
        && places[at..].iter().all(|place| place.is_apart(new))
}
