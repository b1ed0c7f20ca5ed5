//! The handlers of clients' messages.
//!
//! Orders are sent to the session's home in the order in which they came (`homes`). The credit of a
//! tape or a chunk goes back to the client when a worker has taken it. A refused tape breaks its
//! session: from then on every read of the session returns the error.

use super::core::Dispatcher;
use super::gang::Gang;
use super::party::{Owed, Party};
use super::session::{Launched, Request, Session, Work, error};
use super::{Action, Report};
use crate::clock::Time;
use crate::identity::Identity;
use crate::ids::{RequestId, SessionId};
use crate::wire::codec::cut;
use crate::wire::{Chunk, FromClient, Message, Order, RESERVED, Stream, Weight as _};
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::canonical::{Bindings, Template};
use gt_ir::signal::Signals;
use gt_ir::tape::{Tape, ValueId};
use std::sync::Arc;

/// The most weight queued for a worker when a launch is expanded.
const MAX_EXPANDED: u64 = 256 << 20;

impl Dispatcher {
    pub(super) fn client_says(
        &mut self,
        session: SessionId,
        stream: Stream,
        weight: u64,
        message: FromClient,
    ) {
        let owed = Owed { to: Some(Party::Session(session)), weight };
        let Some(message) = self.hold(session, (stream, owed), message) else { return };
        match message {
            FromClient::Order(order) => self.order(session, order, owed),
            FromClient::Configure(signals) => {
                self.pay(stream, owed);
                self.configure(session, signals);
            }
            FromClient::Moments(moments) => {
                self.pay(stream, owed);
                self.moments(Party::Session(session), *moments);
            }
            FromClient::Close => {
                let peer = self.sessions.get(&session).map(|session| session.peer);
                peer.into_iter().for_each(|peer| self.lose(peer, "it is done"));
            }
        }
    }

    /// Takes what the program says about its signals from now on.
    fn configure(&mut self, id: SessionId, signals: Arc<Signals>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.wished = Gang::wished(&signals, &session.demand);
        session.asks = Gang::asks(&signals, &session.demand);
        session.takes_turns = signals.take_turns();
        session.signals = signals;
        // Plans were made for other signals.
        session.spreads = None;
        session.templates.ask_again();
    }

    fn order(&mut self, id: SessionId, order: Order, owed: Owed) {
        let stream = order.stream();
        self.form_gang(id);
        let now = self.now;
        self.sessions.get_mut(&id).into_iter().for_each(|session| session.heard_order(now));
        match order {
            // Only the dispatcher says so, and its own requests have numbers of their own.
            Order::Fail { .. } | Order::Send { .. } | Order::Learn { .. } | Order::Perform(_) => {
                self.pay(stream, owed);
            }
            Order::Fetch { request, .. } | Order::Stats { request } if request.0 >= RESERVED => {
                self.pay(stream, owed);
            }
            Order::Run(_) | Order::Define { .. } | Order::Launch { .. } | Order::Chunk(_)
                if self.sessions.get(&id).is_none_or(|session| session.broken.is_some()) =>
            {
                self.pay(stream, owed);
            }
            Order::Run(tape) => self.tape(id, tape, owed),
            Order::Define { template, tape, planned } => {
                self.define(id, template, (tape, planned), owed);
            }
            Order::Launch { template, bindings } => self.launch(id, template, bindings, owed),
            Order::Chunk(chunk) => self.upload(id, chunk, owed),
            Order::Forget { template } => {
                self.pay(stream, owed);
                self.forget(id, template);
            }
            Order::Fetch { request, value } => self.fetch(id, request, value, owed),
            Order::Stats { request } => self.stats(id, request, owed),
        }
    }

    fn tape(&mut self, id: SessionId, tape: Arc<Tape>, owed: Owed) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.admit(tape, &self.config) {
            Ok(tape) => self.segment(id, Order::Run(tape), owed, (None, false)),
            Err(error) => {
                self.pay(Stream::Control, owed);
                self.fail_session(id, error);
            }
        }
    }

    fn define(
        &mut self,
        id: SessionId,
        template: u32,
        (tape, planned): (Arc<Tape>, bool),
        owed: Owed,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.templates.define(template, Arc::clone(&tape)) {
            Ok(()) => self.ordered(id, Order::Define { template, tape, planned }, owed),
            Err(why) => {
                self.pay(Stream::Control, owed);
                let message = cut(format!("the server refused a template: {}", why.message));
                self.fail_session(id, RunError { message, ..why });
            }
        }
    }

    fn forget(&mut self, id: SessionId, template: u32) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.templates.forget(template);
        // Without a home, the template is known nowhere, except to the orders that wait.
        if session.home.is_some() || !session.waiting.is_empty() {
            self.ordered(id, Order::Forget { template }, Owed::NOTHING);
        }
    }

    fn launch(&mut self, id: SessionId, template: u32, bindings: Arc<Bindings>, owed: Owed) {
        if self.asks_first(id, (template, &bindings), owed) {
            return;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let n_verified = session.n_verified;
        let launched = session.launch(template, &bindings, &self.config);
        let is_new = session.n_verified > n_verified;
        match launched {
            Ok(Launched::Whole(defined)) => {
                let order = Order::Launch { template, bindings };
                self.segment(id, order, owed, (Some(defined), is_new))
            }
            Ok(Launched::Stripped(_)) if self.crowded(id) => {
                self.pay(Stream::Control, owed);
                let message = "the session launches on lost values faster than its worker takes";
                let error = error(ErrorKind::Resource, message.into());
                self.fail_session(id, error.hint("free the values that were lost with a worker"));
            }
            Ok(Launched::Stripped(tape)) => self.segment(id, Order::Run(tape), owed, (None, false)),
            Err(error) => {
                self.pay(Stream::Control, owed);
                self.fail_session(id, error);
            }
        }
    }

    /// Sends the next segment of a session.
    fn segment(
        &mut self,
        id: SessionId,
        order: Order,
        owed: Owed,
        (template, is_new): (Option<Arc<Template>>, bool),
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let tape = match (&order, &template) {
            (Order::Run(tape), _) => Some(tape),
            (_, template) => template.as_ref().map(|template| &template.tape),
        };
        let seq = session.number(order.payload() + Message::LEAST, tape.cloned());
        let signals = Arc::clone(&session.signals);
        self.work(id, Work { order, seq, owed, template, is_new, signals });
    }

    /// Sends an order that is not a segment.
    fn ordered(&mut self, id: SessionId, order: Order, owed: Owed) {
        let Some(session) = self.sessions.get(&id) else { return };
        let seq = match order {
            Order::Fetch { value, .. } => session.needed(value),
            _ => session.n_segments,
        };
        let is_new = matches!(order, Order::Define { .. });
        let signals = Arc::clone(&session.signals);
        self.work(id, Work { order, seq, owed, template: None, is_new, signals });
    }

    /// Whether so much waits for a session's home that no expanded launch may be added. The
    /// client's credit covers only the launch, not the larger tape that it expands to.
    fn crowded(&self, id: SessionId) -> bool {
        let Some(session) = self.sessions.get(&id) else { return false };
        if session.home.is_none() {
            return session.waiting.len() as u64 * Message::LEAST > MAX_EXPANDED >> 10;
        }
        if session.flight.waiting() > MAX_EXPANDED {
            return true;
        }
        let seats = session.gang.iter().flat_map(|gang| &gang.seats).map(|seat| seat.worker);
        let workers = session.home.into_iter().chain(seats);
        let mut workers = workers.filter_map(|worker| self.workers.get(&worker));
        workers.any(|worker| self.queued(worker.peer, Stream::Control) > MAX_EXPANDED)
    }

    fn upload(&mut self, id: SessionId, chunk: Box<Chunk>, owed: Owed) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.spent.up += chunk.bytes.len() as u64;
        match session.upload(self.now, &chunk, &self.config) {
            Ok(true) => self.ordered(id, Order::Chunk(chunk), owed),
            Ok(false) => self.pay(Stream::Bulk, owed),
            Err(error) => {
                self.pay(Stream::Bulk, owed);
                self.fail_session(id, error);
            }
        }
    }

    /// When the unfinished uploads of a session are given up. Not while a piece is on its way to a
    /// worker, because the client may have no credit for more.
    pub(super) fn upload_deadline(&self, session: &Session) -> Option<Time> {
        let deadline = session.upload_deadline(&self.config)?;
        let peer = self.peers.get(&session.peer)?;
        (peer.connection.link(Stream::Bulk).held() == 0).then_some(deadline)
    }

    /// Gives up the unfinished uploads of clients that bring nothing more.
    pub(super) fn expire_uploads(&mut self) {
        let is_late = |session: &Session| {
            self.upload_deadline(session).is_some_and(|deadline| deadline <= self.now)
        };
        let late = self.sessions.iter().filter(|(_, session)| is_late(session));
        let late: Vec<SessionId> = late.map(|(&id, _)| id).collect();
        for id in late {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            for (value, error) in session.give_up_uploads(&self.config) {
                self.ordered(id, Order::Fail { value, error }, Owed::NOTHING);
            }
        }
    }

    fn fetch(&mut self, id: SessionId, request: RequestId, value: ValueId, owed: Owed) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.readable(value, &self.config) {
            Ok(ty) => {
                let asked = Request::new(self.now, Some((value, ty)), owed);
                let replaced = session.requests.open(request, asked);
                self.pay_request(replaced);
                self.ordered(id, Order::Fetch { request, value }, Owed::NOTHING);
            }
            Err(error) => self.answer_error(id, request, error, owed),
        }
    }

    fn stats(&mut self, id: SessionId, request: RequestId, owed: Owed) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(error) = session.unanswerable(&self.config) {
            return self.answer_error(id, request, error, owed);
        }
        let is_alone = session.home.is_none() && session.waiting.is_empty();
        let replaced = session.requests.open(request, Request::new(self.now, None, owed));
        self.pay_request(replaced);
        if is_alone {
            // Nothing runs and nothing waits, so all statistics are of lost workers.
            return self.answer_stats(id, request, None);
        }
        self.ordered(id, Order::Stats { request }, Owed::NOTHING);
    }

    /// Gives back the credit of a request that is answered otherwise than on the control stream.
    pub(super) fn pay_request(&mut self, closed: Option<Request>) {
        closed.into_iter().for_each(|request| self.pay(Stream::Control, request.owed));
    }

    /// Breaks a session: its values are freed, and its reads fail with the cause.
    pub(super) fn fail_session(&mut self, id: SessionId, cause: RunError) {
        let cause = Arc::new(cause);
        self.leave_home(id);
        self.drop_waiting(id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let unanswered = session.fail(&cause);
        self.answer_errors(id, unanswered, &cause);
        self.answer_held(id);
    }

    /// Ends the session of a lost client, and frees its values.
    pub(super) fn end_session(&mut self, id: SessionId, identity: Identity, reason: &str) {
        self.leave_home(id);
        self.drop_waiting(id);
        if self.sessions.remove(&id).is_some() {
            self.out.push(Action::Report(Report::SessionClosed(id, identity, reason.to_owned())));
        }
    }
}
