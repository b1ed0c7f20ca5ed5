//! How long all members take together.
//!
//! A member computes each of its phases when it has received what the phase needs. What it sends
//! travels while it goes on, and what it receives arrives one after the other. Times are estimates
//! by [`Rates`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use gt_ir::{Class, OperandType};

use super::cost::{Rates, fuses, is_fused};
use super::lanes::{Arg, Item, Lane, Lanes, Name};
use super::needed::Needed;
use super::places::{Place, Places};

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
    let members = 0..lanes.all.len();
    let places: Vec<Places> = members.map(|m| Places::new(lanes, needed, m)).collect();
    let mut arrivals = Arrivals::default();
    let mut work = Vec::new();
    for (member, lane) in lanes.all.iter().enumerate() {
        let mut from = 0;
        for items in arrived {
            arrivals.add(lanes, member, from..items[member].start, &places);
            from = items[member].end;
        }
        arrivals.add(lanes, member, from..lane.items.len(), &places);
        work.push(compute(lane, &places[member], rates));
    }
    let seconds = simulated(&work, &arrivals, rates);
    let busy: f64 = work.iter().flat_map(|work| work.values()).sum();
    let all = seconds * work.len() as f64;
    Duration { seconds, waiting: if all > 0.0 { 1.0 - busy / all } else { 0.0 } }
}

/// What each member receives for one of its phases: the bytes of each phase of each member.
#[derive(Default)]
struct Arrivals(BTreeMap<(Place, usize), BTreeMap<(usize, Place), u64>>);

impl Arrivals {
    /// Adds what a member sends with some of its items and somebody needs.
    fn add(&mut self, lanes: &Lanes, member: usize, items: Range<usize>, places: &[Places]) {
        let lane = &lanes.all[member];
        for at in items {
            if let Item::Send { value, to, received } = &lane.items[at]
                && let Some(here) = places[member].items[at]
                && let to = lanes.place(*to)
                && let Some(there) = places[to].values[*received as usize]
            {
                let arrival = self.0.entry((there, to)).or_default();
                *arrival.entry((member, here)).or_default() += lane.local(*value).ty.bytes() as u64;
            }
        }
    }

    /// All places of members at which anything is sent or received.
    fn places(&self) -> impl Iterator<Item = Place> {
        self.0.iter().flat_map(|((there, _), from)| {
            from.keys().map(|(_, here)| *here).chain(std::iter::once(*there))
        })
    }
}

/// Seconds until all members are done, each of which does its work in the order of places, when
/// what it receives for it is there.
fn simulated(work: &[BTreeMap<Place, f64>], arrivals: &Arrivals, rates: &Rates) -> f64 {
    let mut places: BTreeSet<Place> = arrivals.places().collect();
    places.extend(work.iter().flat_map(|work| work.keys()));
    let mut done = vec![0.0; work.len()];
    // When each member has received all that was sent to it so far.
    let mut received = vec![0.0; work.len()];
    // When the members that send anything at a place are done with it.
    let mut finished: BTreeMap<(usize, Place), f64> = BTreeMap::new();
    for place in places {
        for (member, done) in done.iter_mut().enumerate() {
            if let Some(arrival) = arrivals.0.get(&(place, member)) {
                let sent = |(from, bytes): (&(usize, Place), &u64)| {
                    (finished.get(from).copied().unwrap_or(0.0), *bytes)
                };
                let mut sent: Vec<(f64, u64)> = arrival.iter().map(sent).collect();
                sent.sort_by(|a, b| a.0.total_cmp(&b.0));
                for (sent, bytes) in sent {
                    received[member] = sent.max(received[member]) + bytes as f64 / rates.exchange;
                }
                *done = f64::max(*done, received[member] + rates.latency);
            }
            *done += work[member].get(&place).copied().unwrap_or(0.0);
            finished.insert((member, place), *done);
        }
    }
    done.into_iter().fold(0.0, f64::max)
}

/// Seconds that a member computes in each of its phases.
fn compute(lane: &Lane, places: &Places, rates: &Rates) -> BTreeMap<Place, f64> {
    let mut seconds = BTreeMap::new();
    let fused = fused(lane, places);
    let bytes = |name: Name| if fused[name as usize] { 0 } else { lane.local(name).ty.bytes() };
    for (item, place) in lane.items.iter().zip(&places.items) {
        if let (Item::Instr { op, args, out, .. }, Some(place)) = (item, place) {
            let types: Vec<OperandType> = args.iter().map(|arg| lane.operand_type(arg)).collect();
            let ty = &lane.local(*out).ty;
            let read: usize = args.iter().filter_map(Arg::name).map(bytes).sum();
            // Of what a slice does not take nothing is read.
            let most = if op.spec().class == Class::Move { ty.bytes() } else { usize::MAX };
            let bytes = read.min(most) + bytes(*out);
            *seconds.entry(*place).or_default() += rates.work(op, &types, ty, bytes);
        }
    }
    seconds
}

/// For each value whether it stays in the caches: it is made element by element, or moved, and used
/// so or reduced, all in one phase.
fn fused(lane: &Lane, places: &Places) -> Vec<bool> {
    let (mut made, mut used) = (vec![false; lane.locals.len()], vec![None; lane.locals.len()]);
    for (item, place) in lane.items.iter().zip(&places.items) {
        if place.is_none() {
            continue;
        }
        match item {
            Item::Instr { op, args, out, .. } => {
                made[*out as usize] = is_fused(op.spec().class);
                for name in args.iter().filter_map(Arg::name) {
                    let near = fuses(op.spec().class) && places.values[name as usize] == *place;
                    used[name as usize] = Some(near && used[name as usize] != Some(false));
                }
            }
            Item::Send { value, .. } => used[*value as usize] = Some(false),
            Item::Receive { .. } => {}
        }
    }
    made.iter().zip(used).map(|(made, used)| *made && used == Some(true)).collect()
}
