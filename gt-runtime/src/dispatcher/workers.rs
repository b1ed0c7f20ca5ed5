//! The handlers of workers' messages, and of the loss of a worker.

use super::core::Dispatcher;
use super::party::{Owed, Party, Worker};
use super::session::{Session, Work, error};
use super::{Action, Config, Report};
use crate::identity::Identity;
use crate::ids::{PeerId, RequestId, SessionId, WorkerId};
use crate::wire::{Capacity, Chunk, Counts, FromWorker, RESERVED, Stream, ToClient};
use gt_ir::backend::{ErrorKind, RunError, SegmentStats, Stats, WorkerStats};
use gt_ir::signal::Signals;
use std::sync::Arc;

impl Dispatcher {
    pub(super) fn worker_says(
        &mut self,
        worker: WorkerId,
        stream: Stream,
        weight: u64,
        message: FromWorker,
    ) {
        let owed = Owed { to: Some(Party::Worker(worker)), weight };
        if let FromWorker::Chunk { session, request, chunk } = message {
            let session = self.whose(session);
            if self.pass_piece(worker, session, request, &chunk, owed) {
                return;
            }
            return self.relay(worker, session, request, chunk, owed);
        }
        self.pay(stream, owed);
        match message {
            FromWorker::Register(capacity) => self.register(worker, *capacity),
            FromWorker::Done { session, seq, attempt, counts } => {
                let session = self.whose(session);
                self.totals.work.count(counts);
                let now = self.now;
                let known = self.workers.get_mut(&worker).into_iter();
                known.for_each(|worker| worker.ran(now, counts));
                if !self.member_done(worker, session, (attempt, seq), counts) {
                    self.done(worker, session, (attempt, seq), counts);
                }
            }
            FromWorker::Performed { session, seq, attempt, performed } => {
                let session = self.whose(session);
                self.totals.work.add(performed.work);
                let now = self.now;
                let known = self.workers.get_mut(&worker).into_iter();
                known.for_each(|worker| worker.did(now, performed.work, performed.memory));
                self.member_performed(worker, session, (attempt, seq), &performed);
            }
            FromWorker::Failed { session, request, error } => {
                let session = self.whose(session);
                self.failed(worker, session, request, self.signed(worker, error));
            }
            FromWorker::Sent { session, request, bytes } => {
                let session = self.whose(session);
                self.arrived(worker, session, (request, bytes));
            }
            FromWorker::Stats { session, request, stats } => {
                let session = self.whose(session);
                self.take_stats(worker, session, request, *stats);
            }
            FromWorker::Planned { session, planned } => {
                let session = self.whose(session);
                if self.sessions.get(&session).is_some_and(|held| held.lives_on(worker)) {
                    self.compiled(session, planned.nanos);
                }
                self.relay_news(worker, session, ToClient::Planned(planned))
            }
            FromWorker::Note { session, text } => {
                self.relay_news(worker, self.whose(session), ToClient::Note(text))
            }
            FromWorker::Moments(moments) => self.moments(Party::Worker(worker), *moments),
            FromWorker::Chunk { .. } => (),
        }
    }

    /// An error with the name of the worker where it happened.
    fn signed(&self, worker: WorkerId, error: Arc<RunError>) -> Arc<RunError> {
        if error.worker.is_some() {
            return error;
        }
        Arc::new(RunError { worker: Some(self.worker_name(worker)), ..RunError::clone(&error) })
    }

    /// Passes on the error that came in place of a value, to the member that waits for the value or
    /// to the client.
    fn failed(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        request: RequestId,
        error: Arc<RunError>,
    ) {
        if self.pass_error(worker, id, request, &error) {
            return;
        }
        let asked = self.sessions.get(&id).and_then(|session| session.requests.get(request));
        let asked = asked.and_then(|asked| asked.value).map(|(value, _)| value);
        if let Some(owed) = self.take_request(worker, id, request) {
            let foreign = error.value.is_some_and(|value| value.0 >= RESERVED);
            let error = match foreign {
                true => Arc::new(RunError { value: asked, ..RunError::clone(&error) }),
                false => error,
            };
            self.answer_error(id, request, error, owed);
        }
    }

    /// The session that a worker knows under a number.
    pub(super) fn whose(&self, session: SessionId) -> SessionId {
        self.seats.get(&session).copied().unwrap_or(session)
    }

    /// As `whose`, of a session on one worker; members of gangs keep their names.
    #[cfg(test)]
    pub(crate) fn session_called(&self, name: SessionId) -> SessionId {
        let id = self.whose(name);
        let alone = self.sessions.get(&id).is_some_and(|session| session.gang.is_none());
        if alone { id } else { name }
    }

    /// Passes news for the user on to a client, if its session lives on the worker.
    fn relay_news(&mut self, worker: WorkerId, session: SessionId, news: ToClient) {
        if self.sessions.get(&session).is_some_and(|held| held.lives_on(worker)) {
            self.tell_news(session, news);
        }
    }

    /// Tells a client news for the user. A client that leaves too much unread gets no more news.
    pub(super) fn tell_news(&mut self, session: SessionId, news: ToClient) {
        let listens = |held: &Session| self.queued(held.peer, Stream::Control) < MAX_NEWS;
        if self.sessions.get(&session).is_some_and(listens) {
            self.give_client(session, Stream::Control, news, Owed::NOTHING);
        }
    }

    fn register(&mut self, id: WorkerId, capacity: Capacity) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let joined = worker.capacity.replace(capacity.clone()).is_none();
        let identity =
            self.peers.get(&worker.peer).map(|peer| peer.identity.clone()).unwrap_or_default();
        if joined {
            self.totals.joined += 1;
            self.measure_memory();
            self.out.push(Action::Report(Report::WorkerJoined(id, identity, capacity)));
            self.take_up_waiting();
            self.release_idle(id);
        }
    }

    /// Adapts the quota of sessions to the memory of the workers. It never falls when a worker is
    /// lost, because its sessions go on with the other workers.
    fn measure_memory(&mut self) {
        let memories = self.ready().filter_map(|(_, worker)| worker.capacity.as_ref());
        let sum = memories.fold(0_u64, |sum, capacity| sum.saturating_add(capacity.memory));
        let quota = sum.saturating_mul(Config::MEMORIES);
        if self.config.quota_of_workers && quota > self.memory_quota {
            (self.memory_quota, self.config.quota) = (quota, quota);
        }
    }

    /// Gives homes to the sessions whose orders wait for one.
    fn take_up_waiting(&mut self) {
        let waiting = self.sessions.iter().filter(|(_, session)| !session.waiting.is_empty());
        let waiting: Vec<SessionId> = waiting.map(|(&id, _)| id).collect();
        for id in waiting {
            if self.find_home(id).is_none() {
                self.miss_home(id);
                continue;
            }
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            // Segments wait for data, so data goes first.
            let waiting = std::mem::take(&mut session.waiting);
            let is_data = |work: &Work| work.order.stream() == Stream::Bulk;
            let (data, orders): (Vec<Work>, Vec<Work>) = waiting.into_iter().partition(is_data);
            session.waiting.extend(orders);
            data.into_iter().for_each(|work| self.send_work(id, work));
            self.send_more(id);
        }
    }

    fn done(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        (attempt, seq): (u32, u64),
        counts: Counts,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        // The report is of an earlier attempt, or repeated.
        if session.home != Some(worker)
            || session.attempt != attempt
            || seq < session.n_done
            || seq >= session.n_segments
        {
            return;
        }
        session.n_done = seq + 1;
        session.progress = self.now;
        session.ran.segments += 1;
        session.ran.instructions += counts.instructions;
        session.spent.work.count(counts);
        session.flight.ran(seq, counts.nanos);
        self.send_more(id);
    }

    /// Passes a piece of a fetched value on.
    fn relay(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        request: RequestId,
        mut chunk: Box<Chunk>,
        owed: Owed,
    ) {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| session.lives_on(worker))
        else {
            return self.pay(Stream::Bulk, owed); // The session has ended or moved.
        };
        session.progress = self.now;
        let asked = session.requests.get(request).filter(|asked| asked.asks(worker));
        let Some(asked) = asked else { return self.pay(Stream::Bulk, owed) };
        let expected = asked.value.is_some_and(|(_, ty)| {
            let total = ty.bytes() as u64;
            let end = chunk.offset.checked_add(chunk.bytes.len() as u64);
            chunk.value == asked.name
                && chunk.ty.same_layout(&ty)
                && chunk.total == total
                && chunk.offset == asked.sent()
                && end.is_some_and(|end| end <= total)
        });
        if !expected {
            let asked = asked.value.map(|(value, _)| value);
            let closed = session.requests.close(request).map(|request| request.owed);
            self.pay(Stream::Bulk, owed);
            let name = self.worker_name(worker);
            let value = asked.unwrap_or(chunk.value);
            let message = format!(
                "worker {name} answered the read of {value} with data that was not requested"
            );
            let error = RunError {
                value: Some(value),
                worker: Some(name),
                ..error(ErrorKind::Internal, message)
            };
            self.answer_error(id, request, Arc::new(error), closed.unwrap_or(Owed::NOTHING));
            return self.send_more(id);
        }
        chunk.value = asked.value.map_or(asked.name, |(value, _)| value);
        session.spent.down += chunk.bytes.len() as u64;
        session.requests.answer(request, chunk.bytes.len() as u64);
        let closed = if chunk.is_last() { session.requests.close(request) } else { None };
        self.pay_request(closed);
        // A client that is slow gets no further reads, so it keeps no credit of a worker.
        self.pay(Stream::Bulk, owed);
        self.give_client(id, Stream::Bulk, ToClient::Chunk { request, chunk }, Owed::NOTHING);
    }

    /// Gives back the credit of data that is passed on to a peer, or returns it if so much waits
    /// for the peer that the sender must wait, too.
    pub(super) fn pay_unless_slow(&mut self, peer: Option<PeerId>, owed: Owed) -> Owed {
        if peer.is_some_and(|peer| self.queued(peer, Stream::Bulk) > self.config.relay) {
            return owed;
        }
        self.pay(Stream::Bulk, owed);
        Owed::NOTHING
    }

    /// Closes a request, if it is open and this worker was asked. Returns its credit.
    fn take_request(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        request: RequestId,
    ) -> Option<Owed> {
        let session = self.sessions.get_mut(&id).filter(|session| session.lives_on(worker))?;
        session.progress = self.now;
        let asked = session.requests.get(request).is_some_and(|asked| asked.asks(worker));
        let closed = if asked { session.requests.close(request) } else { None };
        self.send_more(id);
        closed.map(|request| request.owed)
    }

    /// Takes the statistics of one worker; the last one completes the answer.
    fn take_stats(&mut self, worker: WorkerId, id: SessionId, request: RequestId, stats: Stats) {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| session.lives_on(worker))
        else {
            return;
        };
        session.progress = self.now;
        let Some(asked) = session.requests.get_mut(request) else { return };
        asked.answers.extend(stats.workers.clone());
        asked.n_answers = asked.n_answers.saturating_sub(1);
        if asked.n_answers == 0 {
            let workers = std::mem::take(&mut asked.answers);
            self.answer_stats(id, request, Some(Stats { workers, ..stats }));
        }
    }

    /// Answers with the statistics of the session's workers and of the workers that it has lost.
    pub(super) fn answer_stats(&mut self, id: SessionId, request: RequestId, home: Option<Stats>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let owed = session.requests.close(request).map_or(Owed::NOTHING, |request| request.owed);
        let (peer, signals) = (session.peer, Signals::clone(&session.signals));
        let workers = session
            .ran_elsewhere
            .iter()
            .cloned()
            .chain(home.into_iter().flat_map(|stats| stats.workers));
        let segments = SegmentStats { verified: session.n_verified, ..SegmentStats::default() };
        let stats =
            Box::new(Stats { workers: workers.collect(), segments, signals, ..Stats::default() });
        if self.queued(peer, Stream::Control) > MAX_NEWS {
            let message = "the program has not taken earlier answers".to_owned();
            return self.answer_error(
                id,
                request,
                Arc::new(error(ErrorKind::Resource, message)),
                owed,
            );
        }
        self.give_client(id, Stream::Control, ToClient::Stats { request, stats }, owed);
    }

    /// Lets a worker go that says good-bye. It counts as lost if sessions live on it.
    pub(super) fn part_with(&mut self, id: WorkerId, peer: PeerId, reason: &str) {
        let is_free = |worker: &Worker| worker.capacity.is_some() && worker.sessions.is_empty();
        if !self.workers.get(&id).is_some_and(is_free) {
            return;
        }
        self.workers.remove(&id);
        self.roads.retain(|(from, to), _| *from != id && *to != id);
        self.totals.left += 1;
        if let Some(known) = self.peers.get(&peer) {
            let report = Report::WorkerLeft(id, known.identity.clone(), reason.to_owned());
            self.out.push(Action::Report(report));
        }
    }

    /// Handles the loss of a worker with all its values.
    pub(super) fn lose_worker(&mut self, id: WorkerId, identity: Identity, reason: &str) {
        let Some(worker) = self.workers.remove(&id) else { return };
        self.totals.lost += u64::from(worker.capacity.is_some());
        self.roads.retain(|(from, to), _| *from != id && *to != id);
        let name = identity.known_as(id);
        let message = format!("worker {name} was lost with the values it held: {reason}");
        let cause = Arc::new(RunError {
            worker: Some(name.clone()),
            ..error(ErrorKind::WorkerLost, message)
        });
        self.out.push(Action::Report(Report::WorkerLost(id, identity, reason.to_owned())));
        for session_id in worker.sessions {
            let ran = self.ran_so_far(session_id, (id, &name));
            self.drop_waiting(session_id);
            self.leave_gang(session_id);
            let Some(session) = self.sessions.get_mut(&session_id) else { continue };
            self.seats.remove(&session.name);
            let unanswered = session.lose_home(&cause);
            session.ran = WorkerStats::default();
            ran.into_iter().for_each(|(name, ran)| session.ran_on(name, ran));
            self.answer_errors(session_id, unanswered, &cause);
        }
    }

    /// What each worker of a session has run, by the worker's name. One worker is lost and has this
    /// name.
    fn ran_so_far(&self, id: SessionId, lost: (WorkerId, &str)) -> Vec<(String, WorkerStats)> {
        let Some(session) = self.sessions.get(&id) else { return Vec::new() };
        let name = |worker: WorkerId| match worker == lost.0 {
            true => lost.1.to_owned(),
            false => self.worker_name(worker),
        };
        let seats = session.gang.iter().flat_map(|gang| &gang.seats);
        let seats: Vec<_> = seats.map(|seat| (name(seat.worker), seat.ran.clone())).collect();
        match seats.is_empty() {
            true => vec![(lost.1.to_owned(), session.ran.clone())],
            false => seats,
        }
    }

    /// The name of a worker for users: `w1 (pi, pid 123)`, or `w1 alpha (pi, pid 123)` if it has a
    /// name of its own.
    pub(super) fn worker_name(&self, id: WorkerId) -> String {
        let identity = self
            .workers
            .get(&id)
            .and_then(|worker| self.peers.get(&worker.peer))
            .map(|peer| &peer.identity);
        identity.map_or_else(|| id.to_string(), |identity| identity.known_as(id))
    }
}

/// The most weight queued for a client when news or statistics are added.
pub(super) const MAX_NEWS: u64 = 1 << 20;
