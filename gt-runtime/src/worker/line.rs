//! The order in which a worker waits for unfinished reads. Sessions take turns, and the reads of
//! one session follow each other.
//!
//! A plain data structure that knows nothing of threads and engines. One read at a time is taken
//! out, and is then put back or finished.

use std::collections::VecDeque;

/// The unfinished reads (`T`) of sessions (`K`).
#[derive(Debug)]
pub struct Line<K, T> {
    turns: VecDeque<(K, VecDeque<T>)>,
    away: Option<Away<K, T>>,
}

/// The read that is taken out.
#[derive(Debug)]
struct Away<K, T> {
    /// The session of the read. None if the session was forgotten.
    session: Option<K>,
    /// The session's other reads.
    behind: VecDeque<T>,
}

impl<K, T> Default for Line<K, T> {
    fn default() -> Self {
        Line { turns: VecDeque::new(), away: None }
    }
}

impl<K: PartialEq + Copy, T> Line<K, T> {
    /// Adds a read behind the other reads of its session.
    pub fn add(&mut self, session: K, read: T) {
        let away = self.away.iter_mut().find(|away| away.session == Some(session));
        let reads = self.turns.iter_mut().find(|(of, _)| *of == session).map(|(_, reads)| reads);
        match away.map(|away| &mut away.behind).or(reads) {
            Some(reads) => reads.push_back(read),
            None => self.turns.push_back((session, VecDeque::from([read]))),
        }
    }

    /// Takes out the next read. None while another read is out, and without reads.
    pub fn take(&mut self) -> Option<(K, T)> {
        if self.away.is_some() {
            return None;
        }
        let (session, mut behind) = self.turns.pop_front()?;
        let read = behind.pop_front()?;
        self.away = Some(Away { session: Some(session), behind });
        Some((session, read))
    }

    /// Whether the session of the read that is out still waits for it.
    pub fn is_wanted(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.session.is_some())
    }

    /// Puts the read back as the first of its session, and its session behind the others. Returns
    /// the read if its session was forgotten.
    pub fn put_back(&mut self, read: T) -> Option<T> {
        match self.away.take() {
            Some(Away { session: Some(session), mut behind }) => {
                behind.push_front(read);
                self.turns.push_back((session, behind));
                None
            }
            Some(Away { session: None, .. }) | None => Some(read),
        }
    }

    /// Removes the read that is out: it is answered.
    pub fn finish(&mut self) {
        if let Some(Away { session: Some(session), behind }) = self.away.take()
            && !behind.is_empty()
        {
            self.turns.push_back((session, behind));
        }
    }

    /// Forgets a session's reads. A read that is out stays out until it is put back or finished.
    pub fn forget(&mut self, session: K) {
        self.turns.retain(|(of, _)| *of != session);
        if let Some(away) = self.away.as_mut().filter(|away| away.session == Some(session)) {
            *away = Away { session: None, behind: VecDeque::new() };
        }
    }

    /// Whether a session has unfinished reads.
    #[must_use]
    pub fn has(&self, session: K) -> bool {
        self.turns.iter().any(|(of, _)| *of == session)
            || self.away.as_ref().is_some_and(|away| away.session == Some(session))
    }

    /// The number of unfinished reads.
    #[must_use]
    pub fn len(&self) -> usize {
        let waiting: usize = self.turns.iter().map(|(_, reads)| reads.len()).sum();
        waiting + self.away.as_ref().map_or(0, |away| 1 + away.behind.len())
    }

    /// Whether there are no unfinished reads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.away.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;
    use std::collections::BTreeMap;

    /// A read: its session, its number, and how many more turns it needs.
    type Read = (u64, u64, u64);

    /// Random sessions add reads, take turns and are forgotten. The reads of a session end once
    /// each and in their order, unless the session is forgotten. Between two turns of a session
    /// with waiting reads, every other session has at most one turn.
    #[test]
    fn sessions_take_turns_and_lose_nothing() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut line, mut added) = (Line::<u64, Read>::default(), 0);
            let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            let mut since: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for _ in 0..400 {
                let session = random.below(5);
                match random.below(20) {
                    0..8 => {
                        added += 1;
                        line.add(session, (session, added, random.below(4)));
                        open.entry(session).or_default().push(added);
                        since.entry(session).or_default();
                    }
                    8 => {
                        line.forget(session);
                        open.remove(&session);
                        since.remove(&session);
                    }
                    _ => {
                        let taken = line.take();
                        let Some((session, (owner, n, left))) = taken else {
                            assert!(line.is_empty() && open.values().all(Vec::is_empty));
                            continue;
                        };
                        assert_eq!((session, Some(&n)), (owner, open[&session].first()));
                        for (other, turns) in &mut since {
                            let again = turns.contains(&session) && *other != session;
                            assert!(!again, "seed {seed}: {session} before {other}");
                            turns.push(session);
                        }
                        since.insert(session, Vec::new());
                        let ended = random.percent(5);
                        if ended {
                            line.forget(session);
                            open.remove(&session);
                            since.remove(&session);
                        }
                        assert_eq!(line.is_wanted(), !ended);
                        if left > 0 {
                            assert_eq!(line.put_back((owner, n, left - 1)).is_some(), ended);
                        } else {
                            line.finish();
                            open.get_mut(&session).map(|open| open.remove(0));
                        }
                    }
                }
                assert_eq!(line.len(), open.values().map(Vec::len).sum::<usize>());
                since.retain(|session, _| line.has(*session));
                assert!(open.iter().all(|(session, open)| line.has(*session) != open.is_empty()));
            }
        }
    }
}
