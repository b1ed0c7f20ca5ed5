//! The server's side of all connections over tcp.
//!
//! Guarantees: only a peer that has finished the handshake with an authorized key has a room, and
//! only the packets of a room are passed on. A handshake begins only while the second's allowance
//! lasts. Unfinished handshakes are few and short, and end after some seconds. Without a room, a
//! message above the size of a handshake is dropped unread. Nobody can end a room from outside.

use std::collections::BTreeMap;
use std::time::Duration;

use super::frame::{self, Kind, message};
use super::noise::{Handshake, MAX_MESSAGE, Name, Proof};
use super::seal::{Sealed, Seals};
use super::{Authorized, Pair, Pass, PublicKey, Roles};
use crate::allowance::Allowance;
use crate::clock::Time;
use crate::wire::Stream;
use crate::wire::codec::{Frames, WireError};

/// The most unfinished handshakes, and how long each may take.
const MAX_GREETED: usize = 1024;
const GREETING: Duration = Duration::from_secs(5);
/// The answers to strangers in a second. A begun handshake costs the server about 0.2 ms.
const ALLOWANCE: u32 = 500;
/// The most rooms, and the silence after which a room is given up.
const MAX_ROOMS: usize = 1 << 14;
const SILENCE: Duration = Duration::from_secs(120);
/// The silence after which a room may be given to another peer when all are taken.
const QUIET: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

/// What a peer must prove to enter.
pub enum Lock {
    /// That it has an authorized key.
    Keys(Pair, Authorized),
    /// That it knows a secret.
    Secret([u8; 32]),
}

/// What became of a message.
#[derive(Debug)]
pub enum Heard {
    /// A packet of a peer with a room.
    Packet(Pass, Frames),
    /// A message to send back on the same connection.
    Answer(Vec<u8>),
    /// As `Answer`, to a peer whose key is not authorized.
    Denied(Vec<u8>, PublicKey),
    /// A plain packet.
    Plain,
    /// Nothing is to be done.
    Nothing,
    /// The message was damaged.
    Damaged(WireError),
}

/// The server's side of all connections over tcp.
pub struct Host {
    lock: Lock,
    greeted: BTreeMap<Name, Greeted>,
    rooms: BTreeMap<Name, Room>,
    allowance: Allowance,
    swept: Time,
}

/// A handshake that waits for its third message.
struct Greeted {
    since: Time,
    first: Vec<u8>,
    answer: Vec<u8>,
    handshake: Handshake,
}

/// The state of a peer that has entered.
struct Room {
    seals: Seals,
    pass: Pass,
    key: Option<PublicKey>,
    /// The last message of the peer's handshake, and the answer, which may have got lost.
    last: Vec<u8>,
    answer: Vec<u8>,
    heard: Time,
}

impl Host {
    /// A host with this lock.
    #[must_use]
    pub fn new(lock: Lock) -> Host {
        let (greeted, rooms) = (BTreeMap::new(), BTreeMap::new());
        Host {
            lock,
            greeted,
            rooms,
            allowance: Allowance::new(ALLOWANCE, SECOND),
            swept: Time::ZERO,
        }
    }

    /// Takes a message of the connection of a stream, whose name holds the key.
    pub fn receive(
        &mut self,
        now: Time,
        stream: Stream,
        name: Name,
        sealed: impl Into<Sealed>,
    ) -> Heard {
        let sealed = sealed.into();
        self.sweep(now);
        if let Some(room) = self.rooms.get_mut(&name)
            && let Ok((Kind::Sealed, _)) = frame::parse(&sealed.head)
        {
            let Some(frames) = room.seals.open(stream, sealed) else { return Heard::Nothing };
            room.heard = now;
            return Heard::Packet(room.pass, frames);
        }
        if !frame::is_ours(&sealed.head) {
            return Heard::Plain;
        }
        match frame::parse(&sealed.head) {
            Err(error) => Heard::Damaged(error),
            Ok((Kind::Sealed, _)) => self.answer(now, || Some(message(Kind::Unknown, &[]))),
            Ok((_, content)) if content.len() > MAX_MESSAGE || stream == Stream::Bulk => {
                Heard::Nothing
            }
            Ok((Kind::First, content)) => self.first(now, name, content),
            Ok((Kind::Third, content)) => self.third(now, name, content),
            Ok((Kind::Second | Kind::Verdict | Kind::Unknown, _)) => Heard::Nothing,
        }
    }

    /// An answer to a stranger, while the second's allowance lasts.
    fn answer(&mut self, now: Time, make: impl FnOnce() -> Option<Vec<u8>>) -> Heard {
        match self.may_answer(now) {
            true => make().map_or(Heard::Nothing, Heard::Answer),
            false => Heard::Nothing,
        }
    }

    /// Whether a stranger may be answered; takes one of the second's answers.
    pub fn may_answer(&mut self, now: Time) -> bool {
        self.allowance.take(now)
    }

    /// Begins a handshake. A peer with a room has no reason to begin another one, so whoever does
    /// is somebody else.
    fn first(&mut self, now: Time, name: Name, content: &[u8]) -> Heard {
        if let Some(room) = self.rooms.get(&name) {
            let answer = (room.last == content).then(|| room.answer.clone());
            return self.answer(now, || answer);
        }
        if !self.may_answer(now) {
            return Heard::Nothing;
        }
        if let Some(known) = self.greeted.get(&name).filter(|known| known.first == content) {
            return Heard::Answer(known.answer.clone());
        }
        let (proof, last) = match &self.lock {
            Lock::Keys(pair, _) => (Proof::Keys(pair), false),
            Lock::Secret(secret) => (Proof::Secret(secret), true),
        };
        let Some(mut handshake) = Handshake::responder(proof, &name) else { return Heard::Nothing };
        let second = handshake.read(content).and_then(|()| handshake.write());
        let Some(second) = second else { return Heard::Nothing };
        let (answer, first) = (message(Kind::Second, &second), content.to_vec());
        if last {
            let Some(seals) = handshake.finish() else { return Heard::Nothing };
            let key = None;
            let room = Room {
                seals,
                pass: Pass::OWNER,
                key,
                last: first,
                answer: answer.clone(),
                heard: now,
            };
            return if self.enter(name, room) { Heard::Answer(answer) } else { Heard::Nothing };
        }
        if self.greeted.len() >= MAX_GREETED {
            let oldest = self.greeted.iter().min_by_key(|(_, known)| known.since);
            let oldest = oldest.map(|(&name, _)| name);
            oldest.and_then(|oldest| self.greeted.remove(&oldest));
        }
        let answered = answer.clone();
        self.greeted.insert(name, Greeted { since: now, first, answer, handshake });
        Heard::Answer(answered)
    }

    /// Ends a handshake: the peer has proved which key it has.
    fn third(&mut self, now: Time, name: Name, content: &[u8]) -> Heard {
        if let Some(room) = self.rooms.get(&name) {
            let answer = (room.last == content).then(|| room.answer.clone());
            return self.answer(now, || answer);
        }
        let Some(mut greeted) = self.greeted.remove(&name) else { return Heard::Nothing };
        if greeted.handshake.read(content).is_none() {
            // Somebody else sent it. The peer's own message may follow.
            self.greeted.insert(name, greeted);
            return Heard::Nothing;
        }
        let Some(key) = greeted.handshake.other() else { return Heard::Nothing };
        let Some(seals) = greeted.handshake.finish() else { return Heard::Nothing };
        let pass = match &self.lock {
            Lock::Keys(_, authorized) => authorized.pass(&key),
            Lock::Secret(_) => None,
        };
        let bits = pass.map_or(Roles::NONE, |pass| pass.roles).bits();
        let answer = message(Kind::Verdict, &seals.verdict(bits));
        let Some(pass) = pass else { return Heard::Denied(answer, key) };
        let (last, key) = (content.to_vec(), Some(key));
        let room = Room { seals, pass, key, last, answer: answer.clone(), heard: now };
        if self.enter(name, room) { Heard::Answer(answer) } else { Heard::Nothing }
    }

    /// Gives a peer a room, if there is one.
    fn enter(&mut self, name: Name, room: Room) -> bool {
        if self.rooms.len() >= MAX_ROOMS {
            let quiet = self.rooms.iter().min_by_key(|(_, known)| known.heard);
            let quiet = quiet.filter(|(_, known)| known.heard + QUIET <= room.heard);
            let Some((&quiet, _)) = quiet else { return false };
            self.rooms.remove(&quiet);
        }
        self.rooms.insert(name, room);
        true
    }

    /// Seals a packet for a peer. None if it has no room.
    pub fn seal(&mut self, stream: Stream, name: &Name, frames: &Frames) -> Option<Frames> {
        Some(self.rooms.get_mut(name)?.seals.seal(stream, frames))
    }

    /// Takes the keys that are authorized from now on. Returns the peers whose key has lost a role.
    pub fn replace(&mut self, authorized: Authorized) -> Vec<Name> {
        let changed =
            |room: &Room| room.key.and_then(|key| authorized.pass(&key)) != Some(room.pass);
        let rooms = self.rooms.iter().filter(|(_, room)| changed(room));
        let changed = rooms.map(|(&name, _)| name).collect();
        if let Lock::Keys(_, known) = &mut self.lock {
            *known = authorized;
        }
        changed
    }

    /// The authorized keys without those of the file.
    #[must_use]
    pub fn own(&self) -> Option<Authorized> {
        match &self.lock {
            Lock::Keys(pair, _) => Some(Authorized::new(pair.public(), Vec::new())),
            Lock::Secret(_) => None,
        }
    }

    /// Gives up the room of a peer.
    pub fn close(&mut self, name: &Name) {
        self.rooms.remove(name);
    }

    /// Gives up rooms and handshakes of which nothing was heard, once a second.
    fn sweep(&mut self, now: Time) {
        if now < self.swept + SECOND {
            return;
        }
        self.swept = now;
        self.greeted.retain(|_, known| now < known.since + GREETING);
        self.rooms.retain(|_, room| now < room.heard + SILENCE);
    }

    /// The numbers of rooms and of unfinished handshakes.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.rooms.len(), self.greeted.len())
    }
}
