//! What members send each other, and how long all of them take.
//!
//! A member computes each of its phases when it has received what the phase needs; other members
//! compute meanwhile. Times are estimates by [`Rates`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use gt_ir::{Class, OperandType};

use super::cost::{Rates, fuses, is_fused};
use super::lanes::{Arg, Item, Lane, Lanes, Name};
use super::phases::Needed;
use super::turns::Key;

/// What travels.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    /// What each member receives, by the moment at which it has it.
    arrivals: BTreeMap<(Key, u32), Arrival>,
}

/// What a member receives at one moment.
#[derive(Default)]
struct Arrival {
    /// The level at which it was sent.
    level: u32,
    bytes: u64,
    /// The members that send it, and when.
    senders: BTreeSet<(usize, Key)>,
}

impl Traffic {
    /// Adds what a member sends with some of its items and somebody needs.
    pub(super) fn add(
        &mut self,
        (lanes, member): (&Lanes, usize),
        items: Range<usize>,
        needed: &Needed,
    ) {
        let lane = &lanes.all[member];
        for item in &lane.items[items] {
            if let Item::Send { value, to, received } = item
                && needed.contains(*to as usize, *received)
            {
                let local = lane.local(*value);
                let bytes = local.ty.bytes() as u64;
                (self.bytes, self.messages) = (self.bytes + bytes, self.messages + 1);
                let there = lanes.key(*to as usize, *received);
                let arrival = self.arrivals.entry((there, *to)).or_default();
                (arrival.level, arrival.bytes) = (local.moment.level, arrival.bytes + bytes);
                arrival.senders.insert((member, lanes.key(member, *value)));
            }
        }
    }

    /// The levels at which anything is sent, in order.
    pub(super) fn levels(&self) -> BTreeSet<u32> {
        self.arrivals.values().map(|arrival| arrival.level).collect()
    }

    /// Seconds if nothing is computed: rounds follow each other, and in a round all members receive
    /// at the same time.
    pub(super) fn seconds(&self, rates: &Rates) -> f64 {
        let mut received: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for ((_, to), arrival) in &self.arrivals {
            *received.entry((arrival.level, *to)).or_default() += arrival.bytes;
        }
        let mut most: BTreeMap<u32, u64> = BTreeMap::new();
        for ((level, _), bytes) in received {
            let most = most.entry(level).or_default();
            *most = (*most).max(bytes);
        }
        most.values().map(|bytes| rates.latency + *bytes as f64 / rates.exchange).sum()
    }
}

/// How long members take together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Duration {
    /// Seconds until all members are done.
    pub(super) seconds: f64,
    /// The part of these seconds that members wait, on average.
    pub(super) waiting: f64,
}

/// How long members take. What the items in `arrived` send takes no time: each entry has a range of
/// items for each member, in order.
pub(super) fn duration(
    lanes: &Lanes,
    needed: &Needed,
    rates: &Rates,
    arrived: &[&[Range<usize>]],
) -> Duration {
    let mut traffic = Traffic::default();
    let mut work = Vec::new();
    for (member, lane) in lanes.all.iter().enumerate() {
        let mut from = 0;
        for items in arrived {
            traffic.add((lanes, member), from..items[member].start, needed);
            from = items[member].end;
        }
        traffic.add((lanes, member), from..lane.items.len(), needed);
        work.push(compute(lanes, member, needed, rates));
    }
    let seconds = simulated(&work, &traffic, rates);
    let busy: f64 = work.iter().flat_map(|work| work.values()).sum();
    let all = seconds * work.len() as f64;
    Duration { seconds, waiting: if all > 0.0 { 1.0 - busy / all } else { 0.0 } }
}

/// Seconds until all members are done, each of which does its work in the order of keys, when what
/// it receives for it is there.
fn simulated(work: &[BTreeMap<Key, f64>], traffic: &Traffic, rates: &Rates) -> f64 {
    let sent = traffic.arrivals.values().flat_map(|arrival| &arrival.senders);
    let mut keys: BTreeSet<Key> = sent.map(|(_, key)| *key).collect();
    keys.extend(work.iter().flat_map(|work| work.keys()));
    keys.extend(traffic.arrivals.keys().map(|(key, _)| *key));
    let mut done = vec![0.0; work.len()];
    // When the members that send anything at a key are done with it.
    let mut finished: BTreeMap<(usize, Key), f64> = BTreeMap::new();
    for key in keys {
        for (member, done) in done.iter_mut().enumerate() {
            let arrival = traffic.arrivals.get(&(key, member as u32)).map_or(0.0, |arrival| {
                let sent = arrival.senders.iter().filter_map(|from| finished.get(from));
                let sent = sent.copied().fold(0.0, f64::max);
                sent + rates.latency + arrival.bytes as f64 / rates.exchange
            });
            *done = arrival.max(*done) + work[member].get(&key).copied().unwrap_or(0.0);
            finished.insert((member, key), *done);
        }
    }
    done.into_iter().fold(0.0, f64::max)
}

/// Seconds that a member computes at each moment.
fn compute(lanes: &Lanes, member: usize, needed: &Needed, rates: &Rates) -> BTreeMap<Key, f64> {
    let lane = &lanes.all[member];
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
            *seconds.entry(lanes.key(member, *out)).or_default() +=
                rates.work(op, &types, &local.ty, bytes);
        }
    }
    seconds
}

/// For each value whether it stays in the caches: it is made element by element, or moved, and used
/// so or reduced, all at one moment.
fn fused(lane: &Lane, member: usize, needed: &Needed) -> Vec<bool> {
    let (mut made, mut used) = (vec![false; lane.locals.len()], vec![None; lane.locals.len()]);
    for item in &lane.items {
        match item {
            Item::Instr { op, args, out, .. } if needed.contains(member, *out) => {
                made[*out as usize] = is_fused(op.spec().class);
                for name in args.iter().filter_map(Arg::name) {
                    let near = fuses(op.spec().class)
                        && lane.local(name).moment == lane.local(*out).moment;
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
