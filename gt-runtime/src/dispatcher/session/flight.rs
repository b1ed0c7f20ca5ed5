//! The segments of a session that have not run: those that a worker has, then those that wait. A
//! worker gets no more of them than the session's share, so that a session that records faster than
//! its worker runs neither fills the worker's connection nor delays others by more than the share.
//!
//! The numbers of values tell which segments a read needs. In a session whose numbers do not count
//! upwards a read needs all segments before it.

use std::collections::VecDeque;
use std::sync::Arc;

use gt_ir::tape::{Entry, Tape};

use crate::clock::Time;

/// How far a session with neighbors may be ahead of its worker, in nanoseconds.
const AHEAD: u64 = 50_000_000;
/// The fewest segments that a worker may have, so that it always has one to run.
const FEW: usize = 2;

/// The most signals of a segment that are named.
const MAX_SIGNALS: usize = 4;

/// What a worker may have of one session.
#[derive(Clone, Copy, Debug)]
pub(in crate::dispatcher) struct Share {
    /// The weight of its segments.
    pub(in crate::dispatcher) weight: u64,
    /// Whether other sessions live on the worker.
    pub(in crate::dispatcher) has_neighbors: bool,
}

/// The segments of a session that have not run.
#[derive(Debug, Default)]
pub(in crate::dispatcher) struct Flight {
    segments: VecDeque<Segment>,
    /// The number of segments that a worker has, and their weight.
    n_sent: usize,
    sent: u64,
    /// The weight of those that wait.
    waiting: u64,
    /// One above the values of the segments that ran.
    above: u64,
    /// The nanoseconds of a segment, on average over the last ones.
    nanos: u64,
    /// The tape of the segment that ran last.
    last: Option<Arc<Tape>>,
    /// Whether a segment has defined a value with a number below an earlier one's.
    pub(super) is_mixed: bool,
}

#[derive(Debug)]
struct Segment {
    seq: u64,
    weight: u64,
    /// One above the values that it and the segments before it define.
    above: u64,
    tape: Option<Arc<Tape>>,
    /// When a worker got it.
    sent: Time,
}

impl Flight {
    /// Adds a segment that waits.
    pub(in crate::dispatcher) fn add(
        &mut self,
        seq: u64,
        weight: u64,
        above: u64,
        tape: Option<Arc<Tape>>,
    ) {
        self.waiting += weight;
        self.segments.push_back(Segment { seq, weight, above, tape, sent: Time::ZERO });
    }

    /// Whether the next segment that waits is within the share.
    pub(in crate::dispatcher) fn has_room(&self, share: Share) -> bool {
        let next = self.segments.get(self.n_sent).map_or(0, |segment| segment.weight);
        let is_early =
            !share.has_neighbors || self.nanos.saturating_mul(self.n_sent as u64) < AHEAD;
        self.n_sent == 0 || self.sent + next <= share.weight && (is_early || self.n_sent < FEW)
    }

    /// Notes that a worker gets the next segment.
    pub(in crate::dispatcher) fn send(&mut self, now: Time) {
        if let Some(next) = self.segments.get_mut(self.n_sent) {
            next.sent = now;
            self.n_sent += 1;
            self.sent += next.weight;
            self.waiting -= next.weight;
        }
    }

    /// Notes that the segments up to a number have run, and how long the last one took.
    pub(in crate::dispatcher) fn ran(&mut self, seq: u64, nanos: u64) {
        while self.n_sent > 0
            && let Some(first) = self.segments.front()
            && first.seq <= seq
        {
            self.drop_first();
        }
        self.took(nanos);
    }

    /// Notes how long a segment took.
    pub(in crate::dispatcher) fn took(&mut self, nanos: u64) {
        self.nanos = self.nanos - self.nanos / 8 + nanos / 8;
    }

    /// Notes that the first segment has run.
    pub(in crate::dispatcher) fn drop_first(&mut self) {
        if let Some(first) = self.segments.pop_front() {
            self.n_sent = self.n_sent.saturating_sub(1);
            self.sent = self.sent.saturating_sub(first.weight);
            self.above = first.above;
            self.last = first.tape.or(self.last.take());
        }
    }

    /// The number of segments of the session that a read of a value needs, if there are so many in
    /// all.
    pub(in crate::dispatcher) fn needed(&self, value: u64, n_segments: u64) -> u64 {
        if self.is_mixed {
            return n_segments;
        }
        let first = || self.segments.front().map_or(n_segments, |segment| segment.seq);
        match self.segments.partition_point(|segment| segment.above <= value) {
            0 if value < self.above => first(),
            at => self.segments.get(at).map_or(n_segments, |segment| segment.seq + 1),
        }
    }

    /// The weight of the segments that wait.
    pub(in crate::dispatcher) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// The number of segments that have not run.
    pub(in crate::dispatcher) fn len(&self) -> usize {
        self.segments.len()
    }

    /// The number and the weight of the segments that a worker has.
    pub(in crate::dispatcher) fn sent(&self) -> (usize, u64) {
        (self.n_sent, self.sent)
    }

    /// When a worker got the first segment that it has and has not run.
    pub(in crate::dispatcher) fn sent_at(&self) -> Option<Time> {
        self.segments.front().filter(|_| self.n_sent > 0).map(|segment| segment.sent)
    }

    /// The outer signals of the segment that runs, or else of the one that ran last.
    pub(in crate::dispatcher) fn signals(&self) -> Vec<Arc<str>> {
        let running = self.segments.front().filter(|_| self.n_sent > 0);
        let tape = running.and_then(|segment| segment.tape.as_ref()).or(self.last.as_ref());
        let (mut names, mut depth) = (Vec::new(), 0_usize);
        for entry in tape.into_iter().flat_map(|tape| &tape.entries) {
            match entry {
                Entry::Enter(name) => {
                    if depth == 0 && !names.contains(name) && names.len() < MAX_SIGNALS {
                        names.push(Arc::clone(name));
                    }
                    depth += 1;
                }
                Entry::Exit(_) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        names
    }

    /// Forgets all segments.
    pub(in crate::dispatcher) fn clear(&mut self) {
        let above = self.segments.back().map_or(self.above, |last| last.above);
        let last = self.last.take();
        let (nanos, is_mixed) = (self.nanos, self.is_mixed);
        *self = Flight { above, nanos, last, is_mixed, ..Flight::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(n: u64) -> Flight {
        let mut flight = Flight::default();
        (0..n).for_each(|seq| flight.add(seq, 100, 10 * (seq + 1), None));
        flight
    }

    fn send_all(flight: &mut Flight, share: Share) -> usize {
        while flight.waiting() > 0 && flight.has_room(share) {
            flight.send(Time::ZERO);
        }
        flight.sent().0
    }

    #[test]
    fn a_worker_gets_a_share_by_weight_and_with_neighbors_by_time() {
        let share = |weight, has_neighbors| Share { weight, has_neighbors };
        assert_eq!(send_all(&mut flight(100), share(1_000, false)), 10);
        assert_eq!(send_all(&mut flight(100), share(1, true)), 1);
        let mut slow = flight(1_000);
        slow.took(8 * 10_000_000);
        assert_eq!(send_all(&mut slow, share(1 << 20, true)), 5);
        assert_eq!(send_all(&mut slow, share(1 << 20, false)), 1_000);
        slow.ran(998, 0);
        assert_eq!((slow.len(), slow.sent()), (1, (1, 100)));
    }

    #[test]
    fn a_read_needs_the_segments_up_to_its_own() {
        let mut flight = flight(4);
        (0..4).for_each(|_| flight.send(Time::ZERO));
        flight.ran(0, 1);
        let needed = |flight: &Flight| [3, 9, 10, 19, 20, 39, 40].map(|v| flight.needed(v, 4));
        assert_eq!(needed(&flight), [1, 1, 2, 2, 3, 4, 4]);
        flight.is_mixed = true;
        assert_eq!(needed(&flight), [4; 7]);
        flight.is_mixed = false;
        flight.clear();
        assert_eq!(needed(&flight), [4; 7]);
    }
}
