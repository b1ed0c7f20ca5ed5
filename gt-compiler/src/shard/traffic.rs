//! What members send each other, and how long all of them take.
//!
//! A member computes each of its phases when it has received what the phase needs; other members
//! compute meanwhile. Times are estimates by [`Rates`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use gt_ir::{Class, Op, OperandType};

use super::Rates;
use super::lanes::{Arg, Item, Lane, Lanes, Name};
use super::phases::Needed;

/// What travels.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    /// The bytes that each member receives after each level.
    pub(super) received: BTreeMap<(u32, u32), u64>,
    /// The members that send them.
    senders: BTreeMap<(u32, u32), BTreeSet<usize>>,
}

impl Traffic {
    /// Adds what a member sends with some of its items and somebody needs.
    pub(super) fn add(
        &mut self,
        (member, lane): (usize, &Lane),
        items: Range<usize>,
        needed: &Needed,
    ) {
        for item in &lane.items[items] {
            if let Item::Send { value, to, received } = item
                && needed.contains(*to as usize, *received)
            {
                let local = lane.local(*value);
                let bytes = local.ty.bytes() as u64;
                (self.bytes, self.messages) = (self.bytes + bytes, self.messages + 1);
                *self.received.entry((local.level, *to)).or_default() += bytes;
                self.senders.entry((local.level, *to)).or_default().insert(member);
            }
        }
    }

    /// Seconds if nothing is computed: rounds follow each other, and in a round all members receive
    /// at the same time.
    pub(super) fn seconds(&self, rates: &Rates) -> f64 {
        let mut most: BTreeMap<u32, u64> = BTreeMap::new();
        for ((level, _), bytes) in &self.received {
            let most = most.entry(*level).or_default();
            *most = (*most).max(*bytes);
        }
        most.values().map(|bytes| rates.latency + *bytes as f64 / rates.exchange).sum()
    }

    /// When a member has received what is sent to it at a level, if anything is: `done` says when
    /// the members have computed that level.
    fn arrival(&self, level: u32, member: usize, done: &[f64], rates: &Rates) -> f64 {
        let key = (level, member as u32);
        let Some(bytes) = self.received.get(&key) else { return 0.0 };
        let sent = self.senders[&key].iter().map(|from| done[*from]).fold(0.0, f64::max);
        sent + rates.latency + *bytes as f64 / rates.exchange
    }
}

/// Seconds until all members are done. What the items in `arrived` send takes no time: each entry
/// has a range of items for each member, in order.
pub(super) fn seconds(
    lanes: &Lanes,
    needed: &Needed,
    rates: &Rates,
    arrived: &[&[Range<usize>]],
) -> f64 {
    let mut traffic = Traffic::default();
    let mut work = Vec::new();
    for (member, lane) in lanes.all.iter().enumerate() {
        let mut from = 0;
        for items in arrived {
            traffic.add((member, lane), from..items[member].start, needed);
            from = items[member].end;
        }
        traffic.add((member, lane), from..lane.items.len(), needed);
        work.push(compute(lane, member, needed, rates));
    }
    let levels = work.iter().filter_map(|work| work.keys().next_back());
    let received = traffic.received.keys().map(|(level, _)| level + 1);
    let last = levels.copied().chain(received).max().unwrap_or(0);
    let own = |member: usize, level: u32| work[member].get(&level).copied().unwrap_or(0.0);
    let mut done: Vec<f64> = (0..work.len()).map(|member| own(member, 0)).collect();
    for level in 1..=last {
        let next = (0..work.len()).map(|member| {
            let arrival = traffic.arrival(level - 1, member, &done, rates);
            done[member].max(arrival) + own(member, level)
        });
        done = next.collect();
    }
    done.into_iter().fold(0.0, f64::max)
}

/// Seconds that a member computes at each level.
fn compute(lane: &Lane, member: usize, needed: &Needed, rates: &Rates) -> BTreeMap<u32, f64> {
    let mut seconds = BTreeMap::new();
    let fused = fused(lane, member, needed);
    let bytes = |name: Name| if fused[name as usize] { 0 } else { lane.local(name).ty.bytes() };
    for item in &lane.items {
        let Item::Instr { op, args, out, .. } = item else { continue };
        if needed.contains(member, *out) {
            let types: Vec<OperandType> = args.iter().map(|arg| lane.operand_type(arg)).collect();
            let local = lane.local(*out);
            let read: usize = args.iter().filter_map(Arg::name).map(bytes).sum();
            // Of what a slice does not take nothing is read.
            let most = if op.spec().class == Class::Move { local.ty.bytes() } else { usize::MAX };
            let bytes = read.min(most) + bytes(*out);
            *seconds.entry(local.level).or_default() += rates.work(op, &types, &local.ty, bytes);
        }
    }
    seconds
}

/// For each value whether it stays in the caches: it is made element by element, or moved, and used
/// so, all at one level.
fn fused(lane: &Lane, member: usize, needed: &Needed) -> Vec<bool> {
    let fuses = |op: &Op| matches!(op.spec().class, Class::Pointwise | Class::Move | Class::Source);
    let (mut made, mut used) = (vec![false; lane.locals.len()], vec![None; lane.locals.len()]);
    for item in &lane.items {
        match item {
            Item::Instr { op, args, out, .. } if needed.contains(member, *out) => {
                made[*out as usize] = fuses(op);
                for name in args.iter().filter_map(Arg::name) {
                    let near = fuses(op) && lane.local(name).level == lane.local(*out).level;
                    used[name as usize] = Some(near && used[name as usize] != Some(false));
                }
            }
            Item::Send { value, to, received } if needed.contains(*to as usize, *received) => {
                used[*value as usize] = Some(false);
            }
            Item::Instr { .. } | Item::Send { .. } | Item::Receive { .. } => {}
        }
    }
    made.iter().zip(used).map(|(made, used)| *made && used == Some(true)).collect()
}
