//! The layouts of least cost for a problem, as a factor graph has them. A value is one variable,
//! and the instruction that computes it another: a value changes its layout once, however many
//! instructions use it.

use std::collections::{BTreeMap, HashMap};

use gt_ir::layout::{Layout, Spread};
use gt_ir::{Type, ValueId};
use smallvec::SmallVec;

use super::fold::Classes;
use super::problem::{MAX_WAYS, Problem, Source};
use super::solve::{Factors, IMPOSSIBLE};
use crate::shard::choose::Strategy;
use crate::shard::cost::Rates;

/// What is decided about each value, by the walk's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::shard) struct Plan {
    /// All of a value on each member of the plan's mesh.
    pub(in crate::shard) whole: Layout,
    values: Vec<Planned>,
}

/// What is decided about a value; nothing about one that members make by themselves.
#[derive(Clone, Debug, Default, PartialEq)]
struct Planned {
    /// How it is computed.
    strategy: Option<Strategy>,
    /// The layout that it has for all its uses.
    layout: Option<Layout>,
}

impl Plan {
    /// The layout that a value has for all its uses.
    pub(in crate::shard) fn layout(&self, value: ValueId) -> Option<&Layout> {
        self.values.get(value.0 as usize)?.layout.as_ref()
    }

    /// How a value is computed.
    pub(in crate::shard) fn strategy(&self, value: ValueId) -> Option<&Strategy> {
        self.values.get(value.0 as usize)?.strategy.as_ref()
    }
}

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
    known: HashMap<(Type, Spreads, Spreads, bool), f64>,
}

/// The variables of a class of values.
struct Variables {
    /// That of the instruction, if there is one.
    computed: Option<usize>,
    layout: usize,
    layouts: Vec<Layout>,
}

impl<'a> Planner<'a> {
    pub(in crate::shard) fn new(problem: &'a Problem) -> Planner<'a> {
        let uses = problem.uses();
        let classes = Classes::new(problem, &uses);
        let mut share = problem.tails(&uses);
        for (share, value) in share.iter_mut().zip(&problem.values) {
            // What is there before the segment is sent at its beginning.
            *share |= matches!(value.source, Source::Given { .. });
        }
        Planner { problem, uses, classes, share, known: HashMap::new() }
    }

    /// The plan of least cost.
    pub(in crate::shard) fn plan(&mut self, rates: &Rates, freedom: Freedom) -> Plan {
        self.known.clear();
        let mut factors = Factors::default();
        let work = self.problem.work(&self.uses, rates);
        let variables: Vec<Option<Variables>> = (0..self.classes.first.len())
            .map(|class| self.variables(&mut factors, class, &work, freedom))
            .collect();
        self.connect(&mut factors, &variables, rates);
        let (chosen, _) = factors.solve();
        let planned = self.classes.of.iter().map(|&class| {
            let Some(own) = &variables[class] else { return Planned::default() };
            let way = own.computed.and_then(|variable| {
                self.ways(class).get(chosen[variable]).map(|(strategy, _)| strategy.clone())
            });
            Planned { strategy: way, layout: own.layouts.get(chosen[own.layout]).cloned() }
        });
        Plan { whole: self.problem.whole.clone(), values: planned.collect() }
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
        work: &[f64],
        freedom: Freedom,
    ) -> Option<Variables> {
        let (first, n) = (self.classes.first[class], self.classes.sizes[class] as f64);
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
                let seconds = n * work[first];
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
            let n = self.classes.sizes[class] as f64;
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
                costs.push(n * self.seconds((&ty, share), source, target, rates));
            }
        }
        factors.pair(from, to, |i, j| costs[i * targets.len() + j]);
    }

    /// Seconds until a value is in another layout. What is no sum does not become one. If others
    /// share the round, they pay for its latency.
    fn seconds(
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
                let (value, user) = (self.classes.of[value], self.classes.of[*user]);
                *edges.entry((value, user, *place)).or_default() += 1.0;
            }
        }
        edges
    }

    /// How often a value of one class replaces a value of another.
    fn heirs(&self) -> BTreeMap<(usize, usize), f64> {
        let mut heirs = BTreeMap::new();
        for (new, before) in &self.problem.heirs {
            let pair = (self.classes.of[*new], self.classes.of[*before]);
            *heirs.entry(pair).or_default() += 1.0;
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
