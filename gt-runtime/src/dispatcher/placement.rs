//! The choice of a session's home: a pure function of what the workers are and of their loads.

use std::cmp::Reverse;

use crate::ids::WorkerId;
use crate::wire::Capacity;

/// How little a worker suits a session, the most important measure first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rank {
    /// The number of other sessions that live on the worker.
    n_sessions: usize,
    /// Whether its device is the processor.
    on_cpu: bool,
    threads: Reverse<u32>,
    memory: Reverse<u64>,
    /// The weight of the messages queued for it.
    queued: u64,
}

impl Rank {
    /// The rank of a worker with so many other sessions, for which so much is queued.
    pub fn new(capacity: &Capacity, n_sessions: usize, queued: u64) -> Rank {
        let on_cpu = !capacity.device.starts_with("cuda");
        let (threads, memory) = (Reverse(capacity.threads), Reverse(capacity.memory));
        Rank { n_sessions, on_cpu, threads, memory, queued }
    }

    /// Whether a worker suits better than another one, whatever is queued for the two.
    pub fn is_better(self, other: Rank) -> bool {
        Rank { queued: 0, ..self } < Rank { queued: 0, ..other }
    }
}

/// The worker that suits best. Among equals, the worker that joined first.
pub fn home(workers: impl Iterator<Item = (WorkerId, Rank)>) -> Option<WorkerId> {
    workers.min_by_key(|(worker, rank)| (*rank, *worker)).map(|(worker, _)| worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions, device, threads, memory, queued weight.
    type Worker = (usize, &'static str, u32, u64, u64);

    #[test]
    fn the_least_loaded_then_the_most_capable_then_the_oldest() {
        let check = |workers: &[Worker], want: Option<u64>| {
            let workers = workers.iter().enumerate();
            let ranked = workers.map(|(i, &(n_sessions, device, threads, memory, queued))| {
                let device = device.into();
                let capacity = Capacity { device, threads, memory, ..Capacity::default() };
                (WorkerId(i as u64 + 1), Rank::new(&capacity, n_sessions, queued))
            });
            assert_eq!(home(ranked), want.map(WorkerId), "{want:?}");
        };
        check(&[], None);
        check(&[(1, "cpu", 1, 1, 0), (0, "cpu", 1, 1, 9), (0, "cpu", 1, 1, 9)], Some(2));
        check(&[(1, "cpu", 1, 1, 5), (1, "cpu", 1, 1, 4)], Some(2));
        check(&[(0, "cpu", 64, 9, 0), (0, "cuda:0", 1, 1, 7)], Some(2));
        check(&[(0, "cpu", 64, 9, 0), (1, "cuda:0", 1, 1, 0)], Some(1));
        check(&[(0, "cpu", 2, 9, 0), (0, "cpu", 8, 1, 7)], Some(2));
        check(&[(0, "cpu", 2, 1, 0), (0, "cpu", 2, 9, 7)], Some(2));
    }
}
