//! A reliable, ordered link over a transport that loses, repeats and reorders: one direction's
//! sender and the other's receiver.
//!
//! Guarantees: every message is delivered once and in order, or not at all when the connection
//! ends; the weight sent but not yet released by the receiving side stays within its window and one
//! message; what arrives early is held within the same bound. Messages are numbered from 0;
//! acknowledgements are cumulative; a gap the receiver reports, or silence, makes the sender go
//! back. Over a [`Transport::Reliable`] nothing is kept or timed, only the credit remains. It knows
//! no peers and no clock.

#[cfg(test)]
mod tests;

use crate::clock::Time;
use crate::wire::{Body, Weight};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What a sender may send before it has heard of the receiver's window.
pub const FIRST_CREDIT: u64 = 4 << 10;
/// Messages sent again at once after a silence; the acknowledgement of these tells whether the rest
/// is missing too.
const BURST: usize = 32;
/// Messages that may come without an acknowledgement going back.
const ACK_EVERY: u32 = 16;
/// Early messages kept, whatever their weight.
const MAX_EARLY: u64 = 1 << 14;

/// What carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Packets may be lost, repeated and reordered.
    Lossy(Timing),
    /// Packets arrive once and in order, or the peer is gone: memory of one process.
    Reliable,
}

/// How patient a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Silence after which a message is sent again; doubled each time.
    pub resend: Duration,
    /// The longest such silence.
    pub resend_max: Duration,
    /// How long an acknowledgement may wait for data to travel with.
    pub ack: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let ms = Duration::from_millis;
        Timing { resend: ms(400), resend_max: ms(3000), ack: ms(10) }
    }
}

/// How one link works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// What carries it.
    pub transport: Transport,
    /// The weight the other side may send ahead of what is released here; at least
    /// [`FIRST_CREDIT`].
    pub window: u64,
}

/// One end of a link, for messages of type `M` both ways.
#[derive(Debug)]
pub struct Link<M> {
    config: LinkConfig,
    /// Messages from number `base` on: those sent and not acknowledged, then those not yet sent.
    queue: VecDeque<Outgoing<M>>,
    base: u64,
    /// How many of `queue` were sent at least once.
    n_sent: usize,
    /// Weight of everything in `queue`.
    queued: u64,
    /// Weight of everything ever sent first.
    sent: u64,
    /// What `sent` must stay below before another message goes.
    credit: u64,
    resend: Duration,
    /// When the other side last let us move on, while something is queued.
    waiting: Option<Time>,
    /// When a sender stopped by its credit next asks for more.
    probe: Option<Time>,
    /// Messages acknowledged and not yet asked for by [`Link::take_acked`].
    acked: usize,

    /// The next number to deliver.
    next: u64,
    /// One above the highest number that arrived.
    seen: u64,
    early: BTreeMap<u64, M>,
    early_weight: u64,
    /// Weight of everything delivered.
    delivered: u64,
    /// Weight of everything released.
    released: u64,
    /// The credit the other side was told last.
    advertised: u64,
    n_unacknowledged: u32,
    ack_due: Option<Time>,
    /// The other side asks for our word: an acknowledgement that travels with data has no credit in
    /// it, and is none.
    asked: bool,
}

#[derive(Debug)]
struct Outgoing<M> {
    message: M,
    weight: u64,
    /// When it was last sent; meaningless before that.
    at: Time,
    /// To be sent again at the next opportunity.
    again: bool,
}

impl<M: Clone + Weight> Link<M> {
    /// A link with nothing sent or received.
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
            sent: 0,
            credit: FIRST_CREDIT,
            resend,
            waiting: None,
            probe: None,
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

    /// Queues a message; [`Link::transmit`] sends it when the credit allows. Never refuses: look at
    /// [`Link::queued`] first.
    pub fn send(&mut self, now: Time, message: M) {
        let weight = message.weight();
        self.queued += weight;
        self.waiting.get_or_insert(now);
        self.queue.push_back(Outgoing { message, weight, at: Time::ZERO, again: false });
    }

    /// Weight of what was queued and is not acknowledged (over a reliable transport: not sent).
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// How many messages that is.
    #[must_use]
    pub fn n_queued(&self) -> usize {
        self.queue.len()
    }

    /// Weight of what was delivered here and not released yet.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.delivered - self.released
    }

    /// Since when something is queued without the other side acknowledging or allowing anything
    /// more.
    #[must_use]
    pub fn waiting(&self) -> Option<Time> {
        self.waiting
    }

    /// How many messages, oldest first, were acknowledged since last asked (over a reliable
    /// transport: sent).
    pub fn take_acked(&mut self) -> usize {
        std::mem::take(&mut self.acked)
    }

    /// How many messages were delivered here, in order.
    #[must_use]
    pub fn n_received(&self) -> u64 {
        self.next
    }

    /// Lets the other side send that much more: the delivered messages of this weight are dealt
    /// with.
    pub fn release(&mut self, weight: u64) {
        self.released = (self.released + weight).min(self.delivered);
    }

    /// Takes a message that arrived and delivers it, and those it was holding up, unless it came
    /// before.
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
            return; // Stale, or of messages never sent: nobody honest says that.
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

    /// Takes an acknowledgement of its own.
    pub fn credited(&mut self, now: Time, upto: u64, seen: u64, credit: u64) {
        self.acknowledged(now, upto);
        if credit > self.credit {
            self.credit = credit;
            self.probe = None;
            self.progress(now);
        }
        if upto == self.base && seen > upto {
            let quick = self.resend / 8;
            let n_missing = usize::try_from(seen - upto).unwrap_or(usize::MAX).min(self.n_sent);
            for message in
                self.queue.iter_mut().take(n_missing).filter(|message| message.at + quick <= now)
            {
                message.again = true;
            }
        }
    }

    fn progress(&mut self, now: Time) {
        self.waiting = if self.queue.is_empty() { None } else { Some(now) };
        if let Transport::Lossy(timing) = self.config.transport {
            self.resend = timing.resend;
        }
    }

    /// The other side asks for a sign of life.
    pub fn pinged(&mut self, now: Time) {
        (self.ack_due, self.asked) = (Some(now), true);
    }

    /// Hands out what is to be sent now.
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
        while self.sent < self.credit
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
            for message in self.queue.iter_mut().take(self.n_sent.min(BURST)) {
                message.again = true;
            }
            self.resend = (self.resend * 2).min(timing.resend_max);
        }
    }

    fn transmit_again(&mut self, now: Time, out: &mut impl FnMut(Body<M>)) {
        let (base, next) = (self.base, self.next);
        for (i, message) in
            self.queue.iter_mut().take(self.n_sent).enumerate().filter(|(_, message)| message.again)
        {
            (message.again, message.at) = (false, now);
            out(Body::Data { seq: base + i as u64, ack: next, message: message.message.clone() });
        }
    }

    fn transmit_new(&mut self, now: Time, out: &mut impl FnMut(Body<M>)) {
        while self.sent < self.credit
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

    /// With nothing under way, a lost credit would stop the link for good.
    fn ask_for_credit(&mut self, now: Time, timing: Timing, out: &mut impl FnMut(Body<M>)) {
        if self.n_sent > 0 || self.queue.is_empty() {
            self.probe = None;
        } else if *self.probe.get_or_insert(now + timing.resend) <= now {
            self.resend = (self.resend * 2).min(timing.resend_max);
            self.probe = Some(now + self.resend);
            out(Body::Ping);
        }
    }

    /// An acknowledgement goes with what is sent now; a gap needs one of its own, and so does a
    /// question.
    fn acknowledgement_sent(&mut self) {
        self.n_unacknowledged = 0;
        if self.early.is_empty() && !self.asked {
            self.ack_due = None;
        }
    }

    /// When [`Link::transmit`] has something to do, if nothing arrives before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let again =
            self.queue.front().filter(|_| self.n_sent > 0).map(|first| first.at + self.resend);
        [again, self.probe, self.ack_due].into_iter().flatten().min()
    }
}
