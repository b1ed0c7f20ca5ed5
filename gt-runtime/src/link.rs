//! One end of a reliable, ordered link over a transport that may lose, repeat and reorder packets:
//! the sender of one direction and the receiver of the other.
//!
//! Guarantees: every message is delivered once and in order, or not at all if the connection ends.
//! The weight that is sent and not released by the receiver stays within the receiver's window and
//! one message. Messages that arrive early are kept within the same bound.
//!
//! Messages are numbered from 0, and acknowledgements are cumulative. The sender sends messages
//! again if the receiver reports a gap, or after a silence. Over a [`Transport::Reliable`] a link
//! keeps no messages and has no timers, only the credit. It knows no peers and no clock.

#[cfg(test)]
mod tests;

use crate::clock::Time;
use crate::wire::{Body, Weight};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The weight that a sender may send before it knows the receiver's window.
pub const FIRST_CREDIT: u64 = 4 << 10;
/// The most messages sent again at once after a silence. Their acknowledgement tells whether the
/// others are missing too.
const BURST: usize = 32;
/// The number of messages after which an acknowledgement is sent at once.
const ACK_EVERY: u32 = 16;
/// The most early messages kept, regardless of weight.
const MAX_EARLY: u64 = 1 << 14;

/// The transport that carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Packets may be lost, repeated and reordered.
    Lossy(Timing),
    /// Packets arrive once and in order, or the peer is gone. For queues within a process.
    Reliable,
}

/// The timers of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// The silence after which a message is sent again. It doubles each time.
    pub resend: Duration,
    /// The longest such silence.
    pub resend_max: Duration,
    /// How long an acknowledgement may wait for data that carries it.
    pub ack: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let ms = Duration::from_millis;
        Timing { resend: ms(400), resend_max: ms(3000), ack: ms(10) }
    }
}

/// The configuration of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// The transport of the link.
    pub transport: Transport,
    /// The weight of unreleased messages that the other side may send. At least [`FIRST_CREDIT`].
    pub window: u64,
}

/// One end of a link, for messages of type `M` both ways.
#[derive(Debug)]
pub struct Link<M> {
    config: LinkConfig,
    /// Messages from number `base` on: first the unacknowledged ones, then the unsent ones.
    queue: VecDeque<Outgoing<M>>,
    base: u64,
    /// The number of messages in `queue` that were sent at least once.
    n_sent: usize,
    /// The weight of all messages in `queue`.
    queued: u64,
    /// The number of the first message that may not be sent yet, if there is one.
    barrier: Option<u64>,
    /// The weight of all messages sent so far, each counted once.
    sent: u64,
    /// The limit: a message may be sent while `sent` is below it.
    credit: u64,
    resend: Duration,
    /// When the other side last acknowledged a message or raised the credit. None while nothing is
    /// queued.
    waiting: Option<Time>,
    /// When a sender without credit next asks for more.
    probe: Option<Time>,
    /// The numbers of the messages that are sent again at the next opportunity. Acknowledged ones
    /// may be among them.
    again: BTreeSet<u64>,
    /// When reported gaps are next looked into.
    gaps: Time,
    /// The number of acknowledged messages not yet taken by [`Link::take_acked`].
    acked: usize,

    /// The next number to deliver.
    next: u64,
    /// One above the highest number that arrived.
    seen: u64,
    early: BTreeMap<u64, M>,
    early_weight: u64,
    /// The weight of all delivered messages.
    delivered: u64,
    /// The weight of all released messages.
    released: u64,
    /// The credit that the other side was last told.
    advertised: u64,
    n_unacknowledged: u32,
    ack_due: Option<Time>,
    /// Whether the other side asks for an answer. An acknowledgement that travels with data has no
    /// credit, and does not answer it.
    asked: bool,
}

#[derive(Debug)]
struct Outgoing<M> {
    message: M,
    weight: u64,
    /// When it was last sent, if it was sent.
    at: Time,
}

impl<M: Clone + Weight> Link<M> {
    /// A link before its first message.
    #[must_use]
    pub fn new(config: LinkConfig) -> Link<M> {
        let config = LinkConfig { window: config.window.max(FIRST_CREDIT), ..config };
        let resend = match config.transport {
            Transport::Lossy(timing) => timing.resend,
            Transport::Reliable => Duration::ZERO,
        };
        Link {
            config,
            queue: VecDeque::new(),
            base: 0,
            n_sent: 0,
            queued: 0,
            barrier: None,
            sent: 0,
            credit: FIRST_CREDIT,
            resend,
            waiting: None,
            probe: None,
            again: BTreeSet::new(),
            gaps: Time::ZERO,
            acked: 0,
            next: 0,
            seen: 0,
            early: BTreeMap::new(),
            early_weight: 0,
            delivered: 0,
            released: 0,
            advertised: FIRST_CREDIT,
            n_unacknowledged: 0,
            ack_due: None,
            asked: false,
        }
    }

    /// Queues a message. [`Link::transmit`] sends it when the credit allows. The queue has no
    /// limit, so look at [`Link::queued`] first.
    pub fn send(&mut self, now: Time, message: M) {
        let weight = message.weight();
        self.queued += weight;
        self.waiting.get_or_insert(now);
        self.queue.push_back(Outgoing { message, weight, at: Time::ZERO });
    }

    /// The number of messages queued here so far.
    #[must_use]
    pub fn n_queued_ever(&self) -> u64 {
        self.base + self.queue.len() as u64
    }

    /// The number of messages sent so far, each counted once.
    #[must_use]
    pub fn n_sent(&self) -> u64 {
        self.base + self.n_sent as u64
    }

    /// Sends no message from this number on, until another barrier is set.
    pub fn set_barrier(&mut self, barrier: Option<u64>) {
        self.barrier = barrier;
    }

    /// Whether the credit and the barrier allow one more message.
    fn may_send(&self) -> bool {
        self.sent < self.credit && self.barrier.is_none_or(|barrier| self.n_sent() < barrier)
    }

    /// The weight of the queued messages: unacknowledged, or over a reliable transport unsent.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// The number of the queued messages.
    #[must_use]
    pub fn n_queued(&self) -> usize {
        self.queue.len()
    }

    /// The weight of the messages delivered here and not released yet.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.delivered - self.released
    }

    /// Since when messages are queued and the other side has acknowledged none and given no credit.
    #[must_use]
    pub fn waiting(&self) -> Option<Time> {
        self.waiting
    }

    /// The number of messages, oldest first, that were acknowledged since the last call. Over a
    /// reliable transport, the number of messages sent.
    pub fn take_acked(&mut self) -> usize {
        std::mem::take(&mut self.acked)
    }

    /// The number of messages delivered here.
    #[must_use]
    pub fn n_received(&self) -> u64 {
        self.next
    }

    /// Releases delivered messages of this weight, so that the other side may send as much more.
    pub fn release(&mut self, weight: u64) {
        self.released = (self.released + weight).min(self.delivered);
    }

    /// Takes a message that arrived. Delivers it and the early messages that follow it. Drops a
    /// repeated message.
    pub fn receive(&mut self, now: Time, seq: u64, message: M, deliver: &mut impl FnMut(M)) {
        if let Transport::Lossy(timing) = self.config.transport {
            self.n_unacknowledged += 1;
            let urgent =
                seq != self.next || self.n_unacknowledged >= ACK_EVERY || !self.early.is_empty();
            let due = if urgent { now } else { now + timing.ack };
            self.ack_due = Some(self.ack_due.map_or(due, |earlier| earlier.min(due)));
        }
        if seq > self.next {
            self.hold(seq, message);
        } else if seq == self.next && self.delivered < self.advertised {
            // A sender within its credit never fails the second condition.
            if let Some(copy) = self.early.remove(&seq) {
                self.early_weight -= copy.weight();
            }
            self.deliver(message, deliver);
            while self.delivered < self.advertised
                && let Some(message) = self.early.remove(&self.next)
            {
                self.early_weight -= message.weight();
                self.deliver(message, deliver);
            }
        }
    }

    fn deliver(&mut self, message: M, deliver: &mut impl FnMut(M)) {
        self.delivered += message.weight();
        self.next += 1;
        self.seen = self.seen.max(self.next);
        deliver(message);
    }

    fn hold(&mut self, seq: u64, message: M) {
        let weight = message.weight();
        let fits = self.early_weight + weight <= self.config.window && seq - self.next <= MAX_EARLY;
        if fits && !self.early.contains_key(&seq) {
            self.seen = self.seen.max(seq + 1);
            self.early_weight += weight;
            self.early.insert(seq, message);
        }
    }

    /// Takes an acknowledgement that came with data.
    pub fn acknowledged(&mut self, now: Time, upto: u64) {
        if upto <= self.base || upto > self.base + self.n_sent as u64 {
            return; // Stale, or of messages never sent, which only a faulty peer acknowledges.
        }
        for _ in self.base..upto {
            let Some(done) = self.queue.pop_front() else { break };
            self.queued -= done.weight;
            self.acked += 1;
            self.n_sent -= 1;
        }
        self.base = upto;
        self.progress(now);
    }

    /// Takes an acknowledgement that came in a packet of its own, with credit.
    pub fn credited(&mut self, now: Time, upto: u64, seen: u64, credit: u64) {
        self.acknowledged(now, upto);
        if credit > self.credit {
            self.credit = credit;
            self.probe = None;
            self.progress(now);
        }
        // Every packet behind a gap reports it, so it is looked into once in a while only.
        let quick = self.resend / 8;
        if upto == self.base && seen > upto && self.gaps <= now {
            self.gaps = now + quick / 8;
            let n_missing = usize::try_from(seen - upto).unwrap_or(usize::MAX).min(self.n_sent);
            let missing = (self.base..).zip(self.queue.iter().take(n_missing));
            let long_ago = missing.filter(|(_, message)| message.at + quick <= now);
            self.again.extend(long_ago.map(|(seq, _)| seq));
        }
    }

    fn progress(&mut self, now: Time) {
        self.waiting = if self.queue.is_empty() { None } else { Some(now) };
        if let Transport::Lossy(timing) = self.config.transport {
            self.resend = timing.resend;
        }
    }

    /// Notes that the other side asks for a sign of life.
    pub fn pinged(&mut self, now: Time) {
        (self.ack_due, self.asked) = (Some(now), true);
    }

    /// Passes the packets to send now to `out`.
    pub fn transmit(&mut self, now: Time, out: &mut impl FnMut(Body<M>)) {
        match self.config.transport {
            Transport::Reliable => self.transmit_once(out),
            Transport::Lossy(timing) => {
                self.mark_overdue(now, timing);
                self.transmit_again(now, out);
                self.transmit_new(now, out);
                self.ask_for_credit(now, timing, out);
            }
        }
        let allowed = self.released + self.config.window;
        let more_credit = allowed - self.advertised.min(allowed) >= self.config.window / 4;
        if more_credit || self.ack_due.is_some_and(|due| due <= now) {
            self.advertised = self.advertised.max(allowed);
            (self.n_unacknowledged, self.ack_due, self.asked) = (0, None, false);
            out(Body::Ack { upto: self.next, seen: self.seen, credit: self.advertised });
        }
    }

    fn transmit_once(&mut self, out: &mut impl FnMut(Body<M>)) {
        while self.may_send()
            && let Some(Outgoing { message, weight, .. }) = self.queue.pop_front()
        {
            self.queued -= weight;
            self.sent += weight;
            self.acked += 1;
            let seq = self.base;
            self.base += 1;
            out(Body::Data { seq, ack: self.next, message });
        }
        if self.queue.is_empty() {
            self.waiting = None;
        }
    }

    fn mark_overdue(&mut self, now: Time, timing: Timing) {
        let overdue = self.n_sent > 0
            && self.queue.front().is_some_and(|first| first.at + self.resend <= now);
        if overdue {
            self.again.extend(self.base..self.base + self.n_sent.min(BURST) as u64);
            self.resend = (self.resend * 2).min(timing.resend_max);
        }
    }

    fn transmit_again(&mut self, now: Time, out: &mut impl FnMut(Body<M>)) {
        for seq in std::mem::take(&mut self.again) {
            let place = seq.checked_sub(self.base).and_then(|place| usize::try_from(place).ok());
            let Some(message) = place.and_then(|place| self.queue.get_mut(place)) else { continue };
            message.at = now;
            out(Body::Data { seq, ack: self.next, message: message.message.clone() });
        }
    }

    fn transmit_new(&mut self, now: Time, out: &mut impl FnMut(Body<M>)) {
        while self.may_send()
            && let Some(message) = self.queue.get_mut(self.n_sent)
        {
            message.at = now;
            self.sent += message.weight;
            let body = Body::Data {
                seq: self.base + self.n_sent as u64,
                ack: self.next,
                message: message.message.clone(),
            };
            self.n_sent += 1;
            self.acknowledgement_sent();
            out(body);
        }
    }

    /// Asks for credit while no message is unacknowledged. Otherwise one lost packet with credit
    /// would stop the link for good.
    fn ask_for_credit(&mut self, now: Time, timing: Timing, out: &mut impl FnMut(Body<M>)) {
        if self.n_sent > 0 || self.queue.is_empty() {
            self.probe = None;
        } else if *self.probe.get_or_insert(now + timing.resend) <= now {
            self.resend = (self.resend * 2).min(timing.resend_max);
            self.probe = Some(now + self.resend);
            out(Body::Ping);
        }
    }

    /// Notes that data carries the acknowledgement. A gap and a question of the other side still
    /// need a packet of their own.
    fn acknowledgement_sent(&mut self) {
        self.n_unacknowledged = 0;
        if self.early.is_empty() && !self.asked {
            self.ack_due = None;
        }
    }

    /// When to call [`Link::transmit`], unless a packet arrives before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let again =
            self.queue.front().filter(|_| self.n_sent > 0).map(|first| first.at + self.resend);
        [again, self.probe, self.ack_due].into_iter().flatten().min()
    }
}
