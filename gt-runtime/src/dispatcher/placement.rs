//! Where a session lives: a pure function of how loaded the workers are.

use crate::ids::WorkerId;

/// How loaded a worker is, the heaviest measure first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Load {
    /// Sessions whose home it is.
    pub n_sessions: usize,
    /// Weight of what waits to be sent to it.
    pub queued: u64,
}

/// The least loaded worker, the oldest of equals.
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
