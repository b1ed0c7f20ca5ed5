//! What the messages of clients do.
//!
//! Work goes to the session's home as it comes; a session without one is given the least loaded worker, or waits. The credit of
//! a tape or a chunk goes back to the client when a worker has taken it. A tape that is refused breaks its session: what
//! is read of it from then on is that error.

use super::core::{Dispatcher, Owed};
use super::session::{Launched, Request, Session, Work, error};
use super::{Action, Party, Report, placement};
use crate::clock::Time;
use crate::ids::{Identity, RequestId, SessionId, WorkerId};
use crate::wire::{Chunk, FromClient, Message, Stream, ToClient, ToWorker, Weight as _};
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::canonical::Bindings;
use gt_ir::tape::{Tape, ValueId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Weight that may wait for a worker when a launch is expanded.
const MAX_EXPANDED: u64 = 256 << 20;

impl Dispatcher {
    pub(super) fn client_says(
        &mut self,
        session: SessionId,
        stream: Stream,
        weight: u64,
        message: FromClient,
    ) {
        match message {
            FromClient::Tape(tape) => self.tape(session, tape, weight),
            FromClient::Define { template, tape } => self.define(session, template, tape, weight),
            FromClient::Launch { template, bindings } => {
                self.launch(session, template, bindings, weight)
            }
            FromClient::Forget { template } => {
                self.pay(stream, Owed { to: Some(Party::Session(session)), weight });
                self.forget(session, template);
            }
            FromClient::Configure(signals) => {
                self.pay(stream, Owed { to: Some(Party::Session(session)), weight });
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.signals = signals;
                }
            }
            FromClient::Chunk(chunk) => self.upload(session, chunk, weight),
            FromClient::Fetch { request, value } => {
                self.pay(stream, Owed { to: Some(Party::Session(session)), weight });
                self.fetch(session, request, value);
            }
            FromClient::Stats { request } => {
                self.pay(stream, Owed { to: Some(Party::Session(session)), weight });
                self.stats(session, request);
            }
            FromClient::Close => {
                let peer = self.sessions.get(&session).map(|session| session.peer);
                peer.into_iter().for_each(|peer| self.lose(peer, "it is done"));
            }
        }
    }

    fn tape(&mut self, id: SessionId, tape: Arc<Tape>, weight: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let owed = Owed { to: Some(Party::Session(id)), weight };
        if session.broken.is_some() {
            return self.pay(Stream::Control, owed);
        }
        let seq = session.n_segments;
        match session.admit(tape, &self.config) {
            Ok(tape) => {
                session.n_segments += 1;
                self.work(id, Work::Run { seq, tape, weight });
            }
            Err(error) => {
                self.pay(Stream::Control, owed);
                self.fail_session(id, error);
            }
        }
    }

    fn define(&mut self, id: SessionId, template: u32, tape: Arc<Tape>, weight: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let owed = Owed { to: Some(Party::Session(id)), weight };
        if session.broken.is_some() {
            return self.pay(Stream::Control, owed);
        }
        match session.templates.define(template, Arc::clone(&tape)) {
            Ok(()) => self.work(id, Work::Define { template, tape, weight }),
            Err(why) => {
                self.pay(Stream::Control, owed);
                let why = format!("the server refused a template: {why}");
                self.fail_session(id, error(ErrorKind::Internal, why));
            }
        }
    }

    fn forget(&mut self, id: SessionId, template: u32) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.templates.forget(template);
        // Without a home there is nobody to tell, but for those whose definition waits.
        if session.home.is_some() || !session.waiting.is_empty() {
            self.work(id, Work::Forget { template });
        }
    }

    fn launch(&mut self, id: SessionId, template: u32, bindings: Arc<Bindings>, weight: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let owed = Owed { to: Some(Party::Session(id)), weight };
        if session.broken.is_some() {
            return self.pay(Stream::Control, owed);
        }
        let seq = session.n_segments;
        match session.launch(template, &bindings, &self.config) {
            Ok(launched) => {
                session.n_segments += 1;
                self.launched(id, seq, template, bindings, launched, weight);
            }
            Err(error) => {
                self.pay(Stream::Control, owed);
                self.fail_session(id, error);
            }
        }
    }

    fn launched(
        &mut self,
        id: SessionId,
        seq: u64,
        template: u32,
        bindings: Arc<Bindings>,
        launched: Launched,
        weight: u64,
    ) {
        match launched {
            Launched::Whole(tape) => {
                self.work(id, Work::Launch { seq, template, tape, bindings, weight })
            }
            Launched::Stripped(tape) if self.crowded(id) => {
                drop(tape);
                self.pay(Stream::Control, Owed { to: Some(Party::Session(id)), weight });
                let message = "the session launches more than its worker takes, on values that were lost\nhint: free what was lost with a worker";
                self.fail_session(id, error(ErrorKind::Resource, message.into()));
            }
            Launched::Stripped(tape) => self.work(id, Work::Run { seq, tape, weight }),
        }
    }

    /// Whether so much waits for a session's home that nothing larger than its message is to be added. What a launch expands to was not
    /// paid for.
    fn crowded(&self, id: SessionId) -> bool {
        let Some(session) = self.sessions.get(&id) else { return false };
        match session.home.and_then(|home| self.workers.get(&home)) {
            Some(worker) => self.queued(worker.peer, Stream::Control) > MAX_EXPANDED,
            None => session.waiting.len() as u64 * Message::LEAST > MAX_EXPANDED >> 10,
        }
    }

    fn upload(&mut self, id: SessionId, chunk: Chunk, weight: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let owed = Owed { to: Some(Party::Session(id)), weight };
        if session.broken.is_some() {
            return self.pay(Stream::Bulk, owed);
        }
        match session.upload(&chunk, &self.config) {
            Ok(true) => self.work(id, Work::Chunk { chunk, weight }),
            Ok(false) => self.pay(Stream::Bulk, owed),
            Err(error) => {
                self.pay(Stream::Bulk, owed);
                self.fail_session(id, error);
            }
        }
    }

    fn fetch(&mut self, id: SessionId, request: RequestId, value: ValueId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.readable(value, &self.config) {
            Ok(ty) => {
                let asked = Request { since: self.now, value: Some((value, ty)), sent: 0 };
                session.requests.insert(request, asked);
                self.work(id, Work::Fetch { request, value });
            }
            Err(error) => self.answer_error(id, request, error),
        }
    }

    fn stats(&mut self, id: SessionId, request: RequestId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(error) = session.unanswerable(&self.config) {
            return self.answer_error(id, request, error);
        }
        session.requests.insert(request, Request { since: self.now, value: None, sent: 0 });
        if session.home.is_none() && session.waiting.is_empty() {
            // Nothing runs and nothing waits: what ran is all on workers that are gone.
            return self.answer_stats(id, request, None);
        }
        self.work(id, Work::Stats { request });
    }

    /// Sends work to the session's home, or keeps it until there is one.
    fn work(&mut self, id: SessionId, work: Work) {
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

    pub(super) fn answer_error(&mut self, id: SessionId, request: RequestId, error: Arc<RunError>) {
        self.give_client(id, Stream::Control, ToClient::Failed { request, error }, Owed::NOTHING);
    }

    pub(super) fn answer_errors(
        &mut self,
        id: SessionId,
        requests: BTreeMap<RequestId, Request>,
        cause: &Arc<RunError>,
    ) {
        for (request, asked) in requests {
            let value = asked.value.map(|(value, _)| value);
            let error =
                Arc::new(RunError { value: cause.value.or(value), ..RunError::clone(cause) });
            self.answer_error(id, request, error);
        }
    }

    /// Breaks a session: what it held is freed, what is read of it fails with the cause.
    fn fail_session(&mut self, id: SessionId, cause: RunError) {
        let cause = Arc::new(cause);
        self.leave_home(id);
        self.drop_waiting(id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let unanswered = session.fail(&cause);
        self.answer_errors(id, unanswered, &cause);
    }

    /// The client is gone: everything is freed.
    pub(super) fn end_session(&mut self, id: SessionId, identity: Identity, reason: &str) {
        self.leave_home(id);
        self.drop_waiting(id);
        if self.sessions.remove(&id).is_some() {
            self.out.push(Action::Report(Report::SessionClosed(id, identity, reason.to_owned())));
        }
    }

    /// Tells the home that nothing more comes, as the last word on each stream.
    fn leave_home(&mut self, id: SessionId) {
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
    fn drop_waiting(&mut self, id: SessionId) {
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

    /// When the first read of a session has waited long enough.
    pub(super) fn read_deadline(&self, session: &Session) -> Option<Time> {
        let first = session.requests.values().map(|asked| asked.since).min()?;
        Some(match session.home {
            None => first + self.config.wait_worker,
            Some(_) => first.max(session.progress) + self.config.stall,
        })
    }

    /// Answers the reads that have waited long enough.
    pub(super) fn expire_reads(&mut self) {
        let late = |(&id, session): (&SessionId, &Session)| {
            let deadline = self.read_deadline(session)?;
            (deadline <= self.now).then_some((id, session.home, session.progress))
        };
        let late: Vec<_> = self.sessions.iter().filter_map(late).collect();
        for (id, home, progress) in late {
            let (patience, cause) = match home {
                None => (self.config.wait_worker, self.no_worker()),
                Some(home) => (self.config.stall, self.no_progress(home)),
            };
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let floor = if home.is_some() { progress } else { Time::ZERO };
            let (expired, kept) = std::mem::take(&mut session.requests)
                .into_iter()
                .partition(|(_, asked)| asked.since.max(floor) + patience <= self.now);
            session.requests = kept;
            let answered: &BTreeMap<RequestId, Request> = &expired;
            session.waiting.retain(|work| match work {
                Work::Fetch { request, .. } | Work::Stats { request } => {
                    !answered.contains_key(request)
                }
                Work::Run { .. }
                | Work::Define { .. }
                | Work::Launch { .. }
                | Work::Forget { .. }
                | Work::Chunk { .. } => true,
            });
            self.answer_errors(id, expired, &Arc::new(cause));
        }
    }

    fn no_worker(&self) -> RunError {
        let address = self.config.address.as_deref().unwrap_or("HOST:PORT");
        let waited = self.config.wait_worker.as_secs();
        let message = format!(
            "no worker is connected to the server, and none came within {waited} s\nhint: start one with `gt-cli worker --connect {address}`"
        );
        error(ErrorKind::Connection, message)
    }

    fn no_progress(&self, home: WorkerId) -> RunError {
        let name = self.worker_name(home);
        let waited = self.config.stall.as_secs();
        let message = format!("worker {name} has reported nothing of this session for {waited} s");
        RunError { worker: Some(name), ..error(ErrorKind::WorkerLost, message) }
    }
}
