//! What there is to decide: the instructions of a segment with the ways to compute each on a mesh,
//! and the values between them. The walk of the partitioner notes it (`sharder`), so a plan names
//! values as the walk does.

use gt_ir::layout::{Layout, Mesh, Spread};
use gt_ir::{Class, Op, OperandType, Type};
use smallvec::SmallVec;

use crate::shard::choose::Strategy;
use crate::shard::cost::{Rates, fuses, is_fused};
use crate::shard::lanes::volume;

/// The most ways to compute an instruction, and layouts of a value, that are considered.
pub(in crate::shard) const MAX_WAYS: usize = 48;

/// The instructions and values of a segment on one mesh.
#[derive(Clone, Debug)]
pub(in crate::shard) struct Problem {
    /// All of a value on each member of the mesh.
    pub(in crate::shard) whole: Layout,
    /// The values, by the walk's numbers.
    pub(super) values: Vec<Noted>,
    /// How many values the walk has named after each value of the segment: an instruction may be
    /// several to the walk.
    pub(super) ends: Vec<usize>,
    /// Pairs of a result and the value from before that it replaces.
    pub(super) heirs: Vec<(usize, usize)>,
}

/// A value, and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) ty: Type,
    pub(super) source: Source,
    /// Whether the segment leaves it.
    pub(super) kept: bool,
    /// How many values of a longer segment it stands for.
    pub(super) times: f64,
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Each member makes it by itself, in any layout.
    Made,
    /// It is there before.
    Given {
        /// The layouts that it may have, with the seconds that each takes.
        layouts: Vec<(Layout, f64)>,
        /// Whether it is an upload.
        upload: bool,
    },
    /// An instruction.
    Computed(Box<Instruction>),
}

#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub(super) op: Op,
    /// The operands; none of a literal or of a value that each member makes.
    pub(super) operands: SmallVec<[Option<usize>; 3]>,
    pub(super) types: SmallVec<[OperandType; 3]>,
    /// The ways to compute it, each with a member's part of the work.
    pub(super) ways: Vec<(Strategy, f64)>,
}

impl Problem {
    pub(in crate::shard) fn new(mesh: &std::sync::Arc<Mesh>) -> Problem {
        let whole = Layout::whole(std::sync::Arc::clone(mesh));
        Problem { whole, values: Vec::new(), ends: Vec::new(), heirs: Vec::new() }
    }

    /// Notes that all values so far are of the segment's values so far.
    pub(in crate::shard) fn end(&mut self) {
        self.ends.push(self.values.len());
    }

    /// Has each value of the segment stand for so many.
    pub(in crate::shard) fn stand_for(&mut self, times: &[f64]) {
        let mut first = 0;
        for (&end, &times) in self.ends.iter().zip(times) {
            self.values[first..end].iter_mut().for_each(|value| value.times = times);
            first = end;
        }
    }

    fn push(&mut self, ty: Type, source: Source) {
        self.values.push(Noted { ty, source, kept: false, times: 1.0 });
    }

    /// Notes the next value: one that each member makes.
    pub(in crate::shard) fn made(&mut self, ty: Type) {
        self.push(ty, Source::Made);
    }

    /// Notes the next value: one that is there before, in one of these layouts.
    pub(in crate::shard) fn given(&mut self, ty: Type, layouts: Vec<(Layout, f64)>, upload: bool) {
        self.push(ty, Source::Given { layouts, upload });
    }

    /// Notes the next value: the result of an instruction.
    pub(in crate::shard) fn computed(
        &mut self,
        op: &Op,
        (operands, types): (SmallVec<[Option<usize>; 3]>, &[OperandType]),
        ty: Type,
        ways: Vec<(Strategy, f64)>,
    ) {
        let is_moved = |value: &usize| !matches!(self.values[*value].source, Source::Made);
        let operands = operands.into_iter().map(|value| value.filter(is_moved)).collect();
        let source = Source::Computed(Box::new(Instruction {
            op: *op,
            operands,
            types: types.into(),
            ways,
        }));
        self.push(ty, source);
    }

    /// Notes that the segment leaves a value, and which value from before it replaces.
    pub(in crate::shard) fn kept(&mut self, value: usize, heir_of: Option<usize>) {
        self.values[value].kept = true;
        self.heirs.extend(heir_of.map(|before| (value, before)));
    }

    /// The layouts that a value from before may have: whole, or one dimension split along each axis
    /// of the mesh.
    pub(in crate::shard) fn layouts(whole: &Layout, ty: &Type) -> Vec<Layout> {
        let mut found = vec![whole.clone()];
        for axis in 0..whole.spreads.len() {
            for at in 0..found.len() {
                for dim in 0..ty.shape.rank() {
                    let (n, size) = (whole.mesh.sizes()[axis], ty.shape.sizes()[dim]);
                    if size >= n && !found[at].splits(dim) && found.len() < MAX_WAYS {
                        let part = Spread::Split { dim: dim as u8, chunk: size.div_ceil(n) };
                        found.push(found[at].with(axis, part));
                    }
                }
            }
        }
        found
    }

    /// Has members share out what is replaced, by the level of ZeRO: the state of optimizers, which
    /// takes part in nothing but updates element by element, and from level 3 on parameters.
    pub(in crate::shard) fn share(&mut self, level: u8) {
        let uses = self.uses();
        for &(_, before) in &self.heirs {
            let shape = self.values[before].ty.shape;
            let updates = |&(user, _): &(usize, usize)| {
                let same = self.values[user].ty.shape.same_sizes(&shape);
                self.class(user) == Some(Class::Pointwise) && same
            };
            let is_state = uses[before].iter().all(updates);
            let shared = level > 2 || level > 0 && is_state;
            let ty = self.values[before].ty;
            if let Source::Given { layouts, .. } = &mut self.values[before].source
                && shared
                && let Some(parts) = parts(layouts, &ty)
            {
                *layouts = vec![parts];
            }
        }
    }

    /// For each value the instructions that use it, each with its operand's place. What nothing
    /// that the segment leaves depends on uses nothing.
    pub(super) fn uses(&self) -> Vec<Vec<(usize, usize)>> {
        let mut uses = vec![Vec::new(); self.values.len()];
        for (at, value) in self.values.iter().enumerate().rev() {
            let Source::Computed(instruction) = &value.source else { continue };
            if !value.kept && uses[at].is_empty() {
                continue;
            }
            for (place, operand) in instruction.operands.iter().enumerate() {
                operand.iter().for_each(|&operand: &usize| uses[operand].push((at, place)));
            }
        }
        uses
    }

    /// For each value whether no product or look-up depends on it, as on gradients after their last
    /// use: exchanges of all such values share one round.
    pub(super) fn tails(&self, uses: &[Vec<(usize, usize)>]) -> Vec<bool> {
        let mut tails = vec![true; self.values.len()];
        for value in (0..self.values.len()).rev() {
            let heavy = |user: usize| {
                let class = self.class(user);
                matches!(class, Some(Class::Contract | Class::Matrix | Class::Gather))
            };
            tails[value] = uses[value].iter().all(|&(user, _)| tails[user] && !heavy(user));
        }
        tails
    }

    /// The bytes of all values.
    pub(in crate::shard) fn bytes(&self) -> u64 {
        let bytes = |value: &Noted| value.ty.bytes() as f64 * value.times;
        self.values.iter().map(bytes).sum::<f64>() as u64
    }

    /// Seconds in which one member computes the segment while the others do nothing. Kernels that
    /// do not need each other share its threads. What stays in the caches is part of the kernel
    /// that uses it first.
    pub(in crate::shard) fn alone(&self, rates: &Rates) -> f64 {
        let uses = self.uses();
        let mut kernels = self.work(&uses, rates);
        // By value, the number of kernels one after the other before it.
        let mut depths = vec![0; kernels.len()];
        let mut waves: Vec<f64> = Vec::new();
        for value in 0..kernels.len() {
            let (depth, stays) = (depths[value], self.stays(value, &uses));
            for &(user, _) in &uses[value] {
                depths[user] = depths[user].max(depth + usize::from(!stays));
            }
            match uses[value].first() {
                Some(&(user, _)) if stays => kernels[user] += kernels[value],
                _ => {
                    waves.resize(waves.len().max(depth + 1), 0.0);
                    waves[depth] += kernels[value];
                }
            }
        }
        waves.into_iter().map(|seconds| rates.lone(seconds)).sum()
    }

    /// The class of the op that computes a value, if one does.
    fn class(&self, value: usize) -> Option<Class> {
        match &self.values[value].source {
            Source::Computed(i) => Some(i.op.spec().class),
            Source::Made | Source::Given { .. } => None,
        }
    }

    /// Whether a value stays in the caches: it is made element by element and used so, or reduced.
    fn stays(&self, value: usize, uses: &[Vec<(usize, usize)>]) -> bool {
        let used = &uses[value];
        let all = used.iter().all(|(user, _)| self.class(*user).is_some_and(fuses));
        let made = self.class(value).is_some_and(is_fused);
        made && !self.values[value].kept && !used.is_empty() && all
    }

    /// Seconds in which one worker computes each value, by itself. What stays in the caches is
    /// neither written nor read.
    pub(super) fn work(&self, uses: &[Vec<(usize, usize)>], rates: &Rates) -> Vec<f64> {
        let bytes = |value: usize| match self.stays(value, uses) {
            true => 0,
            false => self.values[value].ty.bytes(),
        };
        let of = |(at, value): (usize, &Noted)| {
            let Source::Computed(i) = &value.source else { return 0.0 };
            if !value.kept && uses[at].is_empty() {
                return 0.0;
            }
            let read = i.operands.iter().flatten().map(|operand| bytes(*operand));
            let read = read.fold(0, usize::saturating_add);
            let moves = i.op.spec().class == Class::Move;
            let read = if moves { read.min(value.ty.bytes()) } else { read };
            rates.work(&i.op, &i.types, &value.ty, read.saturating_add(bytes(at)))
        };
        self.values.iter().enumerate().map(of).collect()
    }
}

/// Of some layouts the one in which each member has least, if any splits the value.
fn parts(layouts: &[(Layout, f64)], ty: &Type) -> Option<(Layout, f64)> {
    let volume = |layout: &Layout| volume(&layout.region(0, &ty.shape));
    let split = layouts.iter().filter(|(layout, _)| !layout.is_whole());
    split.min_by_key(|(layout, _)| volume(layout)).cloned()
}
