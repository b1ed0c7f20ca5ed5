//! Homes of sessions. A session's orders go to its home. A session without a home gets the best
//! worker (`placement`) of those that it asks for (`demands`). Without such a worker its orders
//! wait. A session that holds nothing gives up its home when a better worker joins.
//!
//! Guarantees: a home learns of a session's client before it gets an order of the session. It gets
//! each template before the first launch of the template. Orders that waited are sent in their
//! order.

use super::core::Dispatcher;
use super::party::{Owed, Worker};
use super::placement::{self, Rank};
use super::session::{Request, Session, Share, Work};
use crate::clock::Time;
use crate::ids::{SessionId, WorkerId};
use crate::roles::{Pass, User};
use crate::wire::{Capacity, Order, Stream, ToWorker};
use gt_ir::tape::Tape;
use std::sync::Arc;

impl Dispatcher {
    /// Sends an order to the session's home, or keeps it until there is a home, and a segment until
    /// earlier ones have run. Data does not wait for segments, because segments wait for it. A read
    /// waits only for the segments that it needs.
    pub(super) fn work(&mut self, id: SessionId, work: Work) {
        let home = self.find_home(id);
        if home.is_none() && self.miss_home(id) {
            return self.pay(work.order.stream(), work.owed);
        }
        let share = home.map(|home| self.share(home));
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let at = match work.order {
            Order::Chunk(_) | Order::Fail { .. } if home.is_some() => 0,
            Order::Fetch { .. } => session.waiting.partition_point(|w| w.place() <= work.place()),
            _ => session.waiting.len(),
        };
        if at > 0 || share.is_none_or(|share| !self.may_send(id, share, &work)) {
            if work.is_new {
                self.warn_delay(id);
            }
            self.sessions.entry(id).and_modify(|session| session.waiting.insert(at, work));
            return;
        }
        self.send_work(id, work);
    }

    /// Whether the next order of a session may go to its home: a segment within the share, a read
    /// if its client has taken enough of what it has read, and a new program if its user may
    /// compile one. Only data passes a segment whose partition is being made.
    fn may_send(&self, id: SessionId, share: Share, work: &Work) -> bool {
        let Some(session) = self.sessions.get(&id) else { return true };
        if session.parked.is_some() && work.order.stream() == Stream::Control {
            return false;
        }
        if work.is_new && self.compile_from(session) > self.now {
            return false;
        }
        match &work.order {
            Order::Run(_) | Order::Launch { .. } => session.flight.has_room(share),
            Order::Fetch { request, .. } => {
                let bytes = session.requests.get(*request).map_or(0, Request::left);
                let unread = session.requests.awaited() + self.queued(session.peer, Stream::Bulk);
                unread == 0 || unread.saturating_add(bytes) <= self.config.relay
            }
            _ => true,
        }
    }

    /// What a worker may have of each of its sessions. All of them together leave room for others
    /// in its connection.
    fn share(&self, worker: WorkerId) -> Share {
        let n_sessions = self.workers.get(&worker).map_or(0, |worker| worker.sessions.len());
        let weight = self.config.worker.control.window / 4;
        Share { weight, has_neighbors: n_sessions > 1 }
    }

    /// Sends what waits for a session's home, as far as there is room.
    pub(super) fn send_more(&mut self, id: SessionId) {
        let waits = |session: &&Session| !session.waiting.is_empty();
        let session = self.sessions.get(&id).filter(waits);
        let Some(home) = session.and_then(|session| session.home) else { return };
        let share = self.share(home);
        while let Some(session) = self.sessions.get(&id)
            && session.home.is_some()
            && let Some(first) = session.waiting.front()
            && self.may_send(id, share, first)
            && let Some(work) = self.sessions.get_mut(&id).and_then(|s| s.waiting.pop_front())
        {
            self.send_work(id, work);
        }
    }

    /// From when on a session's user may compile a program.
    pub(super) fn compile_from(&self, session: &Session) -> Time {
        let (Some(rate), Some(peer)) = (self.config.compile, self.peers.get(&session.peer)) else {
            return Time::ZERO;
        };
        self.budgets.get(&peer.pass.user).map_or(Time::ZERO, |budget| budget.ready(rate))
    }

    /// The end of the delay of a session whose next order is a new program.
    pub(super) fn delay(&self, session: &Session) -> Option<Time> {
        session.waiting.front().filter(|work| work.is_new && session.home.is_some())?;
        Some(self.compile_from(session)).filter(|from| *from > self.now)
    }

    /// Sends what was delayed until now.
    pub(super) fn end_delays(&mut self) {
        let is_new = |session: &Session| session.waiting.front().is_some_and(|work| work.is_new);
        let delayed = self.sessions.iter().filter(|(_, session)| is_new(session));
        let delayed: Vec<SessionId> = delayed.map(|(&id, _)| id).collect();
        delayed.into_iter().for_each(|id| self.send_more(id));
    }

    /// Tells a client, once for each delay, that its new programs wait.
    fn warn_delay(&mut self, id: SessionId) {
        let (Some(rate), Some(session)) = (self.config.compile, self.sessions.get(&id)) else {
            return;
        };
        let (from, now) = (self.compile_from(session), self.now);
        if from <= now || session.told_delay > now {
            return;
        }
        self.sessions.entry(id).and_modify(|session| session.told_delay = from);
        let (most, period) = (rate.most.as_secs(), rate.period.as_secs());
        let wait = (from - now).as_secs() + 1;
        self.tell_warning(
            id,
            format!(
                "new programs wait for {wait} s: those of this user may be compiled for {most} s \
                 in {period} s"
            ),
        );
    }

    /// Charges a session and its user for a program that was compiled.
    pub(super) fn compiled(&mut self, id: SessionId, nanos: u64) {
        self.sessions.entry(id).and_modify(|session| session.spent.plans += 1);
        self.charge(id, self.user_of(id), nanos);
    }

    /// The user of a session.
    pub(super) fn user_of(&self, id: SessionId) -> User {
        let peer = self.sessions.get(&id).and_then(|session| self.peers.get(&session.peer));
        peer.map_or(Pass::ANYONE.user, |peer| peer.pass.user)
    }

    /// Charges a user, and a session if it is still there, for the time of compiling.
    pub(super) fn charge(&mut self, id: SessionId, user: User, nanos: u64) {
        self.sessions.entry(id).and_modify(|session| {
            session.spent.compile = session.spent.compile.saturating_add(nanos);
        });
        if let Some(rate) = self.config.compile {
            let now = self.now;
            self.budgets.retain(|_, budget| !budget.is_free(now));
            self.budgets.entry(user).or_default().charge(now, rate, nanos);
        }
    }

    /// Sends all that waits for a session's home, if it has one.
    pub(super) fn send_all(&mut self, id: SessionId) {
        let session = self.sessions.get_mut(&id).filter(|session| session.home.is_some());
        let waiting = session.map(|session| std::mem::take(&mut session.waiting));
        for work in waiting.unwrap_or_default() {
            self.send_work(id, work);
        }
    }

    /// How little a worker suits a session.
    fn rank(&self, id: SessionId, worker: &Worker) -> Rank {
        let queued =
            self.queued(worker.peer, Stream::Control) + self.queued(worker.peer, Stream::Bulk);
        let n_sessions = worker.sessions.len() - usize::from(worker.sessions.contains(&id));
        let unknown = Capacity::default();
        Rank::new(worker.capacity.as_ref().unwrap_or(&unknown), n_sessions, queued)
    }

    /// The sessions that hold nothing give up their homes if a worker that has just joined is
    /// better.
    pub(super) fn release_idle(&mut self, joined: WorkerId) {
        let idle = self.sessions.iter().filter(|(_, session)| session.is_idle());
        let idle: Vec<SessionId> = idle.map(|(&id, _)| id).collect();
        for id in idle {
            let better = |(worker, home): (&Worker, &Worker)| {
                let fits = self.fitting(id).any(|(fitting, _)| fitting == joined);
                fits && self.rank(id, worker).is_better(self.rank(id, home))
            };
            let home = self.sessions.get(&id).and_then(|session| session.home);
            let home = home.and_then(|home| self.workers.get(&home));
            if self.workers.get(&joined).zip(home).is_some_and(better) {
                self.give_up_home(id);
            }
        }
    }

    /// A session that holds nothing leaves its home. Its next order finds another one.
    pub(super) fn give_up_home(&mut self, id: SessionId) {
        let Some(home) = self.sessions.get(&id).and_then(|session| session.home) else { return };
        let name = self.worker_name(home);
        self.leave_home(id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.moved = true;
        session.at_home.clear();
        let ran = std::mem::take(&mut session.ran);
        session.ran_on(name, ran);
    }

    /// The home of a session. A session without a home moves to the worker that suits it best.
    pub(super) fn find_home(&mut self, id: SessionId) -> Option<WorkerId> {
        if let Some(home) = self.sessions.get(&id)?.home {
            return Some(home);
        }
        let is_gang = self.sessions.get(&id)?.gang.is_some();
        let home = match is_gang {
            true => self.fitting(id).next().map(|(worker, _)| worker),
            false => {
                let rank = |(of, worker): (WorkerId, &Worker)| (of, self.rank(id, worker));
                placement::home(self.fitting(id).map(rank))
            }
        }?;
        self.workers.get_mut(&home)?.sessions.insert(id);
        let session = self.sessions.get_mut(&id)?;
        (session.home, session.progress) = (Some(home), self.now);
        session.told_unfit = false;
        if !is_gang {
            if session.moved {
                self.n_sessions += 1;
                session.name = SessionId(self.n_sessions);
                self.seats.insert(session.name, id);
            }
            let name = session.name;
            let opened = self.introduce(id, name, home);
            self.sessions.entry(id).and_modify(|session| session.opened = opened);
        }
        self.warn_few(id);
        Some(home)
    }

    /// Tells a worker which client a session belongs to, so an out-of-memory error can name the
    /// clients. Returns the number of sessions that were opened on the worker, with this one.
    pub(super) fn introduce(&mut self, id: SessionId, session: SessionId, worker: WorkerId) -> u64 {
        let peer = self.sessions.get(&id).and_then(|session| self.peers.get(&session.peer));
        let client = peer.map_or_else(|| id.to_string(), |peer| peer.identity.known_as(id));
        let user = peer.map_or(u64::MAX, |peer| peer.pass.user.0);
        let life = peer.map(|peer| peer.connection.incarnation()).unwrap_or_default();
        let weight = self.sessions.get(&id).map_or(0, |session| session.priority.weight());
        let message = ToWorker::Open { session, client: client.into(), user, weight, life };
        self.give_worker(worker, Stream::Control, message, Owed::NOTHING);
        let Some(worker) = self.workers.get_mut(&worker) else { return 0 };
        worker.n_opened += 1;
        worker.n_opened
    }

    pub(super) fn send_work(&mut self, id: SessionId, work: Work) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (Some(home), attempt) = (session.home, session.attempt) else {
            // An order before this one has broken the session.
            return self.pay(work.order.stream(), work.owed);
        };
        if work.is_segment() {
            session.flight.send(self.now);
        }
        work.order.request().into_iter().for_each(|request| session.requests.ask(request));
        if session.gang.is_some() {
            return self.gang_work(id, work);
        }
        let name = session.name;
        let Work { order, seq, owed, template: launched, is_new: _, signals } = work;
        match &order {
            Order::Define { template, tape, .. } => {
                session.at_home.insert(*template, Arc::clone(tape));
            }
            Order::Launch { template, .. } => {
                let known = session.at_home.get(template);
                let lost = |tape: &Arc<Tape>| !known.is_some_and(|known| Arc::ptr_eq(known, tape));
                let tape = launched.map(|launched| Arc::clone(&launched.tape));
                if let Some(tape) = tape.filter(lost) {
                    // The previous home was lost after the template was defined.
                    session.at_home.insert(*template, Arc::clone(&tape));
                    let planned = signals.compiles(&tape);
                    let order = Order::Define { template: *template, tape, planned };
                    let message = ToWorker::Order { session: name, attempt, seq, order };
                    self.give_worker(home, Stream::Control, message, Owed::NOTHING);
                }
            }
            Order::Forget { template } => {
                if session.at_home.remove(template).is_none() {
                    return self.pay(Stream::Control, owed);
                }
            }
            Order::Run(_)
            | Order::Chunk(_)
            | Order::Fail { .. }
            | Order::Fetch { .. }
            | Order::Send { .. }
            | Order::Learn { .. }
            | Order::Perform(_)
            | Order::Stats { .. } => {}
        }
        let stream = order.stream();
        let message = ToWorker::Order { session: name, attempt, seq, order };
        self.give_worker(home, stream, message, owed);
    }

    /// Tells the home, as the last message on each stream, that the session has ended.
    pub(super) fn leave_home(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(home) = session.home.take() else { return };
        if let Some(worker) = self.workers.get_mut(&home) {
            // Which part of a gang's values a member holds is known to the member.
            worker.leave(id, if session.gang.is_some() { 0 } else { session.held() });
        }
        if self.sessions.get(&id).is_some_and(|session| session.gang.is_some()) {
            return self.leave_gang(id);
        }
        let Some(session) = self.sessions.get(&id).map(|session| session.name) else { return };
        self.seats.remove(&session);
        for stream in [Stream::Control, Stream::Bulk] {
            self.give_worker(home, stream, ToWorker::EndSession { session }, Owed::NOTHING);
        }
    }

    /// Drops the orders that no worker took, and gives their credit back.
    pub(super) fn drop_waiting(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for work in std::mem::take(&mut session.waiting) {
            self.pay(work.order.stream(), work.owed);
        }
    }
}
