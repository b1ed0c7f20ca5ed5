//! One connection between a client or a worker and the dispatcher: the handshake, two [`Link`]s,
//! and the lease.
//!
//! Both ends use it: the connecting side calls [`Connection::dial`], the dispatcher
//! [`Connection::accept`]. Call [`Connection::transmit`] after receiving, sending or releasing
//! messages, and at [`Connection::next_deadline`]. A connection ends once, with an [`Ending`], if
//! the other side refuses, says good-bye or is silent for a lease. From then on it does nothing. It
//! owns no clock and no socket.

use crate::clock::Time;
use crate::ids::Incarnation;
use crate::link::{Link, LinkConfig, Timing, Transport};
use crate::wire::{Body, Hello, Message, Packet, Refusal, Stream, Weight, Welcome};
use std::collections::VecDeque;
use std::time::Duration;

/// The configuration of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionConfig {
    /// The link of tapes, requests and reports.
    pub control: LinkConfig,
    /// The link of tensor data.
    pub bulk: LinkConfig,
    /// The longest time without a packet to the other side.
    pub heartbeat: Duration,
    /// The silence of the other side after which the connection ends, 30 s over sockets: a process
    /// that is stopped for less, in a debugger or on a sleeping laptop, is not lost. Over a
    /// reliable transport the connection does not end.
    pub lease: Duration,
    /// The same, after the transport has reported that the other side cannot be reached.
    pub grace: Duration,
    /// How long the other side may accept none of the messages queued for it, if there is a limit.
    pub patience: Option<Duration>,
    /// How long a dialing side waits for an answer, if there is a limit.
    pub answer: Option<Duration>,
}

/// The widest window of a link over sockets. The marks of the sockets' queues follow from it.
pub const WIDEST_WINDOW: u64 = 32 << 20;

impl ConnectionConfig {
    /// The configuration for processes that connect over sockets.
    #[must_use]
    pub fn remote() -> ConnectionConfig {
        let link = |window| LinkConfig { transport: Transport::Lossy(Timing::default()), window };
        ConnectionConfig {
            control: link(4 << 20),
            bulk: link(WIDEST_WINDOW),
            heartbeat: Duration::from_secs(1),
            lease: Duration::from_secs(30),
            grace: Duration::from_secs(2),
            patience: None,
            answer: Some(Duration::from_millis(1800)),
        }
    }

    /// The configuration within one process: no timers, and credits only to limit memory.
    #[must_use]
    pub fn embedded() -> ConnectionConfig {
        let link = |window| LinkConfig { transport: Transport::Reliable, window };
        ConnectionConfig {
            control: link(64 << 20),
            bulk: link(1 << 30),
            answer: None,
            ..ConnectionConfig::remote()
        }
    }

    fn is_reliable(&self) -> bool {
        self.control.transport == Transport::Reliable
    }
}

/// A message or news that a connection delivers.
#[derive(Clone, PartialEq, Debug)]
pub enum Incoming<M = Message> {
    /// The dispatcher has answered, so messages flow. On the dialing side only, once for each
    /// [`Connection::dial`] and [`Connection::redial`].
    Opened(Box<Welcome>),
    /// A message, in order on its stream. [`Connection::release`] its weight when it has been
    /// handled.
    Message(Stream, M),
    /// The connection is over. The last delivery.
    Ended(Ending),
}

/// Why a connection is over.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ending {
    /// The other side said good-bye.
    #[error("{0}")]
    Bye(String),
    /// The dispatcher refused.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// No packet came for a lease.
    #[error("nothing was heard from it for {} s", .0.as_secs())]
    Silent(Duration),
    /// It accepted none of the messages for it.
    #[error("it accepted none of the data waiting for it for {} s", .0.as_secs())]
    Stuck(Duration),
    /// No answer to the hello came.
    #[error("no answer within {:.1} s", .0.as_secs_f64())]
    NoAnswer(Duration),
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection<M = Message> {
    incarnation: Incarnation,
    config: ConnectionConfig,
    phase: Phase,
    /// The name that the dispatcher gave this side. A different name later means that the
    /// dispatcher was restarted.
    name: Option<String>,
    n_moves: u32,
    control: Link<M>,
    bulk: Link<M>,
    /// Numbers of bulk messages, and of control messages: a bulk message from the first number on
    /// waits until as many control messages as the second number were sent.
    behind: VecDeque<(u64, u64)>,
    /// When the last packet came from the other side, and when the last packet was sent.
    heard: Time,
    spoke: Time,
    /// Since when the other side cannot be reached, according to the transport.
    unreachable: Option<Time>,
}

#[derive(Debug)]
enum Phase {
    Dialing { hello: Box<Hello>, since: Time, next: Time, wait: Duration },
    Open,
    Ended,
}

/// The time after which a hello is repeated, first and at most. It doubles each time. The first
/// hello is often lost, because the transport is not connected yet.
const REDIAL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(200)];

impl Phase {
    fn dialing(now: Time, hello: Hello) -> Phase {
        Phase::Dialing { hello: Box::new(hello), since: now, next: now, wait: REDIAL[0] }
    }
}

impl<M: Clone + Weight> Connection<M> {
    /// The side that connects. Its `incarnation` is greater than all earlier ones of the same peer.
    #[must_use]
    pub fn dial(
        now: Time,
        incarnation: Incarnation,
        hello: Hello,
        config: ConnectionConfig,
    ) -> Connection<M> {
        let phase = Phase::dialing(now, hello);
        Connection { phase, ..Connection::accept(now, incarnation, config) }
    }

    /// The dispatcher's side, after a hello. The caller answers the hello with a [`Body::Welcome`].
    #[must_use]
    pub fn accept(now: Time, incarnation: Incarnation, config: ConnectionConfig) -> Connection<M> {
        Connection {
            incarnation,
            config,
            phase: Phase::Open,
            name: None,
            n_moves: 0,
            control: Link::new(config.control),
            bulk: Link::new(config.bulk),
            behind: VecDeque::new(),
            heard: now,
            spoke: now,
            unreachable: None,
        }
    }

    /// Says hello again with the same incarnation, from another address. Messages flow again when
    /// the dispatcher has answered.
    pub fn redial(&mut self, now: Time, hello: Hello) {
        if !self.is_ended() {
            self.n_moves += 1;
            let hello = Hello { move_number: self.n_moves, resumes: self.name.is_some(), ..hello };
            self.phase = Phase::dialing(now, hello);
        }
    }

    /// The incarnation of the connecting side.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Whether messages flow.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// The link of a stream, to look at.
    #[must_use]
    pub fn link(&self, stream: Stream) -> &Link<M> {
        match stream {
            Stream::Control => &self.control,
            Stream::Bulk => &self.bulk,
        }
    }

    fn link_mut(&mut self, stream: Stream) -> &mut Link<M> {
        match stream {
            Stream::Control => &mut self.control,
            Stream::Bulk => &mut self.bulk,
        }
    }

    /// Queues a message, also before the connection is open.
    pub fn send(&mut self, now: Time, stream: Stream, message: M) {
        if !self.is_ended() {
            self.link_mut(stream).send(now, message);
        }
    }

    /// Queues a bulk message that does not overtake the control messages queued before it. The
    /// other side limits the data that it holds for orders that have not come.
    pub fn send_behind(&mut self, now: Time, message: M) {
        let needed = self.control.n_queued_ever();
        if needed > self.control.n_sent() && self.behind.back().is_none_or(|last| last.1 < needed) {
            self.behind.push_back((self.bulk.n_queued_ever(), needed));
        }
        self.send(now, Stream::Bulk, message);
    }

    /// Releases a delivered message of this weight, so that the other side may send as much more.
    pub fn release(&mut self, stream: Stream, weight: u64) {
        self.link_mut(stream).release(weight);
    }

    /// The number of a stream's messages, oldest first, that the other side has acknowledged since
    /// the last call.
    pub fn take_acked(&mut self, stream: Stream) -> usize {
        self.link_mut(stream).take_acked()
    }

    /// Takes a packet. Packets of another incarnation and invalid packets are dropped.
    pub fn receive(&mut self, now: Time, packet: Packet<M>, out: &mut impl FnMut(Incoming<M>)) {
        if packet.incarnation != self.incarnation || self.is_ended() {
            return;
        }
        self.greeted(now);
        let stream = packet.stream;
        match packet.body {
            // A repeated hello is answered by the owner, a state is asked for without a connection,
            // and the shell of a worker has lanes.
            Body::Hello(_) | Body::Status(_) | Body::Events(_) | Body::Lane(_) => (),
            Body::Welcome(welcome) => self.welcomed(welcome, out),
            Body::Refused(refusal) => self.end(Ending::Refused(refusal), out),
            Body::Bye { reason } => self.end(Ending::Bye(reason), out),
            Body::Ping => self.link_mut(stream).pinged(now),
            Body::Data { seq, ack, message } if self.is_open() => {
                let link = self.link_mut(stream);
                link.acknowledged(now, ack);
                link.receive(now, seq, message, &mut |message| {
                    out(Incoming::Message(stream, message))
                });
            }
            Body::Data { .. } => (), // It came before the welcome, and is sent again.
            Body::Ack { upto, seen, credit } => {
                self.link_mut(stream).credited(now, upto, seen, credit)
            }
        }
    }

    /// Notes a sign of life of the other side, such as a repeated hello.
    pub fn greeted(&mut self, now: Time) {
        self.heard = now;
        self.unreachable = None;
    }

    fn welcomed(&mut self, welcome: Box<Welcome>, out: &mut impl FnMut(Incoming<M>)) {
        let name = self.name.get_or_insert_with(|| welcome.name.clone());
        if *name != welcome.name {
            self.end(Ending::Refused(Refusal::Unknown), out);
        } else if matches!(self.phase, Phase::Dialing { .. }) {
            self.phase = Phase::Open;
            out(Incoming::Opened(welcome));
        }
    }

    /// Notes that the transport could not reach the other side. The connection ends unless a packet
    /// comes within the grace.
    pub fn unreachable(&mut self, now: Time) {
        self.unreachable.get_or_insert(now);
    }

    /// Passes the packets to send now to `out`, or the end of the connection to `ended`.
    pub fn transmit(
        &mut self,
        now: Time,
        out: &mut impl FnMut(Packet<M>),
        ended: &mut impl FnMut(Incoming<M>),
    ) {
        let incarnation = self.incarnation;
        let mut spoke = false;
        let mut say = |stream, body| {
            spoke = true;
            out(Packet { stream, incarnation, body });
        };
        match &mut self.phase {
            Phase::Ended => return,
            Phase::Dialing { hello, since, next, wait } => {
                if let Some(limit) = self.config.answer.filter(|limit| *since + *limit <= now) {
                    return self.end(Ending::NoAnswer(limit), ended);
                }
                if *next <= now {
                    *next = now + *wait;
                    *wait = (*wait * 2).min(REDIAL[1]);
                    say(Stream::Control, Body::Hello(Box::new(Hello::clone(hello))));
                }
            }
            Phase::Open => {
                if !self.config.is_reliable() && self.spoke + self.config.heartbeat <= now {
                    // A heartbeat repeats both acknowledgements, which may have got lost.
                    self.control.pinged(now);
                    self.bulk.pinged(now);
                }
                self.control.transmit(now, &mut |body| say(Stream::Control, body));
                while self.behind.front().is_some_and(|first| first.1 <= self.control.n_sent()) {
                    self.behind.pop_front();
                }
                self.bulk.set_barrier(self.behind.front().map(|first| first.0));
                self.bulk.transmit(now, &mut |body| say(Stream::Bulk, body));
                let (lease, ending) = self.lease();
                if lease.is_some_and(|until| until <= now) {
                    return self.end(ending, ended);
                }
            }
        }
        if spoke {
            self.spoke = now;
        }
    }

    /// When the connection ends without a further packet, and with which ending.
    fn lease(&self) -> (Option<Time>, Ending) {
        if self.config.is_reliable() {
            return (None, Ending::Silent(Duration::ZERO));
        }
        let silent = self.heard + self.config.lease;
        let silent = self.unreachable.map_or(silent, |since| silent.min(since + self.config.grace));
        let waiting = self.control.waiting().into_iter().chain(self.bulk.waiting()).min();
        let stuck = waiting.and_then(|since| Some(since + self.config.patience?));
        match stuck {
            Some(stuck) if stuck < silent => {
                (Some(stuck), Ending::Stuck(self.config.patience.unwrap_or_default()))
            }
            _ => (Some(silent), Ending::Silent(silent - self.heard)),
        }
    }

    fn end(&mut self, ending: Ending, out: &mut impl FnMut(Incoming<M>)) {
        self.phase = Phase::Ended;
        out(Incoming::Ended(ending));
    }

    /// Ends the connection from this side. The returned packet tells the other side, if it arrives.
    /// Nothing waits for it to arrive.
    pub fn close(&mut self, reason: String) -> Packet<M> {
        self.phase = Phase::Ended;
        let body = Body::Bye { reason: crate::wire::codec::cut(reason) };
        Packet { stream: Stream::Control, incarnation: self.incarnation, body }
    }

    /// When to call [`Connection::transmit`], unless a packet arrives before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Ended => None,
            Phase::Dialing { since, next, .. } => {
                let limit = self.config.answer.map(|limit| *since + limit);
                Some(limit.map_or(*next, |limit| limit.min(*next)))
            }
            Phase::Open if self.config.is_reliable() => None,
            Phase::Open => {
                let links =
                    [self.control.next_deadline(), self.bulk.next_deadline(), self.lease().0];
                links.into_iter().flatten().chain([self.spoke + self.config.heartbeat]).min()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The streams have separate credit, so a sender that asks on bulk needs an answer on bulk.
    #[test]
    fn a_question_is_answered_on_its_own_stream_and_at_once() {
        let (life, config) = (Incarnation(1), ConnectionConfig::remote());
        let mut connection = Connection::<Message>::accept(Time::ZERO, life, config);
        let check = |connection: &mut Connection, asked: &[Stream]| {
            for &stream in asked {
                let ping = Packet { stream, incarnation: life, body: Body::Ping };
                connection.receive(Time::ZERO, ping, &mut |_| ());
            }
            let mut answered = Vec::new();
            connection.transmit(
                Time::ZERO,
                &mut |packet| match packet.body {
                    Body::Ack { .. } => answered.push(packet.stream),
                    other => panic!("{other:?}"),
                },
                &mut |_| (),
            );
            assert_eq!(answered, asked);
        };
        // The first packets carry the windows.
        check(&mut connection, &[Stream::Control, Stream::Bulk]);
        check(&mut connection, &[Stream::Bulk]);
        check(&mut connection, &[Stream::Control]);
        check(&mut connection, &[]);
    }

    /// A message that is its own weight.
    impl Weight for u64 {
        fn weight(&self) -> u64 {
            *self
        }
    }

    #[test]
    fn data_does_not_overtake_the_orders_before_it() {
        let config = ConnectionConfig::remote();
        let mut connection = Connection::<u64>::accept(Time::ZERO, Incarnation(1), config);
        let sent = |connection: &mut Connection<u64>| {
            let mut sent = Vec::new();
            let mut note = |packet: Packet<u64>| match packet.body {
                Body::Data { message, .. } => sent.push((packet.stream, message)),
                Body::Ack { .. } => {}
                other => panic!("{other:?}"),
            };
            connection.transmit(Time::ZERO, &mut note, &mut |_| ());
            sent
        };
        let first = crate::link::FIRST_CREDIT;
        for (control, bulk) in [(first, 10), (1, 20), (2, 30)] {
            connection.send(Time::ZERO, Stream::Control, control);
            connection.send_behind(Time::ZERO, bulk);
            connection.send_behind(Time::ZERO, bulk + 1);
        }
        let [control, bulk] = [Stream::Control, Stream::Bulk];
        assert_eq!(sent(&mut connection), [(control, first), (bulk, 10), (bulk, 11)]);
        assert_eq!(sent(&mut connection), []);
        let ack = |credit| Packet {
            stream: control,
            incarnation: Incarnation(1),
            body: Body::Ack { upto: 1, seen: 1, credit },
        };
        connection.receive(Time::ZERO, ack(first + 1), &mut |_| ());
        assert_eq!(sent(&mut connection), [(control, 1), (bulk, 20), (bulk, 21)]);
        connection.receive(Time::ZERO, ack(first + 9), &mut |_| ());
        assert_eq!(sent(&mut connection), [(control, 2), (bulk, 30), (bulk, 31)]);
    }

    #[test]
    fn a_hello_ends_the_grace() {
        let mut connection =
            Connection::<Message>::accept(Time::ZERO, Incarnation(1), ConnectionConfig::remote());
        let seconds = Duration::from_secs;
        connection.unreachable(seconds(1));
        connection.greeted(seconds(2));
        connection.transmit(seconds(5), &mut |_| (), &mut |what| panic!("{what:?}"));
        connection.transmit(seconds(33), &mut |_| (), &mut |_| ());
        assert!(connection.is_ended());
    }
}
