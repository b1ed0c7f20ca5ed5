//! The layouts of least cost for a problem, as a factor graph has them. A value is one variable,
//! and the instruction that computes it another: a value changes its layout once, however many
//! instructions use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::Type;
use gt_ir::layout::{Layout, Spread};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::decided::{Plan, Planned};
use super::fold::Classes;
use super::problem::{MAX_WAYS, Problem, Source};
use super::solve::{Factors, IMPOSSIBLE};
use crate::shard::choose::Strategy;
use crate::shard::cost::Rates;

/// Which layouts the values from before may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum Freedom {
    /// All that the problem allows.
    All,
    /// Uploads are split along their first dimension, and all else is whole: data parallelism.
    Data,
}

/// The part of a round's latency that one more exchange in it costs.
const MESSAGE: f64 = 0.05;

/// A layout on the mesh of the problem.
type Spreads = SmallVec<[Spread; 2]>;

/// Decides the problems of one segment.
pub(in crate::shard) struct Planner<'a> {
    problem: &'a Problem,
    uses: Vec<Vec<(usize, usize)>>,
    classes: Classes,
    /// Whether the values' exchanges share a round with others.
    share: Vec<bool>,
    /// Seconds of changes of layout that have been asked for.
    known: FxHashMap<(Type, Spreads, Spreads, bool), f64>,
    /// Seconds in which one worker computes each value.
    work: Vec<f64>,
}

/// The variables of a class of values.
struct Variables {
    /// That of the instruction, if there is one.
    computed: Option<usize>,
    layout: usize,
    layouts: Vec<Layout>,
}

impl<'a> Planner<'a> {
    pub(in crate::shard) fn new(problem: &'a Problem, rates: &Rates) -> Planner<'a> {
        let uses = problem.uses();
        let classes = Classes::new(problem, &uses);
        let mut share = problem.tails(&uses);
        for (share, value) in share.iter_mut().zip(&problem.values) {
            // What is there before the segment is sent at its beginning.
            *share |= matches!(value.source, Source::Given { .. });
        }
        let (known, work) = (FxHashMap::default(), problem.work(&uses, rates));
        Planner { problem, uses, classes, share, known, work }
    }

    /// The plan of least cost. The rates may differ in latency.
    pub(in crate::shard) fn plan(&mut self, rates: &Rates, freedom: Freedom) -> Plan {
        let (mut factors, variables) = self.factors(rates, freedom);
        let (chosen, _) = factors.solve();
        self.planned(&variables, &chosen)
    }

    /// All that the segment may choose from, and what each choice costs.
    fn factors(&mut self, rates: &Rates, freedom: Freedom) -> (Factors, Vec<Option<Variables>>) {
        self.known.clear();
        let mut factors = Factors::default();
        let variables: Vec<Option<Variables>> = (0..self.classes.first.len())
            .map(|class| self.variables(&mut factors, class, freedom))
            .collect();
        self.connect(&mut factors, &variables, rates);
        (factors, variables)
    }

    /// The plan of one choice for each variable.
    fn planned(&self, variables: &[Option<Variables>], chosen: &[usize]) -> Plan {
        let planned = variables.iter().enumerate().map(|(class, variables)| {
            let Some(own) = variables else { return Planned::default() };
            let layout = own.layouts.get(chosen[own.layout]).cloned();
            let way = own.computed.and_then(|variable| self.ways(class).get(chosen[variable]));
            Planned { strategy: way.map(|(strategy, _)| strategy.clone()), layout }
        });
        let classes = planned.collect();
        let (whole, of) = (self.problem.whole.clone(), self.classes.of.clone());
        let ends = self.problem.ends.clone();
        Plan { whole, of, ends, classes, chosen: chosen.to_vec() }
    }

    /// A plan that is better by the costs that `judge` finds, and its cost: single choices change
    /// as long as that helps, and at most `most` plans are judged.
    pub(in crate::shard) fn improved<E>(
        &mut self,
        (mut plan, mut cost): (Arc<Plan>, f64),
        (rates, most): (&Rates, usize),
        mut judge: impl FnMut(&Arc<Plan>) -> Result<f64, E>,
    ) -> Result<(Arc<Plan>, f64), E> {
        if most == 0 {
            return Ok((plan, cost));
        }
        let (factors, variables) = self.factors(rates, Freedom::All);
        let mut left = most;
        loop {
            let before = cost;
            for change in factors.changes() {
                let Some(chosen) = factors.changed(&plan.chosen, change) else { continue };
                if left == 0 {
                    return Ok((plan, cost));
                }
                left -= 1;
                let tried = Arc::new(self.planned(&variables, &chosen));
                let seconds = judge(&tried)?;
                if seconds < cost {
                    (plan, cost) = (tried, seconds);
                }
            }
            if cost >= before {
                return Ok((plan, cost));
            }
        }
    }

    /// Every plan that is possible, if there are at most so many choices.
    #[cfg(test)]
    pub(in crate::shard) fn every(&mut self, rates: &Rates, most: usize) -> Option<Vec<Plan>> {
        let (factors, variables) = self.factors(rates, Freedom::All);
        let choices = factors.choices(most)?;
        Some(choices.iter().map(|chosen| self.planned(&variables, chosen)).collect())
    }

    fn ways(&self, class: usize) -> &'a [(Strategy, f64)] {
        match &self.problem.values[self.classes.first[class]].source {
            Source::Computed(instruction) => &instruction.ways,
            Source::Made | Source::Given { .. } => &[],
        }
    }

    /// Adds the variables of a class of values.
    fn variables(
        &self,
        factors: &mut Factors,
        class: usize,
        freedom: Freedom,
    ) -> Option<Variables> {
        let (first, n) = (self.classes.first[class], self.classes.sizes[class]);
        match &self.problem.values[first].source {
            Source::Made => None,
            Source::Given { layouts, upload } => {
                let allowed = |layout: &Layout| match freedom {
                    Freedom::All => true,
                    Freedom::Data => is_data(layout, *upload, layouts),
                };
                let cost = |(layout, seconds): &(Layout, f64)| match allowed(layout) {
                    true => n * seconds,
                    false => IMPOSSIBLE,
                };
                let costs = layouts.iter().map(cost).collect();
                let layouts = layouts.iter().map(|(layout, _)| layout.clone()).collect();
                Some(Variables { computed: None, layout: factors.variable(costs), layouts })
            }
            Source::Computed(instruction) => {
                let seconds = n * self.work[first];
                let costs = instruction.ways.iter().map(|(_, share)| seconds * share).collect();
                let computed = Some(factors.variable(costs));
                let layouts = self.layouts(first);
                let layout = factors.variable(vec![0.0; layouts.len()]);
                Some(Variables { computed, layout, layouts })
            }
        }
    }

    /// The layouts that a computed value may have for its uses: those in which it is computed and
    /// those in which it is used.
    fn layouts(&self, value: usize) -> Vec<Layout> {
        let noted = &self.problem.values[value];
        let Source::Computed(instruction) = &noted.source else { return Vec::new() };
        let mut used: Vec<&Layout> = Vec::new();
        for (user, place) in &self.uses[value] {
            if let Source::Computed(user) = &self.problem.values[*user].source {
                let ways = user.ways.iter();
                used.extend(ways.filter_map(|(way, _)| way.operands.get(*place)?.as_ref()));
            }
        }
        let computed = || instruction.ways.iter().map(|(way, _)| &way.result);
        let partial = |layout: &&Layout| {
            let passes = computed().any(|own| own == *layout) && used.contains(layout);
            !layout.is_partial() || passes && !noted.kept
        };
        let mut found: Vec<Layout> = vec![self.problem.whole.clone()];
        for layout in computed().chain(used.iter().copied()).filter(partial) {
            if !found.contains(layout) && found.len() < MAX_WAYS {
                found.push(layout.clone());
            }
        }
        found
    }

    /// The costs between the variables: what it takes to bring a value from the layout in which it
    /// is computed into the one for its uses, and from there to each use.
    fn connect(&mut self, factors: &mut Factors, classes: &[Option<Variables>], rates: &Rates) {
        for (class, own) in classes.iter().enumerate() {
            let Some(Variables { computed: Some(computed), layout, layouts }) = own else {
                continue;
            };
            let from: Vec<Layout> = self.ways(class).iter().map(|w| w.0.result.clone()).collect();
            let n = self.classes.sizes[class];
            self.journey(factors, (*computed, &from), (*layout, layouts), (class, n), rates);
        }
        for ((value, user, place), n) in self.edges() {
            let (Some(own), Some(user_own)) = (&classes[value], &classes[user]) else { continue };
            let Some(computed) = user_own.computed else { continue };
            let place = |(way, _): &(Strategy, f64)| way.operands.get(place).cloned().flatten();
            let to: Vec<Layout> = self.ways(user).iter().filter_map(place).collect();
            let from = (own.layout, &own.layouts[..]);
            self.journey(factors, from, (computed, &to), (value, n), rates);
        }
        for ((new, before), n) in self.heirs() {
            let (Some(own), Some(before)) = (&classes[new], &classes[before]) else { continue };
            let (from, to) = ((own.layout, &own.layouts[..]), (before.layout, &before.layouts[..]));
            self.journey(factors, from, to, (new, n), rates);
        }
    }

    /// The costs of bringing `n` values of a class from the layouts of one variable into those of
    /// another.
    fn journey(
        &mut self,
        factors: &mut Factors,
        (from, sources): (usize, &[Layout]),
        (to, targets): (usize, &[Layout]),
        (class, n): (usize, f64),
        rates: &Rates,
    ) {
        let first = self.classes.first[class];
        let (ty, share) = (self.problem.values[first].ty, self.share[first]);
        let mut costs = Vec::with_capacity(sources.len() * targets.len());
        for source in sources {
            for target in targets {
                costs.push(n * self.change((&ty, share), source, target, rates));
            }
        }
        factors.pair(from, to, |i, j| costs[i * targets.len() + j]);
    }

    /// Seconds until a value is in another layout. What is no sum does not become one. If others
    /// share the round, they pay for its latency.
    fn change(
        &mut self,
        (ty, share): (&Type, bool),
        from: &Layout,
        to: &Layout,
        rates: &Rates,
    ) -> f64 {
        match (from == to, to.is_partial()) {
            (true, _) => 0.0,
            (false, true) => IMPOSSIBLE,
            (false, false) => {
                let case = (*ty, from.spreads.clone(), to.spreads.clone(), share);
                let latency = if share { MESSAGE * rates.latency } else { rates.latency };
                let rates = Rates { latency, ..*rates };
                *self.known.entry(case).or_insert_with(|| rates.reshard(from, to, ty))
            }
        }
    }

    /// How often a value of one class is an operand of another, by the operand's place.
    fn edges(&self) -> BTreeMap<(usize, usize, usize), f64> {
        let mut edges = BTreeMap::new();
        for (value, uses) in self.uses.iter().enumerate() {
            for (user, place) in uses {
                let times = self.problem.values[*user].times;
                let (value, user) = (self.classes.of[value], self.classes.of[*user]);
                *edges.entry((value, user, *place)).or_default() += times;
            }
        }
        edges
    }

    /// How often a value of one class replaces a value of another.
    fn heirs(&self) -> BTreeMap<(usize, usize), f64> {
        let mut heirs = BTreeMap::new();
        for (new, before) in &self.problem.heirs {
            let pair = (self.classes.of[*new], self.classes.of[*before]);
            *heirs.entry(pair).or_default() += self.problem.values[*new].times;
        }
        heirs
    }
}

/// Whether data parallelism has a value from before in this layout, if it has the choice.
fn is_data(layout: &Layout, upload: bool, among: &[(Layout, f64)]) -> bool {
    let rows = |layout: &Layout| {
        layout.spreads.iter().enumerate().all(|(axis, spread)| match spread {
            Spread::Split { dim, .. } => axis == 0 && *dim == 0,
            Spread::Whole => axis > 0,
            Spread::Partial(_) => false,
        })
    };
    match upload && among.iter().any(|(layout, _)| rows(layout)) {
        true => rows(layout),
        false => layout.is_whole() || among.len() == 1,
    }
}
