//! Homes of sessions. A session's orders go to its home. A session without a home gets the least
//! loaded worker as its home. Without any worker its orders wait.
//!
//! Guarantees: a home learns of a session's client before it gets an order of the session. It gets
//! each template before the first launch of the template. Orders that waited are sent in their
//! order.

use super::core::Dispatcher;
use super::party::{Owed, Worker};
use super::placement;
use super::session::Work;
use crate::ids::{SessionId, WorkerId};
use crate::wire::{Order, Stream, ToWorker};
use gt_ir::tape::Tape;
use std::sync::Arc;

impl Dispatcher {
    /// Sends an order to the session's home, or keeps it until there is a home.
    pub(super) fn work(&mut self, id: SessionId, work: Work) {
        if self.find_home(id).is_none() {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.waiting.push_back(work);
            }
            return;
        }
        self.send_work(id, work);
    }

    /// The home of a session. A session without a home moves to the least loaded worker.
    pub(super) fn find_home(&mut self, id: SessionId) -> Option<WorkerId> {
        if let Some(home) = self.sessions.get(&id)?.home {
            return Some(home);
        }
        let load = |(id, worker): (WorkerId, &Worker)| {
            let queued =
                self.queued(worker.peer, Stream::Control) + self.queued(worker.peer, Stream::Bulk);
            (id, placement::Load { n_sessions: worker.sessions.len(), queued })
        };
        let is_gang = self.sessions.get(&id)?.gang.is_some();
        let home = match is_gang {
            true => self.ready().next().map(|(id, _)| id),
            false => placement::home(self.ready().map(load)),
        }?;
        self.workers.get_mut(&home)?.sessions.insert(id);
        let session = self.sessions.get_mut(&id)?;
        (session.home, session.progress) = (Some(home), self.now);
        if !is_gang {
            let opened = self.introduce(id, id, home);
            self.sessions.entry(id).and_modify(|session| session.opened = opened);
        }
        Some(home)
    }

    /// Tells a worker which client a session belongs to, so an out-of-memory error can name the
    /// clients. Returns the number of sessions that were opened on the worker, with this one.
    pub(super) fn introduce(&mut self, id: SessionId, session: SessionId, worker: WorkerId) -> u64 {
        let peer = self.sessions.get(&id).and_then(|session| self.peers.get(&session.peer));
        let client = peer.map_or_else(|| id.to_string(), |peer| peer.identity.known_as(id));
        let message = ToWorker::Open { session, client: client.into() };
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
        if session.gang.is_some() {
            return self.gang_work(id, work);
        }
        let Work { order, seq, owed, template: launched } = work;
        match &order {
            Order::Define { template, tape } => {
                session.at_home.insert(*template, Arc::clone(tape));
            }
            Order::Launch { template, .. } => {
                let known = session.at_home.get(template);
                let lost = |tape: &Arc<Tape>| !known.is_some_and(|known| Arc::ptr_eq(known, tape));
                let tape = launched.map(|launched| Arc::clone(&launched.tape));
                if let Some(tape) = tape.filter(lost) {
                    // The previous home was lost after the template was defined.
                    session.at_home.insert(*template, Arc::clone(&tape));
                    let order = Order::Define { template: *template, tape };
                    let message = ToWorker::Order { session: id, attempt, seq, order };
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
            | Order::Stats { .. } => {}
        }
        let stream = order.stream();
        self.give_worker(home, stream, ToWorker::Order { session: id, attempt, seq, order }, owed);
    }

    /// Tells the home, as the last message on each stream, that the session has ended.
    pub(super) fn leave_home(&mut self, id: SessionId) {
        let Some(home) = self.sessions.get_mut(&id).and_then(|session| session.home.take()) else {
            return;
        };
        if let Some(worker) = self.workers.get_mut(&home) {
            worker.sessions.remove(&id);
        }
        if self.sessions.get(&id).is_some_and(|session| session.gang.is_some()) {
            return self.leave_gang(id);
        }
        for stream in [Stream::Control, Stream::Bulk] {
            self.give_worker(home, stream, ToWorker::EndSession { session: id }, Owed::NOTHING);
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
