//! A queue that sessions share by time. The session that has used the least time for its weight
//! goes next (stride scheduling).
//!
//! Guarantees: the items of a session stay in order, except those that are added ahead of others.
//! A session that has something to do waits at most for the item that is out, and for the sessions
//! that have used no more time. A session that had nothing to do begins with the time of the one
//! that was served last, so nobody saves up time. An operation takes a time logarithmic in the
//! number of sessions.
//!
//! A plain data structure: it knows nothing of threads, and its user measures the times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::queue::Items;

/// The highest weight.
pub const MAX_WEIGHT: u32 = 100;
/// The weighted time of a nanosecond of weight 1.
const SCALE: u64 = MAX_WEIGHT as u64;
/// The weight of a session that was not opened with another one.
const NORMAL: u64 = 10;
/// The most weighted time by which [`Fair::owe`] sets a session back: 100 ms of weight 10.
const MAX_DEBT: u64 = 100_000_000 * SCALE / NORMAL;

/// The items (`T`) of sessions (`K`).
#[derive(Debug)]
pub struct Fair<K, T> {
    lines: BTreeMap<K, Line<T>>,
    /// The lines with an item to take, by the time that they have used.
    ready: BTreeSet<(u64, K)>,
    /// Items that come before all lines.
    first: VecDeque<T>,
    /// The highest time of a line at the moment when it was served.
    now: u64,
}

/// The items of a session.
#[derive(Debug)]
struct Line<T> {
    items: VecDeque<T>,
    weight: u64,
    /// The time that the session has used, divided by its weight.
    used: u64,
    /// Whether its first item waits for a call of [`Fair::resume`].
    parked: bool,
}

impl<T> Line<T> {
    fn is_ready(&self) -> bool {
        !self.parked && !self.items.is_empty()
    }
}

impl<K, T> Default for Fair<K, T> {
    fn default() -> Self {
        let (lines, ready) = (BTreeMap::new(), BTreeSet::new());
        Fair { lines, ready, first: VecDeque::new(), now: 0 }
    }
}

impl<K: Ord + Copy, T> Fair<K, T> {
    /// Gives a session a weight, from 1 to [`MAX_WEIGHT`].
    pub fn open(&mut self, session: K, weight: u32) {
        self.change(session, |line, _| line.weight = weight.clamp(1, MAX_WEIGHT).into());
    }

    /// Adds an item behind the others of its session.
    pub fn add(&mut self, session: K, item: T) {
        self.change(session, |line, _| line.items.push_back(item));
    }

    /// Adds an item behind those of its session for which `before` holds, which are the first ones,
    /// and behind those right after them for which `trifles` holds.
    pub fn add_behind(
        &mut self,
        session: K,
        item: T,
        before: impl FnMut(&T) -> bool,
        trifles: impl Fn(&T) -> bool,
    ) {
        self.change(session, |line, _| {
            let first = line.items.partition_point(before);
            let at = first + line.items.range(first..).take_while(|item| trifles(item)).count();
            line.items.insert(at, item);
            line.parked &= at > 0;
        });
    }

    /// Adds an item that comes before all sessions.
    pub fn add_first(&mut self, item: T) {
        self.first.push_back(item);
    }

    /// Puts an item back that was taken, unless its session has ended.
    pub fn put_back(&mut self, session: K, item: T) {
        if self.lines.contains_key(&session) {
            self.change(session, |line, _| line.items.push_front(item));
        }
    }

    /// As [`Fair::put_back`], but the session gets no turn before [`Fair::resume`].
    pub fn park(&mut self, session: K, item: T) {
        if self.lines.contains_key(&session) {
            self.change(session, |line, _| {
                line.items.push_front(item);
                line.parked = true;
            });
        }
    }

    /// Ends the wait of parked sessions.
    pub fn resume(&mut self) {
        let parked = self.lines.iter().filter(|(_, line)| line.parked);
        let parked: Vec<K> = parked.map(|(&session, _)| session).collect();
        for session in parked {
            self.change(session, |line, _| line.parked = false);
        }
    }

    /// Charges a session for an item that took so many nanoseconds.
    pub fn charge(&mut self, session: K, nanos: u64) {
        if self.lines.contains_key(&session) {
            self.change(session, |line, now| line.used = later(line, now, nanos));
        }
    }

    /// Charges a session for work that was done beside the items. A session that is far behind is
    /// not set back further.
    pub fn owe(&mut self, session: K, nanos: u64) {
        if self.lines.contains_key(&session) {
            self.change(session, |line, now| {
                let most = line.used.max(now.saturating_add(MAX_DEBT));
                line.used = later(line, now, nanos).min(most);
            });
        }
    }

    /// Whether another session goes first once this one has used so many nanoseconds more.
    pub fn is_due(&self, session: K, nanos: u64) -> bool {
        let Some(line) = self.lines.get(&session) else { return !self.is_empty() };
        let used = later(line, self.now, nanos);
        let mut others = self.ready.iter().filter(|(_, other)| *other != session);
        !self.first.is_empty() || others.next().is_some_and(|(other, _)| *other < used)
    }

    /// Whether the session has no item, and no other session has an item to take.
    pub fn is_free_for(&self, session: K) -> bool {
        self.is_empty() && self.n_items(session) == 0
    }

    /// Whether an item of another session than this one may be taken.
    pub fn has_others(&self, session: Option<K>) -> bool {
        let mut ready = self.ready.iter();
        !self.first.is_empty() || ready.any(|(_, other)| Some(*other) != session)
    }

    /// The number of a session's items.
    pub fn n_items(&self, session: K) -> usize {
        self.lines.get(&session).map_or(0, |line| line.items.len())
    }

    /// Forgets a session. Returns its items.
    pub fn end(&mut self, session: K) -> VecDeque<T> {
        let Some(line) = self.lines.remove(&session) else { return VecDeque::new() };
        self.ready.remove(&(line.used, session));
        line.items
    }

    /// Changes a line, and keeps its place among those that are ready.
    fn change(&mut self, session: K, act: impl FnOnce(&mut Line<T>, u64)) {
        let new = || Line { items: VecDeque::new(), weight: NORMAL, used: 0, parked: false };
        let line = self.lines.entry(session).or_insert_with(new);
        let (was_ready, before) = (line.is_ready(), line.used);
        act(line, self.now);
        let is_ready = line.is_ready();
        if is_ready && !was_ready {
            line.used = line.used.max(self.now);
        }
        if (is_ready, line.used) != (was_ready, before) {
            if was_ready {
                self.ready.remove(&(before, session));
            }
            if is_ready {
                self.ready.insert((line.used, session));
            }
        }
    }
}

/// The time that a line has used after so many nanoseconds more.
fn later<T>(line: &Line<T>, now: u64, nanos: u64) -> u64 {
    line.used.max(now).saturating_add(nanos.saturating_mul(SCALE) / line.weight)
}

impl<K: Ord + Copy, T> Items for Fair<K, T> {
    type Item = T;

    fn take(&mut self) -> Option<T> {
        if let Some(item) = self.first.pop_front() {
            return Some(item);
        }
        let &(used, session) = self.ready.first()?;
        self.now = self.now.max(used);
        let line = self.lines.get_mut(&session)?;
        let item = line.items.pop_front();
        if line.items.is_empty() {
            self.ready.pop_first();
        }
        item
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// Serves lines that always have items of these lengths and weights, and returns the time of
    /// each.
    fn times(lines: &[(u64, u32)], total: u64) -> Vec<u64> {
        let mut fair = Fair::default();
        for (session, &(_, weight)) in lines.iter().enumerate() {
            fair.open(session, weight);
            fair.add(session, session);
        }
        let mut times = vec![0; lines.len()];
        while times.iter().sum::<u64>() < total {
            let session = fair.take().unwrap();
            times[session] += lines[session].0;
            fair.add(session, session);
            fair.charge(session, lines[session].0);
        }
        times
    }

    #[test]
    fn time_is_shared_by_weight_and_not_by_the_number_or_length_of_items() {
        assert_eq!(times(&[(10, 10); 4], 4_000), [1_000; 4]);
        let check = |lines: &[(u64, u32)], want: &[u64]| {
            for (got, want) in times(lines, 1_000_000).into_iter().zip(want) {
                assert!(got.abs_diff(*want) <= 2_000, "{lines:?}: {got} in place of {want}");
            }
        };
        check(&[(1_000, 10), (1, 10)], &[500_000, 500_000]);
        check(&[(10, 10), (10, 20), (10, 40)], &[142_857, 285_714, 571_429]);
        check(&[(700, 1), (3, 99)], &[10_000, 990_000]);
    }

    #[test]
    fn a_session_that_was_idle_waits_for_one_item_and_saves_nothing_up() {
        let mut fair = Fair::default();
        for n in 0..100 {
            fair.add('a', ('a', n));
            fair.add('b', ('b', n));
        }
        for n in 0..50 {
            let (session, _) = fair.take().unwrap();
            fair.charge(session, 1_000 + n);
        }
        let out = fair.take().unwrap().0;
        for n in 0..10 {
            fair.add('c', ('c', n));
        }
        fair.charge(out, 1_000);
        let next: String = (0..6)
            .map(|_| {
                let (session, _) = fair.take().unwrap();
                fair.charge(session, 1_000);
                session
            })
            .collect();
        assert!(next.starts_with('c') && next.matches('c').count() <= 3, "{next}");
    }

    #[test]
    fn items_of_a_session_stay_in_order_and_some_go_ahead() {
        let mut fair = Fair::default();
        (0..4).for_each(|n| fair.add('a', n * 10));
        fair.add_behind('a', 15, |item| *item <= 15, |_| false);
        fair.add_behind('a', 16, |item| *item <= 16, |_| false);
        fair.add_behind('a', 21, |item| *item <= 16, |item| *item == 20);
        fair.add_first(99);
        let mut take = || std::iter::from_fn(|| fair.take()).collect::<Vec<_>>();
        assert_eq!(take(), [99, 0, 10, 15, 16, 20, 21, 30]);
    }

    #[test]
    fn a_parked_session_waits_and_an_ended_one_is_gone() {
        let mut fair = Fair::default();
        ["a1", "a2"].iter().for_each(|item| fair.add('a', *item));
        fair.add('b', "b1");
        let item = fair.take().unwrap();
        fair.park('a', item);
        assert!(!fair.is_free_for('a') && !fair.is_free_for('b'));
        assert_eq!((fair.take(), fair.take()), (Some("b1"), None));
        assert!(!fair.is_free_for('a') && fair.is_free_for('b'));
        fair.add_behind('a', "a0", |_| false, |_| false);
        assert_eq!((fair.take(), fair.take()), (Some("a0"), Some("a1")));
        fair.park('a', "a1");
        fair.resume();
        assert_eq!((fair.take(), fair.end('a').len(), fair.take()), (Some("a1"), 1, None));
        fair.charge('a', 5);
        assert!(fair.is_free_for('a'));
    }

    #[test]
    fn work_beside_the_queue_sets_a_session_back_by_a_bounded_time() {
        let mut fair = Fair::default();
        "ab".chars().for_each(|session| fair.add(session, session));
        (0..1_000).for_each(|_| fair.owe('a', 1_000_000_000));
        let mut waited = 0;
        while fair.take() == Some('b') {
            fair.add('b', 'b');
            fair.charge('b', 1_000_000);
            waited += 1;
        }
        assert!((90..=101).contains(&waited), "{waited} ms");
        assert!(fair.is_due('a', 1) && !fair.is_due('b', 1));
    }

    /// Against a list that is searched.
    #[test]
    fn random_operations_keep_the_order_and_the_books() {
        let mut random = Random::new(7);
        let mut fair: Fair<u64, (u64, u64)> = Fair::default();
        let mut held: BTreeMap<u64, VecDeque<u64>> = BTreeMap::new();
        for n in 0..20_000 {
            let session = random.below(6);
            match random.below(8) {
                0..=3 => {
                    fair.add(session, (session, n));
                    held.entry(session).or_default().push_back(n);
                }
                4..=6 => match fair.take() {
                    Some((session, n)) => {
                        assert_eq!(held.get_mut(&session).unwrap().pop_front(), Some(n));
                        fair.charge(session, random.below(1_000));
                    }
                    None => assert!(held.values().all(VecDeque::is_empty)),
                },
                _ => {
                    let n_held = held.remove(&session).map_or(0, |items| items.len());
                    assert_eq!((fair.n_items(session), fair.end(session).len()), (n_held, n_held));
                }
            }
            let n_ready = held.values().filter(|items| !items.is_empty()).count();
            assert_eq!(fair.ready.len(), n_ready);
        }
    }
}
