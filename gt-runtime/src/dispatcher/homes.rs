//! Where a session's work goes: its home as long as there is one, else the least loaded worker,
//! else it waits.
//!
//! Guarantees: a home is told whose a session is before anything of it, and each template before
//! its first launch there; work that waited is sent in its order.

use super::core::{Dispatcher, Owed};
use super::session::Work;
use super::{Party, placement};
use crate::ids::{SessionId, WorkerId};
use crate::wire::{Stream, ToWorker};
use gt_ir::tape::Tape;
use std::sync::Arc;

impl Dispatcher {
    /// Sends work to the session's home, or keeps it until there is one.
    pub(super) fn work(&mut self, id: SessionId, work: Work) {
        if self.find_home(id).is_none() {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.waiting.push_back(work);
            }
            return;
        }
        self.send_work(id, work);
    }

    /// The worker a session lives on; the least loaded one from now on, when it has none.
    pub(super) fn find_home(&mut self, id: SessionId) -> Option<WorkerId> {
        if let Some(home) = self.sessions.get(&id)?.home {
            return Some(home);
        }
        let ready = self.workers.iter().filter(|(_, worker)| worker.capacity.is_some());
        let load = |(&id, worker): (&WorkerId, &super::workers::Worker)| {
            let queued =
                self.queued(worker.peer, Stream::Control) + self.queued(worker.peer, Stream::Bulk);
            (id, placement::Load { n_sessions: worker.sessions.len(), queued })
        };
        let home = placement::home(ready.map(load))?;
        self.workers.get_mut(&home)?.sessions.insert(id);
        let session = self.sessions.get_mut(&id)?;
        (session.home, session.progress) = (Some(home), self.now);
        self.introduce(id, home);
        Some(home)
    }

    /// Tells a worker whose a session is, so that it can name those who fill it.
    fn introduce(&mut self, id: SessionId, home: WorkerId) {
        let peer = self.sessions.get(&id).and_then(|session| self.peers.get(&session.peer));
        let client = peer.map_or_else(|| id.to_string(), |peer| peer.identity.known_as(id));
        let message = ToWorker::Open { session: id, client: client.into() };
        self.give_worker(home, Stream::Control, message, Owed::NOTHING);
    }

    pub(super) fn send_work(&mut self, id: SessionId, work: Work) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (Some(home), attempt) = (session.home, session.attempt) else { return };
        let owed = |weight| Owed { to: Some(Party::Session(id)), weight };
        match work {
            Work::Run { seq, tape, weight } => {
                self.give_worker(
                    home,
                    Stream::Control,
                    ToWorker::Run { session: id, seq, attempt, tape },
                    owed(weight),
                );
            }
            Work::Define { template, tape, weight } => {
                self.tell_template(id, home, template, tape, owed(weight));
            }
            Work::Launch { seq, template, tape, bindings, weight } => {
                if !session.at_home.get(&template).is_some_and(|known| Arc::ptr_eq(known, &tape)) {
                    // Its home was lost since it was defined.
                    self.tell_template(id, home, template, tape, Owed::NOTHING);
                }
                self.give_worker(
                    home,
                    Stream::Control,
                    ToWorker::Launch { session: id, seq, attempt, template, bindings },
                    owed(weight),
                );
            }
            Work::Forget { template } => {
                let Some(session) = self.sessions.get_mut(&id) else { return };
                if session.at_home.remove(&template).is_some() {
                    let message = ToWorker::Forget { session: id, template };
                    self.give_worker(home, Stream::Control, message, Owed::NOTHING);
                }
            }
            Work::Chunk { chunk, weight } => {
                self.give_worker(
                    home,
                    Stream::Bulk,
                    ToWorker::Chunk { session: id, chunk },
                    owed(weight),
                );
            }
            Work::Fetch { request, value } => {
                self.give_worker(
                    home,
                    Stream::Control,
                    ToWorker::Fetch { session: id, request, value },
                    Owed::NOTHING,
                );
            }
            Work::Stats { request } => {
                self.give_worker(
                    home,
                    Stream::Control,
                    ToWorker::Stats { session: id, request },
                    Owed::NOTHING,
                );
            }
        }
    }

    fn tell_template(
        &mut self,
        id: SessionId,
        home: WorkerId,
        template: u32,
        tape: Arc<Tape>,
        owed: Owed,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.at_home.insert(template, Arc::clone(&tape));
        let message = ToWorker::Define { session: id, template, tape };
        self.give_worker(home, Stream::Control, message, owed);
    }

    /// Tells the home that nothing more comes, as the last word on each stream.
    pub(super) fn leave_home(&mut self, id: SessionId) {
        let Some(home) = self.sessions.get_mut(&id).and_then(|session| session.home.take()) else {
            return;
        };
        if let Some(worker) = self.workers.get_mut(&home) {
            worker.sessions.remove(&id);
        }
        for stream in [Stream::Control, Stream::Bulk] {
            self.give_worker(home, stream, ToWorker::EndSession { session: id }, Owed::NOTHING);
        }
    }

    /// Forgets work that no worker took; its credit goes back.
    pub(super) fn drop_waiting(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for work in std::mem::take(&mut session.waiting) {
            let to = Some(Party::Session(id));
            match work {
                Work::Run { weight, .. }
                | Work::Define { weight, .. }
                | Work::Launch { weight, .. } => self.pay(Stream::Control, Owed { to, weight }),
                Work::Chunk { weight, .. } => self.pay(Stream::Bulk, Owed { to, weight }),
                Work::Fetch { .. } | Work::Stats { .. } | Work::Forget { .. } => (),
            }
        }
    }
}
