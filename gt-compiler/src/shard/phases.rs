//! Lanes cut into phases: a member runs all that needs no further exchange, sends what others wait
//! for, and goes on when what it waits for is there. Each turn has phases of its own, in the order
//! of the schedule. Which phase an item is part of is decided in `places`.
//!
//! What nobody uses is left out, and every value is freed after its last use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gt_ir::canonical::canonical;
use gt_ir::{Entry, Instr, Operand, Tape, Type, ValueId};

use super::lanes::{Arg, Item, Lane, Lanes, Name};
use super::needed::Needed;
use super::places::{Place, Places};
use super::reshard::Version;
use super::{Kept, Local, Part, Phase, Step};

/// The members' work in phases, and where values are at its end.
pub(super) fn cut(
    lanes: &Lanes,
    needed: &Needed,
    freed: &[u32],
    kept: &[(u32, Type, Version)],
) -> (Vec<Part>, Vec<Kept>) {
    let mut cutters: Vec<Cutter<'_>> = Vec::new();
    let gone: BTreeSet<u32> =
        freed.iter().copied().chain(kept.iter().map(|(number, ..)| *number)).collect();
    for member in 0..lanes.all.len() {
        let lasting = |(_, _, version): &(u32, Type, Version)| {
            let rank = version.layout.mesh.rank_of(member as u32)?;
            Some(version.names[rank])
        };
        let mut cutter = Cutter::new(lanes, needed, member);
        kept.iter().filter_map(lasting).for_each(|name| cutter.keep(name));
        cutter.free_given(&gone);
        cutter.number();
        cutters.push(cutter);
    }
    let names = |(value, ty, version): &(u32, Type, Version)| Kept {
        value: *value,
        ty: *ty,
        layout: version.layout.clone(),
        names: (0..version.names.len())
            .map(|rank| cutters[version.member(rank) as usize].local(version.names[rank]))
            .collect(),
    };
    let kept = kept.iter().map(names).collect();
    let parts = (0..cutters.len()).map(|member| cutters[member].part(&cutters)).collect();
    (parts, kept)
}

/// One lane on its way to phases.
struct Cutter<'a> {
    lanes: &'a Lanes,
    lane: &'a Lane,
    kept: Vec<bool>,
    /// The items of each phase, in order.
    phases: BTreeMap<Place, Vec<&'a Item>>,
    /// What each value is outside the lane.
    locals: Vec<Local>,
    n_made: u32,
    /// Given values that are freed.
    freed: Vec<Name>,
}

impl<'a> Cutter<'a> {
    fn new(lanes: &'a Lanes, needed: &Needed, member: usize) -> Cutter<'a> {
        let lane = &lanes.all[member];
        let given = |local: &super::lanes::Local| Local::Given(local.given.unwrap_or(u32::MAX));
        let mut cutter = Cutter {
            lanes,
            lane,
            kept: vec![false; lane.locals.len()],
            phases: BTreeMap::new(),
            locals: lane.locals.iter().map(given).collect(),
            n_made: 0,
            freed: Vec::new(),
        };
        let places = Places::new(lanes, needed, member);
        for (item, place) in lane.items.iter().zip(&places.items) {
            if let Some(place) = place {
                cutter.phases.entry(*place).or_default().push(item);
            }
        }
        cutter
    }

    fn keep(&mut self, name: Name) {
        self.kept[name as usize] = true;
    }

    /// Notes which of the values that were there before are freed: those the segment frees, and
    /// those that have moved elsewhere.
    fn free_given(&mut self, gone: &BTreeSet<u32>) {
        for (name, local) in self.lane.locals.iter().enumerate() {
            let is_gone = local.given.is_some_and(|number| gone.contains(&number));
            if is_gone && !self.kept[name] {
                self.freed.push(name as Name);
            } else if local.given.is_some() {
                self.kept[name] = true;
            }
        }
    }

    /// Numbers what the lane makes, in the order in which its phases define it.
    fn number(&mut self) {
        for items in self.phases.values() {
            let receives = items.iter().filter(|item| matches!(item, Item::Receive { .. }));
            let others = items.iter().filter(|item| matches!(item, Item::Instr { .. }));
            for item in receives.chain(others) {
                if let Item::Instr { out, .. } | Item::Receive { out } = item {
                    self.locals[*out as usize] = Local::Made(self.n_made);
                    self.n_made += 1;
                }
            }
        }
    }

    fn local(&self, name: Name) -> Local {
        self.locals[name as usize]
    }

    /// The steps of the lane.
    fn part(&self, all: &[Cutter<'_>]) -> Part {
        let mut part = Part { steps: Vec::new(), n_made: self.n_made };
        let last = self.last_uses();
        // Values that are freed before the next phase: what was sent, and what nobody used.
        let unused = |name: &&Name| last[**name as usize].is_none();
        let mut stale: Vec<Name> = self.freed.iter().filter(unused).copied().collect();
        let mut first = 0;
        for (place, items) in &self.phases {
            let (phase, n) = self.phase(Some(*place), items, first, &last, &stale);
            if !phase.template.tape.entries.is_empty() {
                part.steps.push(Step::Run(Arc::new(phase)));
                stale.clear();
            }
            first += n;
            for item in items {
                if let Item::Send { value, to, received } = item
                    && let Local::Made(made) = all[*to as usize].local(*received)
                {
                    part.steps.push(Step::Send { value: self.local(*value), to: *to, made });
                    if last[*value as usize] == Some(Use::Sent(*place))
                        && !self.kept[*value as usize]
                        && !stale.contains(value)
                    {
                        stale.push(*value);
                    }
                }
            }
        }
        if !stale.is_empty() {
            let (phase, _) = self.phase(None, &[], first, &last, &stale);
            part.steps.push(Step::Run(Arc::new(phase)));
        }
        part
    }

    /// The last use of each value.
    fn last_uses(&self) -> Vec<Option<Use>> {
        let mut last = vec![None; self.locals.len()];
        for (place, items) in &self.phases {
            for (at, item) in items.iter().enumerate() {
                if let Item::Instr { args, .. } = item {
                    for name in args.iter().filter_map(Arg::name) {
                        last[name as usize] = Some(Use::Instr(*place, at));
                    }
                }
            }
            for item in items {
                if let Item::Send { value, .. } = item {
                    last[*value as usize] = Some(Use::Sent(*place));
                }
            }
        }
        last
    }

    /// The tape of one phase, and how many values it defines.
    fn phase(
        &self,
        place: Option<Place>,
        items: &[&Item],
        first: u32,
        last: &[Option<Use>],
        stale: &[Name],
    ) -> (Phase, u32) {
        let id = |name: Name| ValueId(u64::from(name));
        let mut tape = Tape::default();
        let mut literals = Vec::new();
        tape.entries.extend(stale.iter().map(|name| Entry::Free(id(*name))));
        let mut n = 0;
        for item in items {
            if let Item::Receive { out } = item {
                let ty = self.lane.local(*out).ty;
                tape.entries.push(Entry::Input { out: id(*out), ty, name: None });
                n += 1;
            }
        }
        for (at, item) in items.iter().enumerate() {
            let Item::Instr { op, args, out, loc } = item else { continue };
            let operand = |arg: &Arg| match *arg {
                Arg::Value(name) => Operand::Value(id(name)),
                Arg::Literal(literal, scalar) => {
                    literals.push(literal);
                    Operand::Scalar(scalar)
                }
            };
            let inputs = args.iter().map(operand).collect();
            tape.entries.push(Entry::Instr(Instr { out: id(*out), op: *op, inputs, loc: *loc }));
            n += 1;
            let mut over: Vec<Name> = args
                .iter()
                .filter_map(Arg::name)
                .filter(|&name| last[name as usize] == place.map(|place| Use::Instr(place, at)))
                .filter(|&name| !self.kept[name as usize])
                .collect();
            over.sort_unstable();
            over.dedup();
            tape.entries.extend(over.into_iter().map(|name| Entry::Free(id(name))));
        }
        let (template, bindings) = canonical(&tape);
        let inputs = bindings.inputs.iter().map(|name| self.local(name.0 as Name)).collect();
        let outs = items.iter().map(|item| match item {
            Item::Instr { out, .. } | Item::Receive { out } => *out,
            Item::Send { value, .. } => *value,
        });
        let turn = outs.map(|name| self.lane.local(name).moment.turn).next();
        let turn = turn.filter(|_| self.lanes.turns.n > 1);
        (Phase { template, inputs, first, literals, turn }, n)
    }
}

/// Where a value is used: by which item of the phase at which place, or by being sent after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Instr(Place, usize),
    Sent(Place),
}
