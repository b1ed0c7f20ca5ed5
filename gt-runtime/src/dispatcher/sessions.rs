//! What the messages of clients do.
//!
//! Work goes to the session's home as it comes (`homes`). The credit of a tape or a chunk goes back
//! to the client when a worker has taken it. A tape that is refused breaks its session: what is
//! read of it from then on is that error.

use super::core::{Dispatcher, Owed};
use super::session::{Launched, Request, Work, error};
use super::{Action, Party, Report};
use crate::ids::{Identity, RequestId, SessionId};
use crate::wire::{Chunk, FromClient, Message, Stream, Weight as _};
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::canonical::Bindings;
use gt_ir::tape::{Tape, ValueId};
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
                let message = "the session launches more than its worker takes, on values that \
                               were lost\nhint: free what was lost with a worker";
                self.fail_session(id, error(ErrorKind::Resource, message.into()));
            }
            Launched::Stripped(tape) => self.work(id, Work::Run { seq, tape, weight }),
        }
    }

    /// Whether so much waits for a session's home that nothing larger than its message is to be
    /// added. What a launch expands to was not paid for.
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
}
