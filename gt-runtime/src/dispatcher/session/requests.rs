//! The open requests of a session: reads and requests for statistics.
//!
//! Guarantees: the oldest request and the bytes that are awaited from workers are known without a
//! look at all requests. The credit of a request goes back to its client with the answer, so a
//! client that takes no answers cannot ask for more and more of them.

use std::collections::{BTreeMap, VecDeque};

use gt_ir::backend::WorkerStats;
use gt_ir::shape::Type;
use gt_ir::tape::ValueId;

use crate::clock::Time;
use crate::dispatcher::party::Owed;
use crate::ids::{RequestId, WorkerId};

/// The places of closed requests that are kept, so that forgetting them is cheap.
const SPARE: usize = 64;

/// An open request.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::dispatcher) struct Request {
    since: Time,
    /// The credit that its client gets back with the answer.
    pub(in crate::dispatcher) owed: Owed,
    /// The value to read, with its type. None for a request for statistics.
    pub(in crate::dispatcher) value: Option<(ValueId, Type)>,
    /// What the worker calls the value.
    pub(in crate::dispatcher) name: ValueId,
    /// The member of a gang that was asked for the value. Other members may not answer.
    pub(in crate::dispatcher) worker: Option<WorkerId>,
    /// How many workers still have to answer.
    pub(in crate::dispatcher) n_answers: usize,
    /// The statistics of those that have.
    pub(in crate::dispatcher) answers: Vec<WorkerStats>,
    /// Whether a worker has it.
    is_sent: bool,
    /// The bytes of the answer that were sent to the client.
    sent: u64,
}

impl Request {
    /// A request for a value, or for statistics, which one worker answers.
    pub(in crate::dispatcher) fn new(
        since: Time,
        value: Option<(ValueId, Type)>,
        owed: Owed,
    ) -> Request {
        let name = value.map_or(ValueId(0), |(value, _)| value);
        Request {
            since,
            owed,
            value,
            name,
            worker: None,
            n_answers: 1,
            answers: Vec::new(),
            is_sent: false,
            sent: 0,
        }
    }

    /// Whether the worker's answer counts, given that the session lives on it.
    pub(in crate::dispatcher) fn asks(&self, worker: WorkerId) -> bool {
        self.worker.is_none_or(|asked| asked == worker)
    }

    /// The bytes of the answer that were sent to the client.
    pub(in crate::dispatcher) fn sent(&self) -> u64 {
        self.sent
    }

    /// The bytes of the answer that were not sent to the client.
    pub(in crate::dispatcher) fn left(&self) -> u64 {
        self.value.map_or(0, |(_, ty)| (ty.bytes() as u64).saturating_sub(self.sent))
    }

    /// The bytes of the answer that a worker was asked for and that have not come.
    fn awaited(&self) -> u64 {
        if self.is_sent { self.left() } else { 0 }
    }
}

/// The open requests of a session.
#[derive(Debug, Default)]
pub(in crate::dispatcher) struct Requests {
    open: BTreeMap<RequestId, Request>,
    /// The requests in the order in which they came. The first one is open; others may be closed.
    order: VecDeque<(Time, RequestId)>,
    /// The bytes that workers were asked for and that have not come.
    awaited: u64,
}

impl Requests {
    /// Adds a request. Returns the open one of this number that it replaces.
    pub(in crate::dispatcher) fn open(
        &mut self,
        id: RequestId,
        request: Request,
    ) -> Option<Request> {
        let replaced = self.close(id);
        self.order.push_back((request.since, id));
        self.open.insert(id, request);
        replaced
    }

    /// Removes a request, if it is open.
    pub(in crate::dispatcher) fn close(&mut self, id: RequestId) -> Option<Request> {
        let request = self.open.remove(&id)?;
        self.awaited -= request.awaited();
        self.trim();
        Some(request)
    }

    /// Removes the requests for which `over` holds of the time when they came.
    pub(in crate::dispatcher) fn close_late(&mut self, over: impl Fn(Time) -> bool) -> Requests {
        let mut late = Requests::default();
        while let Some(&(since, id)) = self.order.front()
            && over(since)
            && let Some(request) = self.close(id)
        {
            late.open(id, request);
        }
        late
    }

    /// Forgets the places of closed requests before the first open one, and all such places once
    /// they are many.
    fn trim(&mut self) {
        let Requests { open, order, .. } = self;
        let is_open =
            |&(since, id): &(Time, RequestId)| open.get(&id).is_some_and(|r| r.since == since);
        while order.front().is_some_and(|first| !is_open(first)) {
            order.pop_front();
        }
        if order.len() > 2 * open.len() + SPARE {
            order.retain(is_open);
        }
    }

    pub(in crate::dispatcher) fn get(&self, id: RequestId) -> Option<&Request> {
        self.open.get(&id)
    }

    /// An open request, to note what its answer depends on.
    pub(in crate::dispatcher) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.open.get_mut(&id)
    }

    /// Notes that a worker has a request.
    pub(in crate::dispatcher) fn ask(&mut self, id: RequestId) {
        if let Some(request) = self.open.get_mut(&id)
            && !std::mem::replace(&mut request.is_sent, true)
        {
            self.awaited += request.left();
        }
    }

    /// Notes that so many bytes of an answer were sent to the client.
    pub(in crate::dispatcher) fn answer(&mut self, id: RequestId, bytes: u64) {
        if let Some(request) = self.open.get_mut(&id) {
            let before = request.awaited();
            request.sent += bytes;
            self.awaited -= before - request.awaited();
        }
    }

    /// The bytes that workers were asked for and that have not come.
    pub(in crate::dispatcher) fn awaited(&self) -> u64 {
        self.awaited
    }

    /// The credit that clients get back with the answers.
    pub(in crate::dispatcher) fn owed(&self) -> impl Iterator<Item = &Owed> {
        self.open.values().map(|request| &request.owed)
    }

    /// When the oldest request came.
    pub(in crate::dispatcher) fn oldest(&self) -> Option<Time> {
        self.order.front().map(|(since, _)| *since)
    }

    pub(in crate::dispatcher) fn len(&self) -> usize {
        self.open.len()
    }

    pub(in crate::dispatcher) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl IntoIterator for Requests {
    type Item = (RequestId, Request);
    type IntoIter = std::collections::btree_map::IntoIter<RequestId, Request>;

    fn into_iter(self) -> Self::IntoIter {
        self.open.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;
    use gt_ir::{DType, Shape};
    use std::time::Duration;

    /// Against a look at all requests.
    #[test]
    fn the_oldest_request_and_the_owed_bytes_are_those_of_all_open_ones() {
        let (mut random, mut requests) = (Random::new(3), Requests::default());
        let ty = |n| Type { dtype: DType::U8, shape: Shape::new(&[n as usize]).unwrap() };
        for second in 0..20_000 {
            let (id, now) = (RequestId(random.below(20)), Duration::from_secs(second / 3));
            match random.below(6) {
                0 | 1 => {
                    let value = random.percent(80).then(|| (ValueId(1), ty(random.below(100))));
                    requests.open(id, Request::new(now, value, Owed::NOTHING));
                }
                2 => requests.ask(id),
                3 => {
                    let left = requests.get(id).map_or(0, Request::left);
                    requests.answer(id, random.below(left + 1));
                }
                4 => drop(requests.close(id)),
                _ => {
                    let end = now.saturating_sub(Duration::from_secs(random.below(20)));
                    let late = requests.close_late(|since| since < end);
                    assert!(late.open.values().all(|request| request.since < end));
                    assert!(requests.open.values().all(|request| request.since >= end));
                }
            }
            let open = || requests.open.values();
            assert_eq!(requests.oldest(), open().map(|request| request.since).min());
            assert!(requests.order.len() <= 2 * requests.len() + SPARE + 1);
            assert_eq!(requests.awaited(), open().map(Request::awaited).sum::<u64>());
        }
    }
}
