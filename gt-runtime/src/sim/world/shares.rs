//! Whether sessions that have work share their worker by their weights.

use super::{Node, World};
use crate::clock::Time;
use crate::ids::SessionId;
use crate::sim::worker::longest;
use std::collections::BTreeMap;
use std::time::Duration;

/// The pairs of sessions that have work on the same worker.
#[derive(Default)]
pub(super) struct Shares {
    pairs: BTreeMap<(usize, SessionId, SessionId), Pair>,
    /// The longest time in which two sessions shared a worker.
    pub(super) longest: Duration,
}

/// The most nanoseconds by which a packet may be late.
const LATE: u64 = 1_000_000;

/// When a pair began, and the time that each of the two had used then.
struct Pair {
    since: Time,
    used: [u64; 2],
}

impl World {
    /// Two sessions that have work all the time get time in proportion to their weights, to within
    /// a few of their longest segments.
    pub(super) fn check_shares(&mut self) {
        let now = self.now;
        let mut before = std::mem::take(&mut self.shares.pairs);
        for (i, node) in self.nodes.iter().enumerate() {
            let Node::Worker(worker) = node else { continue };
            let used = |session| worker.used.get(&session).copied().unwrap_or_default();
            // A new session may still wait for the data of its first segment.
            let mut busy = self.dispatcher.busy(self.addresses[i]);
            busy.retain(|(session, _)| worker.used.contains_key(session));
            for (n, &(a, weight_a)) in busy.iter().enumerate() {
                for &(b, weight_b) in &busy[n + 1..] {
                    let new = Pair { since: now, used: [used(a), used(b)] };
                    let pair = before.remove(&(i, a, b)).unwrap_or(new);
                    let got_a = (used(a) - pair.used[0]) / weight_a;
                    let got_b = (used(b) - pair.used[1]) / weight_b;
                    let late = LATE / weight_a.min(weight_b);
                    let most = late + 2 * (longest(a) / weight_a + longest(b) / weight_b);
                    assert!(
                        got_a.abs_diff(got_b) <= most,
                        "seed {}: in {:?} {a} of weight {weight_a} got {got_a} ns for its weight, \
                         and {b} of weight {weight_b} got {got_b} ns",
                        self.seed,
                        now - pair.since
                    );
                    self.shares.longest = self.shares.longest.max(now - pair.since);
                    self.shares.pairs.insert((i, a, b), pair);
                }
            }
        }
    }
}
