//! The connecting side over tcp: the handshake with one server, and the seals that it agrees on.
//!
//! It repeats the message of the handshake that is not answered. It sends its own key only to a
//! server whose key it trusts, and packets only after the server has let it in.

use std::time::Duration;

use super::frame::{self, Kind, message};
use super::noise::{Handshake, Name, Proof};
use super::seal::{Sealed, Seals};
use super::{DoorError, Pair, PublicKey};
use crate::clock::Time;
use crate::wire::Stream;
use crate::wire::codec::{Frames, WireError, decode};
use crate::wire::{Body, Refusal};

/// The time until a message that was sent is sent again, and until one that could not be sent is
/// tried again first.
const REPEAT: Duration = Duration::from_millis(300);
const RETRY: Duration = Duration::from_millis(1);
const MAX_RETRY: Duration = Duration::from_millis(100);

/// What a guest brings to the door, and whom it trusts.
pub enum Trust {
    /// A key of its own, and the keys that the server may have. The own key is trusted: whoever has
    /// it is the same user.
    Keys(Pair, Vec<PublicKey>),
    /// A secret that both know.
    Secret([u8; 32]),
}

/// The connecting side of one connection.
pub struct Guest {
    address: String,
    trust: Trust,
    phase: Phase,
    /// The message of the handshake that waits for an answer.
    message: Vec<u8>,
    next: Time,
    retry: Duration,
    /// The server has said that it has no room for this guest. Anyone could have said so.
    disowned: bool,
}

enum Phase {
    Greeting(Box<Handshake>),
    Waiting(Box<Seals>),
    Open(Box<Seals>),
    Over(DoorError),
}

impl Guest {
    /// A guest of the server at an address, by the connections whose names hold this key.
    #[must_use]
    pub fn new(address: String, name: &Name, trust: Trust) -> Guest {
        let proof = match &trust {
            Trust::Keys(pair, _) => Proof::Keys(pair),
            Trust::Secret(secret) => Proof::Secret(secret),
        };
        let mut handshake = Handshake::initiator(proof, name);
        let first = handshake.as_mut().and_then(Handshake::write);
        let (phase, message) = match handshake.zip(first) {
            Some((handshake, first)) => {
                (Phase::Greeting(Box::new(handshake)), message(Kind::First, &first))
            }
            None => (Phase::Over(DoorError::Silent(address.clone())), Vec::new()),
        };
        let (next, retry) = (Time::ZERO, RETRY);
        Guest { address, trust, phase, message, next, retry, disowned: false }
    }

    /// Whether packets can be sealed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// Why it was not let in, if so.
    #[must_use]
    pub fn error(&self) -> Option<&DoorError> {
        if let Phase::Over(why) = &self.phase { Some(why) } else { None }
    }

    /// When the handshake's message is to be sent.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        matches!(self.phase, Phase::Greeting(_) | Phase::Waiting(_)).then_some(self.next)
    }

    /// The message to send now, if one is due. The caller says by [`Guest::sent`] whether it left.
    #[must_use]
    pub fn due(&self, now: Time) -> Option<Vec<u8>> {
        self.next_deadline().filter(|next| *next <= now).map(|_| self.message.clone())
    }

    /// Notes whether the message that was due could be queued.
    pub fn sent(&mut self, now: Time, queued: bool) {
        self.next = now + if queued { REPEAT } else { self.retry };
        self.retry = (self.retry * 2).min(MAX_RETRY);
    }

    /// Takes a message of the server. Returns the packet in it, if there is one.
    pub fn receive(&mut self, stream: Stream, sealed: impl Into<Sealed>) -> Option<Frames> {
        let sealed = sealed.into();
        let (kind, content) = match frame::parse(&sealed.head) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.plain(&sealed, error);
                return None;
            }
        };
        match kind {
            Kind::Sealed => {
                let Phase::Open(seals) = &mut self.phase else { return None };
                let opened = seals.open(stream, sealed);
                self.disowned &= opened.is_none();
                return opened;
            }
            Kind::Second => self.second(content),
            Kind::Verdict => self.verdict(content),
            Kind::Unknown => self.disowned = self.is_open(),
            Kind::First | Kind::Third => {}
        }
        None
    }

    /// Takes a message that is not encrypted. It decides nothing about an open connection.
    fn plain(&mut self, frames: &Sealed, error: WireError) {
        if self.is_open() {
            return;
        }
        let address = self.address.clone();
        let refused = decode(&frames.head, None).map(|packet| packet.body);
        self.phase = Phase::Over(match refused {
            Ok(Body::Refused(Refusal::Plain)) => DoorError::Plain(address),
            Err(why) => DoorError::Wire(address, why),
            Ok(_) => DoorError::Wire(address, error),
        });
    }

    /// The server has proved which key it has.
    fn second(&mut self, content: &[u8]) {
        let Phase::Greeting(handshake) = &mut self.phase else { return };
        if handshake.read(content).is_none() {
            // Whoever sent it does not know what the server knows.
            return;
        }
        let over = || DoorError::Silent(self.address.clone());
        let trusted = |key: &PublicKey| match &self.trust {
            Trust::Keys(pair, servers) => *key == pair.public() || servers.contains(key),
            Trust::Secret(_) => false,
        };
        let other = handshake.other();
        let stranger = other.filter(|key| !trusted(key));
        let third = if other.is_some() && stranger.is_none() { handshake.write() } else { None };
        let phase = std::mem::replace(&mut self.phase, Phase::Over(over()));
        let Phase::Greeting(handshake) = phase else { return };
        if let Some(key) = stranger {
            self.phase = Phase::Over(DoorError::UnknownServer(self.address.clone(), key));
            return;
        }
        let Some(seals) = handshake.finish().map(Box::new) else { return };
        match third {
            Some(third) => {
                (self.message, self.next) = (message(Kind::Third, &third), Time::ZERO);
                self.phase = Phase::Waiting(seals);
            }
            None => self.phase = Phase::Open(seals),
        }
    }

    /// The server has said whether it lets this guest in.
    fn verdict(&mut self, content: &[u8]) {
        let Phase::Waiting(seals) = &self.phase else { return };
        let Some(bits) = seals.read_verdict(content) else { return };
        let denied = match &self.trust {
            Trust::Keys(pair, _) if bits == 0 => {
                DoorError::Denied(self.address.clone(), pair.public())
            }
            Trust::Keys(..) | Trust::Secret(_) => DoorError::Silent(self.address.clone()),
        };
        let phase = std::mem::replace(&mut self.phase, Phase::Over(denied));
        if let Phase::Waiting(seals) = phase
            && bits != 0
        {
            self.phase = Phase::Open(seals);
        }
    }

    /// Seals a packet. None before the server has let this guest in.
    pub fn seal(&mut self, stream: Stream, frames: &Frames) -> Option<Frames> {
        let Phase::Open(seals) = &mut self.phase else { return None };
        Some(seals.seal(stream, frames))
    }

    /// Whether the server has disowned this guest since the last call.
    pub fn take_disowned(&mut self) -> bool {
        std::mem::take(&mut self.disowned)
    }
}
