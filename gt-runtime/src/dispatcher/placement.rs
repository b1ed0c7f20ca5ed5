//! The choice of a session's home: a pure function of the loads of the workers.

use crate::ids::WorkerId;

/// The load of a worker, the most important measure first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Load {
    /// The number of sessions whose home the worker is.
    pub n_sessions: usize,
    /// The weight of the messages queued for it.
    pub queued: u64,
}

/// The least loaded worker. Among equals, the worker that joined first.
pub fn home(workers: impl Iterator<Item = (WorkerId, Load)>) -> Option<WorkerId> {
    workers.min_by_key(|(worker, load)| (*load, *worker)).map(|(worker, _)| worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_loaded_then_the_oldest() {
        let check = |loads: &[(usize, u64)], want: Option<u64>| {
            let workers = loads.iter().enumerate();
            let workers = workers.map(|(i, &(n_sessions, queued))| {
                (WorkerId(i as u64 + 1), Load { n_sessions, queued })
            });
            assert_eq!(home(workers), want.map(WorkerId), "{loads:?}");
        };
        check(&[], None);
        check(&[(1, 0), (0, 9), (0, 9)], Some(2));
        check(&[(1, 5), (1, 4)], Some(2));
    }
}
