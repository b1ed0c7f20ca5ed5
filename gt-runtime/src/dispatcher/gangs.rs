//! Sessions that live on several workers: their members, the orders of each, and what members send
//! each other. The books are in `gang`.
//!
//! Guarantees: a member knows a session under a number of its own, so that nothing late of an
//! earlier life of the session is taken for the present one. Members are told whose the session is
//! before anything of it. When one member is lost, the session's values are lost on all of them.

use super::Action;
use super::core::Dispatcher;
use super::event::Made;
use super::gang::{Gang, Job, MAX_ROADS, Ordered, Orders, Seat};
use super::party::Owed;
use super::session::{Parked, Session, Work, error};
use crate::ids::{RequestId, SessionId, WorkerId};
use crate::wire::codec::cut;
use crate::wire::{self, Chunk, Counts, Order, Performed, RESERVED, Stream, ToClient, ToWorker};
use gt_ir::OpError;
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::canonical::{Bindings, Template, canonical};
use gt_ir::tape::ValueId;
use std::sync::Arc;

impl Dispatcher {
    /// Makes a session a gang's, when its signals ask for workers and there are several, or for
    /// micro-batches. Called before an order changes what is alive.
    pub(super) fn form_gang(&mut self, id: SessionId) {
        let alone = |session: &&mut Session| {
            let spreads = session.wished > 1 && (!session.asks || session.spreads.is_some());
            (spreads || session.takes_turns) && session.gang.is_none()
        };
        let n_ready = self.n_fitting(id);
        let Some(session) = self.sessions.get_mut(&id).filter(alone) else { return };
        match n_ready {
            0 => return,
            1 if session.takes_turns => {}
            1 if std::mem::replace(&mut session.warned, true) => return,
            1 => return self.warn_alone(id),
            2.. => {}
        }
        if session.is_idle() {
            // Then its workers have the numbers of the order in which they joined.
            self.give_up_home(id);
        } else if session.home.is_some() {
            self.send_all(id);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.flight.clear();
        let (home, name, opened) = (session.home, session.name, session.opened);
        let (n_segments, n_done) = (session.n_segments, session.n_done);
        let first = session.spreads.take().map(|first| *first);
        let mut gang = Gang::new(session.live(), Arc::clone(&session.signals), first);
        let known = std::mem::take(&mut session.at_home).into_keys();
        let orders = known.map(|template| (0, Order::Forget { template })).collect();
        if let Some(worker) = home {
            let ran = std::mem::take(&mut session.ran);
            let seat = self.seat_of(worker, name, opened);
            gang.sit(Seat { n_segments, n_done, ran, ..seat });
        }
        self.sessions.entry(id).and_modify(|session| session.gang = Some(Box::new(gang)));
        self.give_members(id, orders, Owed::NOTHING);
    }

    /// Tells a client which of its signals name more workers than the only one.
    fn warn_alone(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let named = session.signals.iter().filter_map(|(name, config)| {
            let n = config.shard.as_ref()?.named()?.len();
            (n > 1).then(|| format!("signal {name:?} names {n} workers, but 1 is connected"))
        });
        let named: Vec<String> = named.collect();
        named.into_iter().for_each(|text| self.tell_warning(id, text));
    }

    /// Gives a gang the workers that its signals ask for, as far as they are there.
    fn seat_members(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let Some(gang) = &session.gang else { return };
        let missing = session.wished.min(self.n_fitting(id)).saturating_sub(gang.seats.len());
        if missing == 0 && !gang.seats.is_empty() {
            return;
        }
        let ready = self.fitting(id).map(|(worker, _)| worker);
        let mut free: Vec<WorkerId> =
            ready.filter(|worker| gang.member(*worker).is_none()).collect();
        // The home is the first member.
        free.sort_by_key(|worker| session.home != Some(*worker));
        free.into_iter().take(missing.max(1)).for_each(|worker| self.seat(id, worker));
    }

    fn seat(&mut self, id: SessionId, worker: WorkerId) {
        self.n_sessions += 1;
        let alias = SessionId(self.n_sessions);
        self.seats.insert(alias, id);
        self.workers.get_mut(&worker).into_iter().for_each(|worker| {
            worker.sessions.insert(id);
        });
        let opened = self.introduce(id, alias, worker);
        let seat = self.seat_of(worker, alias, opened);
        if let Some(gang) = self.sessions.get_mut(&id).and_then(|session| session.gang.as_mut()) {
            gang.sit(seat);
        }
    }

    /// A seat on a worker that knows the session under this number.
    fn seat_of(&self, worker: WorkerId, session: SessionId, opened: u64) -> Seat {
        let held = self.workers.get(&worker);
        let capacity = held.and_then(|held| held.capacity.clone()).unwrap_or_default();
        let host = held.and_then(|held| self.peers.get(&held.peer));
        let host = host.map_or_else(String::new, |peer| peer.identity.host.clone());
        Seat::new(worker, (session, opened), capacity, host)
    }

    /// Ends a gang's session on all its members.
    pub(super) fn leave_gang(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let parked = session.parked.take().map(|parked| parked.work.owed);
        let gang = session.gang.as_mut();
        for (ends, traffic) in gang.iter().flat_map(|gang| gang.traffic()) {
            let stay = [ends.0, ends.1].iter().all(|worker| self.workers.contains_key(worker));
            if stay && (self.roads.len() < MAX_ROADS || self.roads.contains_key(&ends)) {
                self.roads.entry(ends).or_default().add(traffic);
            }
        }
        let (seats, unpaid) = gang.map(|gang| gang.clear()).unwrap_or_default();
        let unpaid = unpaid.into_iter().chain(parked);
        unpaid.for_each(|owed| self.pay(Stream::Control, owed));
        for seat in seats {
            self.seats.remove(&seat.session);
            if let Some(worker) = self.workers.get_mut(&seat.worker) {
                worker.leave(id, 0);
            }
            for stream in [Stream::Control, Stream::Bulk] {
                let end = ToWorker::EndSession { session: seat.session };
                self.give_worker(seat.worker, stream, end, Owed::NOTHING);
            }
        }
    }

    /// Sends an order of a session as the orders of its members.
    pub(super) fn gang_work(&mut self, id: SessionId, work: Work) {
        self.seat_members(id);
        if work.is_segment() {
            // Other orders may overtake segments that were recorded under other signals.
            self.gang_of(id).into_iter().for_each(|gang| gang.heed(&work.signals));
        }
        let (owed, stream) = (work.owed, work.order.stream());
        match work.order.clone() {
            Order::Run(tape) => {
                let (template, bindings) = canonical(&tape);
                self.gang_segment(id, &template, &bindings, work);
            }
            Order::Launch { bindings, .. } => match work.template.clone() {
                Some(template) => self.gang_segment(id, &template, &bindings, work),
                // A launch always comes with its template.
                None => self.pay(stream, owed),
            },
            Order::Fetch { request, value } => self.gang_fetch(id, request, value),
            Order::Define { .. } | Order::Forget { .. } => self.pay(stream, owed),
            Order::Chunk(chunk) => {
                let large = self.config.large_upload;
                let orders = self.gang_of(id).map(|gang| gang.chunk(chunk, large));
                self.give_data(id, orders.unwrap_or_default(), owed);
            }
            Order::Fail { value, error } => {
                let orders = self.gang_of(id).map(|gang| gang.fail_upload(value, &error));
                self.give_data(id, orders.unwrap_or_default(), owed);
            }
            // Only the dispatcher itself sends these, to members.
            Order::Send { .. } | Order::Learn { .. } | Order::Perform(_) => self.pay(stream, owed),
            Order::Stats { request } => self.gang_stats(id, request),
        }
    }

    fn gang_segment(
        &mut self,
        id: SessionId,
        template: &Template,
        bindings: &Bindings,
        work: Work,
    ) {
        let (large, small) = (self.config.large_upload, self.config.small_partition);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Session { gang: Some(gang), uploads, demand, .. } = session else { return };
        let is_untouched = |value: ValueId| uploads.is_untouched(value);
        let plans = demand.plans().map(|zero| (zero, self.config.machine));
        let how = (plans, matches!(work.order, Order::Launch { .. }));
        match gang.segment(template, bindings, how, (large, &is_untouched), small) {
            Ok(Ordered::Now(orders, news)) => {
                news.into_iter().for_each(|text| self.tell_warning(id, text));
                self.give_members(id, orders, Owed::NOTHING);
                self.gang_of(id).into_iter().for_each(|gang| gang.owe(work.owed));
                self.pay_members(id);
            }
            Ok(Ordered::Later(orders, job)) => {
                session.parked = Some(Parked { work, job: Arc::clone(&job) });
                self.give_members(id, orders, Owed::NOTHING);
                self.want(id, job);
            }
            Err(why) => {
                self.pay(Stream::Control, work.owed);
                self.fail_session(id, refusal(&why));
            }
        }
    }

    /// Has a partition made on behalf of a session's user.
    pub(super) fn want(&mut self, session: SessionId, job: Arc<Job>) {
        let user = self.user_of(session);
        self.out.push(Action::Partition { session, user, job });
    }

    /// Goes on with the segment whose partition was made. An answer that nobody waits for any more
    /// is dropped.
    pub(super) fn partitioned(&mut self, made: Made) {
        self.charge(made.session, made.user, made.nanos);
        if self.answered(&made) {
            return;
        }
        let Made { session: id, job, partition, .. } = made;
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Session { gang: Some(gang), parked, progress, .. } = session else { return };
        let Some(parked) = parked.take_if(|parked| parked.job == job) else { return };
        // Nobody but the server was to do anything for the session until now.
        *progress = now;
        match partition {
            Ok(partition) => {
                gang.made(&job, partition);
                self.gang_work(id, parked.work);
                self.send_more(id);
            }
            Err(why) => {
                self.pay(Stream::Control, parked.work.owed);
                self.fail_session(id, refusal(&why));
            }
        }
    }

    /// Asks every member for its statistics.
    fn gang_stats(&mut self, id: SessionId, request: RequestId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Session { gang: Some(gang), requests, .. } = session else { return };
        let n_members = gang.seats.len();
        requests.get_mut(request).into_iter().for_each(|asked| asked.n_answers = n_members);
        let orders = (0..n_members).map(|member| (member, Order::Stats { request }));
        self.give_members(id, orders.collect(), Owed::NOTHING);
    }

    /// Tells a client what its signals do not get.
    pub(super) fn tell_warning(&mut self, id: SessionId, text: String) {
        self.tell_news(id, ToClient::Warning(cut(text).into()));
    }

    /// Gives back the credit of the segments that all members have run.
    fn pay_members(&mut self, id: SessionId) {
        loop {
            let gang = self.sessions.get_mut(&id).and_then(|session| session.gang.as_mut());
            let Some(owed) = gang.and_then(|gang| gang.paid()) else { return };
            self.sessions.entry(id).and_modify(|session| session.flight.drop_first());
            self.pay(Stream::Control, owed);
        }
    }

    fn gang_fetch(&mut self, id: SessionId, request: RequestId, value: ValueId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Session { gang: Some(gang), requests, .. } = session else { return };
        match gang.fetch(request, value) {
            Ok((orders, name)) => {
                let last = orders.iter().rfind(|(_, order)| order.request() == Some(request));
                let seat = last.and_then(|(member, _)| gang.seats.get(*member));
                let worker = seat.map(|seat| seat.worker);
                let asked = requests.get_mut(request).into_iter();
                asked.for_each(|asked| (asked.name, asked.worker) = (name, worker));
                self.give_members(id, orders, Owed::NOTHING);
            }
            Err(why) => self.fail_session(id, refusal(&why)),
        }
    }

    /// Sends orders to members. The credit goes with the last order of the first member.
    pub(super) fn give_members(&mut self, id: SessionId, orders: Orders, owed: Owed) {
        let last = orders.iter().rposition(|(member, _)| *member == 0);
        for (at, (member, order)) in orders.into_iter().enumerate() {
            let owed = if Some(at) == last { owed } else { Owed::NOTHING };
            self.give_member(id, member, order, owed);
        }
        if last.is_none() {
            self.pay(Stream::Control, owed);
        }
    }

    /// Sends pieces of an upload to members. The credit goes with the last of them.
    fn give_data(&mut self, id: SessionId, mut orders: Orders, owed: Owed) {
        let Some((member, last)) = orders.pop() else { return self.pay(Stream::Bulk, owed) };
        for (member, order) in orders {
            self.give_member(id, member, order, Owed::NOTHING);
        }
        self.give_member(id, member, last, owed);
    }

    fn gang_of(&mut self, id: SessionId) -> Option<&mut Gang> {
        self.sessions.get_mut(&id)?.gang.as_deref_mut()
    }

    fn give_member(&mut self, id: SessionId, member: usize, order: Order, owed: Owed) {
        let stream = order.stream();
        let Some(session) = self.sessions.get_mut(&id) else { return self.pay(stream, owed) };
        let attempt = session.attempt;
        let seat = session.gang.as_mut().and_then(|gang| gang.seats.get_mut(member));
        let Some(seat) = seat else { return self.pay(stream, owed) };
        let (worker, session, seq) = (seat.worker, seat.session, seat.n_segments);
        seat.n_segments += order.n_segments();
        self.give_worker(worker, stream, ToWorker::Order { session, attempt, seq, order }, owed);
    }

    /// Passes on what one member sends another. Says whether it was such a thing.
    pub(super) fn pass_piece(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        request: RequestId,
        chunk: &Chunk,
        owed: Owed,
    ) -> bool {
        if request.0 < RESERVED {
            return false;
        }
        let passed = self.members(id, worker).and_then(|(session, member)| {
            session.gang.as_mut()?.piece(member, request, Box::new(chunk.clone()))
        });
        let Some((to, order)) = passed else {
            self.pay(Stream::Bulk, owed);
            return true;
        };
        let gang = self.sessions.get(&id).and_then(|session| session.gang.as_ref());
        let seat = gang.and_then(|gang| gang.seats.get(to));
        let peer = seat.and_then(|seat| self.workers.get(&seat.worker)).map(|worker| worker.peer);
        let later = self.pay_unless_slow(peer, owed);
        self.give_member(id, to, order, later);
        true
    }

    /// Notes that a value of one member has arrived at another.
    pub(super) fn arrived(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        (request, bytes): (RequestId, u64),
    ) {
        if let Some((session, member)) = self.members(id, worker)
            && let Some(gang) = session.gang.as_mut()
        {
            gang.arrived(member, request, bytes);
        }
    }

    /// As [`pass_piece`](Dispatcher::pass_piece), of an error in place of a value.
    pub(super) fn pass_error(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        request: RequestId,
        error: &Arc<RunError>,
    ) -> bool {
        if request.0 < RESERVED {
            return false;
        }
        let passed = self.members(id, worker).and_then(|(session, member)| {
            session.gang.as_mut()?.failure(member, request, Arc::clone(error))
        });
        if let Some((to, order)) = passed {
            self.give_member(id, to, order, Owed::NOTHING);
        }
        true
    }

    /// A session that lives on a worker, and the member that the worker is.
    fn members(&mut self, id: SessionId, worker: WorkerId) -> Option<(&mut Session, usize)> {
        let now = self.now;
        let session = self.sessions.get_mut(&id)?;
        let member = session.gang.as_ref()?.member(worker)?;
        session.progress = now;
        Some((session, member))
    }

    /// Notes how far a member is with a routine.
    pub(super) fn member_performed(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        (attempt, seq): (u32, u64),
        performed: &Performed,
    ) {
        let Some((session, member)) = self.members(id, worker) else { return };
        let current = session.attempt == attempt;
        if let Some(gang) = session.gang.as_mut().filter(|_| current) {
            gang.ran(member, seq.saturating_add(performed.n_ran.into()), performed.work);
            gang.performed(member, performed);
        }
        session.spent.work.add(performed.work);
        session.flight.took(performed.work.busy);
        self.pay_members(id);
        self.send_more(id);
    }

    /// Notes that a member has run a segment. Says whether the session is a gang's.
    pub(super) fn member_done(
        &mut self,
        worker: WorkerId,
        id: SessionId,
        (attempt, seq): (u32, u64),
        counts: Counts,
    ) -> bool {
        let Some((session, member)) = self.members(id, worker) else { return false };
        let current = session.attempt == attempt;
        let mut work = wire::Work::default();
        work.count(counts);
        if let Some(gang) = session.gang.as_mut().filter(|_| current)
            && let Some(n_done) = seq.checked_add(1)
        {
            gang.ran(member, n_done, work);
        }
        session.spent.work.add(work);
        session.flight.took(counts.nanos);
        self.pay_members(id);
        self.send_more(id);
        true
    }
}

/// The error of a session whose segment cannot be partitioned: a bug of the partitioner.
fn refusal(why: &OpError) -> RunError {
    let message = format!("the server cannot spread a segment over workers: {why}");
    error(ErrorKind::Internal, message).hint("run the program without its signals")
}
