//! Which layouts an op takes its operands in: among the ways its factors allow, the one that costs
//! least here and now (DTensor's strategy). Signals place what is brought in and created; this
//! carries their choice on.
//!
//! A factor is a candidate where an operand is split along it already, or where a signal asks for a
//! contraction of whole operands to be shared out. No search: a choice is not taken back.

mod turns;

use gt_ir::dtype::Category;
use gt_ir::factors::{Factors, Linear};
use gt_ir::layout::{Combine, Layout, Spread};
use gt_ir::{Class, Op, OperandType, Type};
use smallvec::SmallVec;

use super::cost::Rates;
use super::reshard::Version;

/// How an op is computed on a mesh: the layouts of its operands (none of a literal) and its result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Strategy {
    pub(super) operands: SmallVec<[Option<Layout>; 3]>,
    pub(super) result: Layout,
}

/// A way to compute an instruction, or an op of its expansion, and what it costs.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The op.
    pub op: Op,
    /// The layouts in which it takes its operands; none of a literal.
    pub operands: Vec<Option<Layout>>,
    /// The layout of its result.
    pub result: Layout,
    /// Seconds that operands and a partial result travel.
    pub exchange: f64,
    /// Seconds that a member computes.
    pub compute: f64,
    /// Whether it is the way taken.
    pub taken: bool,
}

/// An operand that a strategy is chosen for.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a> {
    /// A value in the layouts it is there in.
    Versions(&'a [Version], &'a Type),
    /// A value that each member can make by itself in any layout, and the layout that a signal asks
    /// for.
    Anywhere(Option<&'a Layout>),
    /// A value whose layout is not decided yet.
    Open,
    /// A literal.
    Literal,
}

/// What an op is to be done about.
pub(super) struct Question<'a> {
    pub(super) op: &'a Op,
    pub(super) types: &'a [OperandType],
    pub(super) operands: &'a [Operand<'a>],
    pub(super) out: &'a Type,
    pub(super) factors: &'a Factors,
    /// The layout that a signal asks for, on the mesh of the op.
    pub(super) wish: Option<&'a Layout>,
    /// Whether sums of floats are to have the bits of one worker.
    pub(super) pinned: bool,
    /// Whether members may share large sums.
    pub(super) shares: bool,
    pub(super) rates: &'a Rates,
}

/// What happens along one axis of the mesh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Along {
    /// Every member computes the same.
    Same,
    /// A factor is split, with so many of its elements a part.
    Factor(u8, usize),
    /// Partial sums pass through.
    Pass(Combine),
}

impl<'a> Operand<'a> {
    /// The layouts that it is there in, or is to have.
    pub(super) fn layouts(self) -> impl Iterator<Item = &'a Layout> {
        let (versions, wish) = match self {
            Operand::Versions(versions, _) => (versions, None),
            Operand::Anywhere(wish) => (&[][..], wish),
            Operand::Open | Operand::Literal => (&[][..], None),
        };
        versions.iter().map(|version| &version.layout).chain(wish)
    }
}

impl Question<'_> {
    /// The best strategy on the mesh of a layout, whose axes are decided one after the other.
    pub(super) fn best(&self, whole: &Layout) -> Strategy {
        let chosen = self.chosen(whole, whole.spreads.len());
        self.strategy(whole, &chosen).unwrap_or_else(|| self.all_whole(whole))
    }

    /// What is taken along the first axes of the mesh.
    fn chosen(&self, whole: &Layout, n_axes: usize) -> SmallVec<[Along; 2]> {
        let mut chosen = SmallVec::new();
        for axis in 0..n_axes {
            chosen.push(self.cheapest(whole, axis, &chosen));
        }
        chosen
    }

    /// The strategies that were possible along the last axis of the mesh, with those taken along
    /// the others.
    pub(super) fn options(&self, whole: &Layout) -> Vec<Candidate> {
        let best = self.best(whole);
        let Some(last) = whole.spreads.len().checked_sub(1) else { return Vec::new() };
        let chosen = self.chosen(whole, last);
        let candidates = self.candidates(whole, last, &chosen);
        let strategies = candidates.into_iter().filter_map(|along| {
            let mut tried = chosen.clone();
            tried.push(along);
            self.strategy(whole, &tried)
        });
        strategies.map(|strategy| self.candidate(strategy, &best)).collect()
    }

    fn candidate(&self, strategy: Strategy, best: &Strategy) -> Candidate {
        let compute = self.rates.compute(self.op, self.types, self.out, self.share(&strategy));
        Candidate {
            op: *self.op,
            exchange: self.cost(&strategy) - compute,
            compute,
            taken: strategy.operands == best.operands && strategy.result == best.result,
            operands: strategy.operands.into_vec(),
            result: strategy.result,
        }
    }

    /// The way along an axis that costs least, after those chosen along the axes before.
    fn cheapest(&self, whole: &Layout, axis: usize, chosen: &[Along]) -> Along {
        let mut best: Option<(f64, Along)> = None;
        for candidate in self.candidates(whole, axis, chosen) {
            let mut tried: SmallVec<[Along; 2]> = chosen.into();
            tried.push(candidate);
            let Some(strategy) = self.strategy(whole, &tried) else { continue };
            let cost = self.cost(&strategy);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, candidate));
            }
        }
        best.map_or(Along::Same, |(_, candidate)| candidate)
    }

    /// The ways along an axis, those that need no exchange first.
    pub(super) fn candidates(&self, whole: &Layout, axis: usize, chosen: &[Along]) -> Vec<Along> {
        if whole.mesh.is_turns(axis) {
            return turns::candidates(self, whole, chosen);
        }
        let mut found = Vec::new();
        let operands = self.operands.iter().zip(self.types);
        for ((operand, ty), links) in operands.zip(&self.factors.operands) {
            for layout in operand.layouts().filter(|layout| layout.mesh == whole.mesh) {
                let spread = layout.spreads[axis];
                if let Spread::Partial(combine) = spread {
                    found.push(Along::Pass(combine));
                }
                if let Some(Spread::Split { dim, chunk }) = self.part(layout, axis, ty)
                    && let Some(Some(link)) = links.get(usize::from(dim))
                {
                    found.push(Along::Factor(link.factor, chunk * link.unit));
                }
            }
        }
        if let Some(Spread::Split { dim, chunk }) = self.wish.map(|wish| wish.spreads[axis])
            && self.op.spec().class == Class::Contract
            && found.is_empty()
            && let Some(Some(link)) = self.factors.result.get(usize::from(dim))
        {
            found.push(Along::Factor(link.factor, chunk * link.unit));
        }
        let taken = |along: &Along| {
            matches!(along, Along::Factor(factor, _) if chosen
            .iter()
            .any(|other| matches!(other, Along::Factor(f, _) if f == factor)))
        };
        found.retain(|along| !taken(along));
        found.push(Along::Same);
        found.dedup();
        found
    }

    /// How an operand is split along an axis, or may be: of a large sum each member may make its
    /// part. A sum that is only moved is made later.
    fn part(&self, layout: &Layout, axis: usize, ty: &OperandType) -> Option<Spread> {
        match (layout.spreads[axis], ty) {
            (spread @ Spread::Split { .. }, _) => Some(spread),
            (Spread::Partial(_), OperandType::Tensor(ty))
                if self.shares && self.op.spec().class != Class::Move =>
            {
                self.rates.shared(layout, axis, ty)
            }
            (Spread::Partial(_) | Spread::Whole, _) => None,
        }
    }

    /// The layouts that a choice for each axis means; none where it is not possible. Axes without a
    /// choice are whole.
    pub(super) fn strategy(&self, whole: &Layout, chosen: &[Along]) -> Option<Strategy> {
        let mut strategy = self.all_whole(whole);
        for (axis, along) in chosen.iter().enumerate() {
            match *along {
                Along::Same => {}
                Along::Factor(factor, chunk) => self.split(&mut strategy, axis, factor, chunk)?,
                Along::Pass(combine) => self.pass(&mut strategy, axis, combine)?,
            }
        }
        Some(strategy)
    }

    fn all_whole(&self, whole: &Layout) -> Strategy {
        let layout = |operand: &Operand<'_>| match operand {
            Operand::Literal => None,
            Operand::Versions(..) | Operand::Anywhere(..) | Operand::Open => Some(whole.clone()),
        };
        Strategy { operands: self.operands.iter().map(layout).collect(), result: whole.clone() }
    }

    fn split(&self, strategy: &mut Strategy, axis: usize, factor: u8, chunk: usize) -> Option<()> {
        let Factors { operands, result, combine, addend, .. } = self.factors;
        let size = |ty: &Type, dim: usize, unit: usize| ty.shape.sizes()[dim] * unit;
        let contracted = Factors::find(result, factor).is_none();
        if contracted && self.pins() {
            return None;
        }
        for (i, (layout, links)) in strategy.operands.iter_mut().zip(operands).enumerate() {
            let Some(layout) = layout else { continue };
            if let Some((dim, unit)) = Factors::find(links, factor) {
                let OperandType::Tensor(ty) = &self.types[i] else { continue };
                let parts = layout.mesh.sizes()[axis];
                let empty = (parts - 1) * chunk >= size(ty, dim, unit) || layout.splits(dim);
                // The largest of no elements does not exist.
                if contracted && *combine != Some(Combine::Sum) && empty {
                    return None;
                }
                let alone = is_alone(size(ty, dim, 1), chunk / unit) || layout.splits(dim);
                if self.pins() && self.folds() && alone {
                    return None;
                }
                layout.spreads[axis] = part(dim, unit, chunk)?;
                turns::covers(layout, dim, &ty.shape).then_some(())?;
            } else if contracted && *addend == Some(i) {
                layout.spreads[axis] = Spread::Partial(Combine::Sum);
            }
        }
        strategy.result.spreads[axis] = match Factors::find(result, factor) {
            Some((dim, unit)) => part(dim, unit, chunk)?,
            None => Spread::Partial((*combine)?),
        };
        Some(())
    }

    /// Whether the bits of the result depend on how the op is cut, and must not.
    fn pins(&self) -> bool {
        self.pinned && self.out.dtype.category() == Category::Float
    }

    /// Whether the op, or its expansion, may add or multiply elements with each other.
    fn folds(&self) -> bool {
        match self.op.spec().class {
            Class::Reduce | Class::Contract | Class::Matrix | Class::Gather => true,
            Class::Pointwise | Class::Source | Class::Move => false,
        }
    }

    /// Partial results pass through what is linear in them, or only moves them. Addends that are
    /// integers wrap around, so they pass only where the result wraps as they do.
    fn pass(&self, strategy: &mut Strategy, axis: usize, combine: Combine) -> Option<()> {
        let partial = |i: usize| match self.operands[i] {
            Operand::Versions(versions, _) => versions
                .iter()
                .any(|v| v.layout.spreads.get(axis) == Some(&Spread::Partial(combine))),
            // The first member makes it, the others zeros.
            Operand::Anywhere(_) | Operand::Open => combine == Combine::Sum,
            Operand::Literal => false,
        };
        let tensors = || (0..self.operands.len()).filter(|&i| strategy.operands[i].is_some());
        let moves = self.op.spec().class == Class::Move;
        if combine != Combine::Sum && !moves {
            return None;
        }
        let through: SmallVec<[usize; 3]> = match self.factors.linear {
            Linear::No => return None,
            Linear::First => partial(0).then(|| SmallVec::from_slice(&[0]))?,
            Linear::Together => tensors().all(partial).then(|| tensors().collect())?,
            Linear::Each => SmallVec::from_slice(&[tensors().find(|&i| partial(i))?]),
        };
        let wraps = |i: &usize| match self.types[*i] {
            OperandType::Tensor(ty) => ty.dtype.is_float() || ty.dtype == self.out.dtype,
            OperandType::Scalar(_) => true,
        };
        if !through.iter().all(wraps) {
            return None;
        }
        for i in through {
            strategy.operands[i].as_mut()?.spreads[axis] = Spread::Partial(combine);
        }
        strategy.result.spreads[axis] = Spread::Partial(combine);
        Some(())
    }

    /// All ways to compute the op, each with the part of the work that the busiest member does. At
    /// most `max`, the first of which is the same work on each member.
    pub(super) fn ways(&self, whole: &Layout, max: usize) -> Vec<(Strategy, f64)> {
        let mut chosen: Vec<SmallVec<[Along; 2]>> = vec![SmallVec::new()];
        for axis in 0..whole.spreads.len() {
            let along = self.along(whole.mesh.sizes()[axis]);
            let extended = |before: &SmallVec<[Along; 2]>| {
                let fits = |along: &&Along| match along {
                    Along::Factor(factor, _) => !before
                        .iter()
                        .any(|other| matches!(other, Along::Factor(taken, _) if taken == factor)),
                    Along::Same | Along::Pass(_) => true,
                };
                let with = |along: &Along| before.iter().chain([along]).copied().collect();
                along.iter().filter(fits).map(with).collect::<Vec<_>>()
            };
            chosen = chosen.iter().flat_map(extended).collect();
        }
        let strategy = |chosen: &SmallVec<[Along; 2]>| {
            let strategy = self.strategy(whole, chosen)?;
            let share = self.busiest(chosen);
            Some((strategy, share))
        };
        chosen.iter().filter_map(strategy).take(max).collect()
    }

    /// The ways along an axis of the mesh with so many members.
    fn along(&self, n: usize) -> Vec<Along> {
        let mut along = vec![Along::Same];
        for factor in self.factors.all() {
            let (size, unit) = self.extent(factor);
            if size / unit >= n {
                along.push(Along::Factor(factor, size.div_ceil(n).next_multiple_of(unit)));
            }
        }
        if self.factors.linear != Linear::No {
            along.push(Along::Pass(Combine::Sum));
        }
        along
    }

    /// How many elements a factor has, and in portions of how many it may be cut.
    fn extent(&self, factor: u8) -> (usize, usize) {
        let (mut size, mut most) = (0, 1);
        let operands = self.types.iter().zip(&self.factors.operands);
        let operands = operands.filter_map(|(ty, links)| match ty {
            OperandType::Tensor(ty) => Some((ty, links)),
            OperandType::Scalar(_) => None,
        });
        for (ty, links) in operands.chain([(self.out, &self.factors.result)]) {
            if let Some((dim, unit)) = Factors::find(links, factor) {
                size = ty.shape.sizes()[dim] * unit;
                most = most.max(unit);
            }
        }
        (size, most)
    }

    /// The part of the work that the member with the largest part does.
    fn busiest(&self, chosen: &[Along]) -> f64 {
        let part = |along: &Along| match *along {
            Along::Factor(factor, chunk) => chunk as f64 / self.extent(factor).0.max(1) as f64,
            Along::Same | Along::Pass(_) => 1.0,
        };
        chosen.iter().map(part).product()
    }

    /// Seconds of a strategy: what its operands and a partial result have to travel, and its
    /// computation.
    pub(super) fn cost(&self, strategy: &Strategy) -> f64 {
        let mut seconds = 0.0;
        for (operand, layout) in self.operands.iter().zip(&strategy.operands) {
            if let (Operand::Versions(versions, ty), Some(layout)) = (operand, layout) {
                let nearest = self.rates.nearest(versions, layout, ty);
                seconds += nearest.map_or(f64::INFINITY, |(seconds, _)| seconds);
            }
        }
        seconds += self.rates.reshard(&strategy.result, &strategy.result.combined(), self.out);
        seconds + self.rates.compute(self.op, self.types, self.out, self.share(strategy))
    }

    /// The part of the work that one member does.
    fn share(&self, strategy: &Strategy) -> f64 {
        let mut share = 1.0;
        let mesh = &strategy.result.mesh;
        for (axis, &n) in mesh.sizes().iter().enumerate() {
            let any = |of: fn(&Spread) -> bool| {
                let mut layouts = strategy.operands.iter().flatten().chain([&strategy.result]);
                layouts.any(|layout| of(&layout.spreads[axis]))
            };
            let split = any(|spread| matches!(spread, Spread::Split { .. }));
            let partial = || any(|spread| matches!(spread, Spread::Partial(_)));
            match mesh.is_turns(axis) {
                // It computes the parts of all its turns, and an addend in each of them.
                true if !split && partial() => share *= n as f64,
                true => {}
                false if split => share /= n as f64,
                false => {}
            }
        }
        share
    }
}

/// Whether a part of a dimension is a single element, unless the dimension is. Engines add in
/// another order where a product is one with a vector, or a sum keeps no second element.
fn is_alone(size: usize, chunk: usize) -> bool {
    size > 1 && (chunk == 1 || size % chunk.max(1) == 1)
}

/// A dimension split along a factor.
fn part(dim: usize, unit: usize, chunk: usize) -> Option<Spread> {
    (chunk.is_multiple_of(unit)).then(|| Spread::Split { dim: dim as u8, chunk: chunk / unit })
}
