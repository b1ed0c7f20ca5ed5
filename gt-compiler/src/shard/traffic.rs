//! What members send each other: bytes, messages, and how many rounds they take.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::cost::Rates;
use super::lanes::{Item, Lanes};
use super::needed::Needed;

/// What travels.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    /// The bytes that each member receives, by the level at which they are sent.
    received: BTreeMap<(u32, u32), u64>,
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
                *self.received.entry((local.moment.level, *to)).or_default() += bytes;
            }
        }
    }

    /// The levels at which anything is sent, in order.
    pub(super) fn levels(&self) -> BTreeSet<u32> {
        self.received.keys().map(|(level, _)| *level).collect()
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
}
