//! Lanes cut into phases: a member runs all that needs no further exchange, sends what others wait
//! for, and goes on when what it waits for is there. If it has more to compute than what others
//! wait for, it sends first and computes the rest afterwards. Each turn has phases of its own, in
//! the order of the schedule.
//!
//! What nobody uses is left out, and every value is freed after its last use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gt_ir::canonical::canonical;
use gt_ir::{Class, Entry, Instr, Operand, Tape, Type, ValueId};

use super::lanes::{Arg, Item, Lane, Lanes, Name};
use super::reshard::Version;
use super::turns::Key;
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

/// The local values that somebody needs, by member.
pub(super) struct Needed(Vec<Vec<bool>>);

impl Needed {
    /// What is needed for the values that are kept.
    pub(super) fn new(lanes: &Lanes, kept: &[(u32, Type, Version)]) -> Needed {
        let none = |lane: &Lane| vec![false; lane.locals.len()];
        let mut needed = Needed(lanes.all.iter().map(none).collect());
        for (_, _, version) in kept {
            for (rank, &name) in version.names.iter().enumerate() {
                needed.0[version.member(rank) as usize][name as usize] = true;
            }
        }
        needed.find(lanes);
        needed
    }

    /// Whether somebody needs a value of a member.
    pub(super) fn contains(&self, member: usize, name: Name) -> bool {
        self.0[member][name as usize]
    }

    /// What is needed for what is needed. Keys never fall from a value to what is made of it, and
    /// rise where it is sent, so items are gone through from the last key to the first.
    fn find(&mut self, lanes: &Lanes) {
        let mut order = Vec::new();
        for (member, lane) in lanes.all.iter().enumerate() {
            for (at, item) in lane.items.iter().enumerate() {
                let (Item::Instr { out: name, .. }
                | Item::Send { value: name, .. }
                | Item::Receive { out: name }) = item;
                order.push((lanes.key(member, *name), member, at));
            }
        }
        order.sort_unstable();
        for (_, member, at) in order.into_iter().rev() {
            match &lanes.all[member].items[at] {
                Item::Send { value, to, received } => {
                    self.0[member][*value as usize] |= self.0[*to as usize][*received as usize];
                }
                Item::Instr { args, out, .. } if self.0[member][*out as usize] => {
                    for name in args.iter().filter_map(Arg::name) {
                        self.0[member][name as usize] = true;
                    }
                }
                Item::Instr { .. } | Item::Receive { .. } => {}
            }
        }
    }
}

/// The place of a phase: the key of what is computed in it, and whether it is the rest, for which
/// nobody waits.
type Place = (Key, bool);

/// One lane on its way to phases.
struct Cutter<'a> {
    lanes: &'a Lanes,
    lane: &'a Lane,
    needed: &'a Needed,
    member: usize,
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
    fn new(lanes: &'a Lanes, needed: &'a Needed, member: usize) -> Cutter<'a> {
        let lane = &lanes.all[member];
        let given = |local: &super::lanes::Local| Local::Given(local.given.unwrap_or(u32::MAX));
        let mut cutter = Cutter {
            lanes,
            lane,
            needed,
            member,
            kept: vec![false; lane.locals.len()],
            phases: BTreeMap::new(),
            locals: lane.locals.iter().map(given).collect(),
            n_made: 0,
            freed: Vec::new(),
        };
        for item in &lane.items {
            if let Some(key) = cutter.key(item) {
                cutter.phases.entry((key, false)).or_default().push(item);
            }
        }
        cutter.send_early();
        cutter
    }

    /// Puts what others do not wait for into a phase of its own, if it takes long.
    fn send_early(&mut self) {
        let mut later = Vec::new();
        for (&(key, _), items) in &mut self.phases {
            let first = awaited(items);
            if pays(items, &first) {
                let mut first = first.into_iter();
                let rest = items.extract_if(.., |_| first.next() == Some(false)).collect();
                later.push(((key, true), rest));
            }
        }
        self.phases.extend::<Vec<(Place, Vec<&Item>)>>(later);
    }

    /// When an item is computed that somebody needs.
    fn key(&self, item: &Item) -> Option<Key> {
        let (name, is_needed) = match item {
            Item::Instr { out, .. } | Item::Receive { out } => {
                (*out, self.needed.contains(self.member, *out))
            }
            // The value may be needed here, and nobody may need it there.
            Item::Send { value, to, received } => {
                (*value, self.needed.contains(*to as usize, *received))
            }
        };
        is_needed.then(|| self.lanes.key(self.member, name))
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

/// For each item of a level, whether it sends a value or is needed for one that is sent.
fn awaited(items: &[&Item]) -> Vec<bool> {
    let mut names: BTreeSet<Name> = BTreeSet::new();
    let mut awaited = vec![false; items.len()];
    for (item, awaited) in items.iter().zip(&mut awaited).rev() {
        *awaited = match item {
            Item::Send { value, .. } => {
                names.insert(*value);
                true
            }
            Item::Instr { out, .. } | Item::Receive { out } => names.contains(out),
        };
        if let (true, Item::Instr { args, .. }) = (*awaited, item) {
            names.extend(args.iter().filter_map(Arg::name));
        }
    }
    awaited
}

/// Whether others would wait long for what does not concern them. Two phases cannot fuse what one
/// can, so a product must be in the rest, or nothing but movement before it.
fn pays(items: &[&Item], first: &[bool]) -> bool {
    let classes = |of: bool| {
        items.iter().zip(first).filter(move |(_, first)| **first == of).filter_map(|(item, _)| {
            match item {
                Item::Instr { op, .. } => Some(op.spec().class),
                Item::Send { .. } | Item::Receive { .. } => None,
            }
        })
    };
    let sends = items.iter().any(|item| matches!(item, Item::Send { .. }));
    let moves = classes(true).all(|class| class == Class::Move);
    let heavy = |class| class == Class::Contract || (moves && class != Class::Move);
    sends && classes(false).any(heavy)
}

/// Where a value is used: by which item of the phase at which place, or by being sent after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Instr(Place, usize),
    Sent(Place),
}
