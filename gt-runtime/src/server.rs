//! The dispatcher behind sockets: decodes packets, calls `handle` and encodes packets. It decides
//! nothing.
//!
//! One thread owns the sockets and the dispatcher. Bytes that are no packet are dropped, counted
//! and reported to `watch`. Lines for `watch` have a limited rate (`lines`). A packet of another
//! version is answered, so that its sender can report the versions. Packets of unknown connections
//! are answered at a limited rate. A peer on this machine that cannot be reached is lost at once if
//! its process has ended.

mod lines;
mod lives;
mod observer;
mod partitioner;
mod trace;

use std::time::Duration;

use zmq::Context;

use crate::allowance::Allowance;
use crate::clock::{self, Time};
use crate::dispatcher::{Action, Config, Dispatcher, Event, Report};
use crate::doors::Pass;
use crate::ids::PeerId;
use crate::log::Log;
use crate::modifier::{self, Place};
use crate::shutdown::{Drain, Manner, Shutdown};
use crate::wire::{Body, Hello, Packet, Refusal, Stream};
use crate::zmq::{
    Address, Arrival, Exposure, Gate, Peers, Route, Sent, SocketError, UplinkError, Wakeups,
    context,
};
use lines::{Kind, Lines};
use lives::Lives;
pub use observer::Observer;
use observer::Questions;
use partitioner::Partitioner;
use trace::Trace;

/// The most messages taken before deadlines are checked.
const BATCH: usize = 256;
/// The timeout of an orderly end, in which good-byes are sent.
const FAREWELL: Duration = Duration::from_millis(300);
/// The most answers to packets of unknown connections in a [`STRAY_TIME`]. The last packets of an
/// ended connection need none, and a peer that waits for one asks again.
const MAX_STRAYS: u32 = 100;
/// The most answers to monitors and operators in a [`STRAY_TIME`]. A monitor that gets none asks
/// again. An answer about a thousand sessions takes about a millisecond.
const MAX_ASKS: u32 = 10;
const STRAY_TIME: Duration = Duration::from_millis(100);

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address to listen at. Port 0 takes a free port.
    pub address: Address,
    /// Whether connections over tcp are encrypted.
    pub exposure: Exposure,
    /// The configuration of its dispatcher.
    pub dispatcher: Config,
    /// The log of its events.
    pub log: Log,
}

impl ServerConfig {
    /// A server for this machine only, at `port`.
    #[must_use]
    pub fn local(port: u16) -> Self {
        ServerConfig {
            address: Address::local(port),
            exposure: Exposure::Sealed,
            dispatcher: Config::remote(),
            log: Log::from_environment(),
        }
    }
}

/// A dispatcher that listens.
pub struct Server {
    // Before the context, because dropping the context waits for its sockets.
    gate: Gate,
    _ctx: Context,
    address: Address,
    shutdown: Shutdown,
    wakeups: Wakeups,
    dispatcher: Dispatcher,
    peers: Peers,
    log: Log,
    lines: Lines,
    trace: Trace,
    lives: Lives,
    strays: Allowance,
    asks: Allowance,
    questions: Questions,
    partitioner: Partitioner,
    /// When it ends although programs still run, once it drains.
    drained: Option<Time>,
    actions: Vec<Action>,
    /// Peers that could not be reached while sending.
    gone: Vec<PeerId>,
    /// The peer that was welcomed last.
    welcomed: Option<PeerId>,
}

impl Server {
    /// Listens at the address. Answers nothing before [`run`](Server::run).
    ///
    /// # Errors
    /// The socket cannot listen at the address, or is not allowed to.
    pub fn bind(config: ServerConfig) -> Result<Server, SocketError> {
        let ctx = context();
        let (gate, address) = Gate::listen(&ctx, &config.address, config.exposure)?;
        let (shutdown, wakeups) = Shutdown::new()?;
        let gate = gate.heard_by(wakeups.bell());
        let notes = config.log.is_on();
        let partitioner = Partitioner::new(shutdown.waker().clone());
        let dispatcher = Dispatcher::new(Config {
            notes,
            address: Some(address.to_string()),
            ..config.dispatcher
        });
        Ok(Server {
            gate,
            _ctx: ctx,
            address,
            shutdown,
            wakeups,
            dispatcher,
            peers: Peers::default(),
            log: config.log,
            lines: Lines::default(),
            trace: Trace::default(),
            lives: Lives::default(),
            strays: Allowance::new(MAX_STRAYS, STRAY_TIME),
            asks: Allowance::new(MAX_ASKS, STRAY_TIME),
            questions: Questions::default(),
            partitioner,
            drained: None,
            actions: Vec::new(),
            gone: Vec::new(),
            welcomed: None,
        })
    }

    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A handle that ends it.
    #[must_use]
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// A handle by which other threads of the process learn the server's state.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer::new(self.questions.clone(), self.shutdown.waker().clone())
    }

    /// Serves until it is told to end. `watch` receives lines for users. Returns the number of
    /// sessions that it cut off.
    ///
    /// # Errors
    /// The sockets failed.
    pub fn run(mut self, mut watch: impl FnMut(&str)) -> Result<usize, SocketError> {
        loop {
            let more = self.receive(&mut watch)?;
            match self.shutdown.asked() {
                Some(Manner::Silently) => return Ok(self.dispatcher.n_sessions()),
                Some(Manner::Politely(reason)) => {
                    let n = self.dispatcher.n_sessions();
                    self.handle(Event::Shutdown { reason }, &mut watch)?;
                    self.lines.flush(clock::now(), &mut watch);
                    return self.farewell().map(|()| n);
                }
                None => self.drain(&mut watch)?,
            }
            while let Some(made) = self.partitioner.made() {
                self.handle(Event::Partitioned(made), &mut watch)?;
            }
            self.questions.answer(|| self.dispatcher.status(clock::now(), Pass::OWNER));
            let now = clock::now();
            let (tick, flush) = (self.dispatcher.next_deadline(), self.lines.next_deadline());
            if flush.is_some_and(|at| at <= now) {
                self.lines.flush(now, &mut watch);
            } else if tick.is_some_and(|at| at <= now) {
                self.handle(Event::Tick, &mut watch)?;
            } else if !more {
                let due = tick
                    .into_iter()
                    .chain(flush)
                    .chain(self.drained)
                    .min()
                    .map(|at| at.saturating_sub(now));
                self.gate.wait(&self.wakeups, due)?;
            }
        }
    }

    /// Begins to drain when it is told to, and ends when no session is left, or it has waited long
    /// enough.
    fn drain(&mut self, watch: &mut impl FnMut(&str)) -> Result<(), SocketError> {
        let Some(Drain { reason, patience }) = self.shutdown.draining() else { return Ok(()) };
        let n = self.dispatcher.n_sessions();
        if self.drained.is_none() {
            let seconds = patience.as_secs();
            let say = |ended| format!("the server ends when its {ended} ended, within {seconds} s");
            match n {
                0 => (),
                1 => watch(&say("session has".to_owned())),
                n => watch(&say(format!("{n} sessions have"))),
            }
            self.handle(Event::Drain { reason: reason.clone() }, watch)?;
        }
        let end = *self.drained.get_or_insert_with(|| clock::now() + patience);
        if n == 0 || end <= clock::now() {
            self.shutdown.shut_down(&reason);
        }
        Ok(())
    }

    /// Gives the good-byes time to leave. Messages that still arrive are read and dropped: closing
    /// a connection with unread messages resets it, and its other end may then lose the good-bye.
    fn farewell(&mut self) -> Result<(), SocketError> {
        self.gate.set_linger(FAREWELL)?;
        let end = clock::now() + FAREWELL / 2;
        loop {
            let left = end.saturating_sub(clock::now());
            if left.is_zero() {
                return Ok(());
            }
            if !self.gate.drain()? {
                self.gate.wait(&self.wakeups, Some(left))?;
            }
        }
    }

    /// Takes messages, a batch at most. Says whether there may be more.
    fn receive(&mut self, watch: &mut impl FnMut(&str)) -> Result<bool, SocketError> {
        self.revoke(watch)?;
        for _ in 0..BATCH {
            match self.gate.receive(clock::now())? {
                None => return Ok(false),
                Some(Arrival::Packet(route, pass, packet)) => {
                    self.packet(route, pass, packet, watch)?
                }
                Some(Arrival::Damaged(error)) => {
                    let line = format!("a message was dropped: {error}");
                    self.lines.say(clock::now(), Kind::Dropped, line, watch);
                }
                Some(Arrival::News(line)) => {
                    self.lines.say(clock::now(), Kind::Refused, line, watch);
                }
                Some(Arrival::Handled) => {}
            }
        }
        Ok(true)
    }

    /// Ends the connections of peers whose key is no longer authorized.
    fn revoke(&mut self, watch: &mut impl FnMut(&str)) -> Result<(), SocketError> {
        let (gone, news) = self.gate.revoked(clock::now());
        if let Some(line) = news {
            self.lines.say(clock::now(), Kind::Keys, line, watch);
        }
        for route in gone {
            if let Some(peer) = self.peers.find(&route) {
                self.handle(Event::Revoked(peer), watch)?;
            }
            self.gate.close(&route);
        }
        Ok(())
    }

    /// Passes a packet to the dispatcher. A new peer that is not welcomed is forgotten, because
    /// anyone can send packets.
    fn packet(
        &mut self,
        route: Route,
        pass: Pass,
        mut packet: Packet,
        watch: &mut impl FnMut(&str),
    ) -> Result<(), SocketError> {
        let (peer, new) = self.peers.id(route);
        let asks = |hello: &Hello| !hello.role.opens();
        let (identity, may) = match &packet.body {
            Body::Hello(hello) if new && asks(hello) => (None, self.asks.take(clock::now())),
            Body::Hello(hello) if new => (Some(hello.identity.clone()), true),
            _ => (None, !new || self.strays.take(clock::now())),
        };
        if !may {
            self.forget(peer);
            return Ok(());
        }
        if modifier::is_at(Place::Dispatcher)
            && let Err(why) = modifier::arrive(peer, &self.log, &mut packet)
        {
            let body = Body::Refused(Refusal::Fault(why.clone()));
            self.send(peer, Packet { stream: Stream::Control, body, ..packet.clone() }, watch)?;
            packet.body = Body::Bye { reason: why };
        }
        self.handle(Event::Guest(peer, pass, packet), watch)?;
        if new && self.welcomed != Some(peer) {
            self.forget(peer);
        } else if let Some(identity) = identity {
            self.peers.introduce(peer, &identity);
        }
        Ok(())
    }

    fn forget(&mut self, peer: PeerId) {
        if let Some(route) = self.peers.forget(peer) {
            self.gate.forget(&route);
        }
    }

    fn handle(&mut self, event: Event, watch: &mut impl FnMut(&str)) -> Result<(), SocketError> {
        let mut actions = std::mem::take(&mut self.actions);
        let now = clock::now();
        self.dispatcher.handle(now, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Send(peer, packet) => self.send(peer, packet, watch)?,
                Action::Forget(peer) => self.forget(peer),
                Action::Report(report) => {
                    self.log.report(&report);
                    self.trace.report(clock::now(), &report);
                    let life = |party| self.dispatcher.life_of(party);
                    self.lives.report(clock::now(), &report, life);
                    self.lines.say(clock::now(), kind(&report), report.to_string(), watch);
                }
                Action::Partition { session, user, job } => {
                    self.partitioner.add((session, user), &job);
                }
                Action::Note(note) => {
                    self.log.note(now, &note);
                    self.trace.note(now, &note);
                }
                Action::Moments { party, asked, moments } => {
                    self.trace.moments(clock::now(), party, asked, &moments);
                }
                Action::Trace { peer, life, from } => {
                    let events = self.trace.since(clock::now(), from);
                    let body = Body::Events(Box::new(events));
                    let packet = Packet { stream: Stream::Control, incarnation: life, body };
                    self.send(peer, packet, watch)?;
                    self.forget(peer);
                }
            }
        }
        self.actions = actions;
        let is_watched = self.trace.is_watched(clock::now());
        self.dispatcher.take_notes(self.log.is_on() || is_watched);
        match self.gone.pop() {
            Some(peer) if self.peers.has_ended(peer) => self.handle(Event::PeerLost(peer), watch),
            Some(peer) => self.handle(Event::Unreachable(peer), watch),
            None => Ok(()),
        }
    }

    fn send(
        &mut self,
        peer: PeerId,
        mut packet: Packet,
        watch: &mut impl FnMut(&str),
    ) -> Result<(), SocketError> {
        let Some(route) = self.peers.route(peer) else { return Ok(()) };
        self.gate.complete(&route, &mut packet);
        if matches!(packet.body, Body::Welcome(_)) {
            self.welcomed = Some(peer);
        }
        match self.gate.send(&route, &packet) {
            // The link sends packets again that a full queue drops.
            Ok(Sent::Queued | Sent::Full) => {}
            Ok(Sent::NoPeer) => self.gone.push(peer),
            Err(UplinkError::Wire(error)) => {
                let line = format!("a packet to {peer} could not be sent: {error}");
                self.lines.say(clock::now(), Kind::Dropped, line, watch);
            }
            Err(UplinkError::Socket(error)) => return Err(error),
        }
        Ok(())
    }
}

fn kind(report: &Report) -> Kind {
    match report {
        Report::SessionOpened(..) => Kind::Opened,
        Report::SessionClosed(..) => Kind::Closed,
        Report::WorkerJoined(..) | Report::WorkerLost(..) | Report::WorkerLeft(..) => Kind::Worker,
        Report::Refused(..) => Kind::Refused,
    }
}
