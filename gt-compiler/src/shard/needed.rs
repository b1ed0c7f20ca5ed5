//! What is needed: local values that are left, and all that these are made of. Members neither
//! compute nor send anything else.

use gt_ir::Type;

use super::lanes::{Arg, Item, Lane, Lanes, Name};
use super::reshard::Version;

/// The local values that somebody needs, by member.
pub(super) struct Needed(Vec<Vec<bool>>);

impl Needed {
    /// What is needed for the values that are kept.
    pub(super) fn new(lanes: &Lanes, kept: &[(u32, Type, Version)]) -> Needed {
        let none = |lane: &Lane| vec![false; lane.locals.len()];
        let mut needed = Needed(lanes.all.iter().map(none).collect());
        for (_, _, version) in kept {
            for (rank, &name) in version.names.iter().enumerate() {
                needed.0[lanes.place(version.member(rank))][name as usize] = true;
            }
        }
        needed.find(lanes);
        needed
    }

    /// Whether somebody needs a value of a member, by the place of its lane.
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
                    let there = self.0[lanes.place(*to)][*received as usize];
                    self.0[member][*value as usize] |= there;
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
