//! The two sockets of the connecting side to one server: one for control, one for bulk data.
//!
//! Each is a stream of its own, so a large tensor never delays a control message. The server sees
//! two connections whose names share a random key. The first byte of a name distinguishes the
//! streams. Over a socket file large payloads and small messages pass through shared memory
//! (`shared`), over tcp all packets are encrypted (`doors`).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use zmq::Context;

use super::entry::Entry;
use super::shared::keep_whole;
use super::{
    Address, AddressError, Bell, Incoming, Sent, Shared, Socket, SocketError, Wakeups, wait,
    wake_pair,
};
use crate::clock::{self, Time};
use crate::doors::{DoorError, Guest, Name, Sealed, random};
use crate::wire::codec::{Frames, WireError, decode, encode};
use crate::wire::{Body, Hello, Packet, Stream};

/// The time between two attempts to reach a server that does not answer.
const RETRY: Duration = Duration::from_millis(50);

/// The two sockets that connect to one server.
pub struct Uplink {
    control: Socket,
    bulk: Socket,
    /// The lock of the connection over tcp, unless it is not encrypted.
    sealed: Option<RefCell<Locked>>,
    /// The memory that it shares with the server.
    shared: RefCell<Shared>,
    /// Whether it connects to a socket file.
    by_file: bool,
    /// Whether the memory is looked at first next, so that neither it nor the sockets starve.
    memory_first: Cell<bool>,
}

/// The state of an encrypted connection.
struct Locked {
    guest: Guest,
    /// The last hello that was sent before the server let this side in.
    hello: Option<Packet>,
}

impl Uplink {
    /// Connects to the server at `address`, which must accept within `patience`. It must let this
    /// side in within `patience`, too, or within [`Address::patience`] on another machine.
    pub fn open(
        ctx: &Context,
        address: &Address,
        patience: Duration,
        entry: &Entry,
    ) -> Result<Uplink, SocketError> {
        let began = clock::now();
        let uplink = Uplink::begin(ctx, address, patience, entry)?;
        uplink.enter(address, began + address.patience(patience))?;
        Ok(uplink)
    }

    /// As `open`, without waiting to be let in. Packets before that are dropped, but a hello is
    /// sent then.
    pub fn begin(
        ctx: &Context,
        address: &Address,
        patience: Duration,
        entry: &Entry,
    ) -> Result<Uplink, SocketError> {
        let endpoint = endpoint(address, patience)?;
        let key = random();
        // The operating system has authenticated both ends of a socket file.
        let trust = if endpoint.starts_with("tcp:") { entry.trust(address)? } else { None };
        let guest = trust.map(|trust| Guest::new(address.to_string(), &key, trust));
        let sealed = guest.map(|guest| RefCell::new(Locked { guest, hello: None }));
        let socket = |stream| Socket::connect(ctx, &endpoint, &name(stream, &key));
        let by_file = endpoint.starts_with("ipc:");
        let shared = if by_file { Shared::offering() } else { Shared::default() };
        Ok(Uplink {
            control: socket(Stream::Control)?,
            bulk: socket(Stream::Bulk)?,
            sealed,
            shared: RefCell::new(shared),
            by_file,
            memory_first: Cell::new(true),
        })
    }

    /// Tells peers by which pipe to wake the thread that receives here. Without it, small messages
    /// come by sockets only.
    #[must_use]
    pub fn heard_by(self, bell: Bell) -> Uplink {
        let shared = self.shared.take().with_bell(bell);
        Uplink { shared: RefCell::new(shared), ..self }
    }

    /// Whether it connects to a socket file.
    pub(crate) fn is_by_file(&self) -> bool {
        self.by_file
    }

    /// Waits until the server has let this side in.
    fn enter(&self, address: &Address, end: Time) -> Result<(), SocketError> {
        let Some(sealed) = &self.sealed else { return Ok(()) };
        let (_waker, wakeups) = wake_pair()?;
        loop {
            let now = clock::now();
            self.knock(now)?;
            while let Some(incoming) = self.control.receive()? {
                if let Ok(message) = frames(incoming) {
                    sealed.borrow_mut().guest.receive(Stream::Control, message);
                }
            }
            let guest = &sealed.borrow().guest;
            if guest.is_open() {
                return Ok(());
            }
            if let Some(why) = guest.error() {
                return Err(why.clone().into());
            }
            if now >= end {
                return Err(DoorError::Silent(address.to_string()).into());
            }
            let due = guest.next_deadline().map_or(end, |next| next.min(end));
            wait(&[&self.control], &wakeups, Some(due.saturating_sub(now)))?;
        }
    }

    /// Sends the message of the handshake that is due.
    fn knock(&self, now: Time) -> Result<(), SocketError> {
        let Some(sealed) = &self.sealed else { return Ok(()) };
        let guest = &mut sealed.borrow_mut().guest;
        if let Some(message) = guest.due(now) {
            let sent = self.control.send(&[], message, &[])?;
            guest.sent(now, sent == Sent::Queued);
        }
        Ok(())
    }

    /// Sends a packet without waiting. A packet that cannot be queued is dropped, and its link
    /// sends it again.
    pub fn send(&self, packet: &Packet) -> Result<Sent, UplinkError> {
        let Some(sealed) = &self.sealed else { return self.send_plain(packet) };
        let frames = encode(packet)?;
        self.knock(clock::now())?;
        let mut locked = sealed.borrow_mut();
        if locked.guest.take_disowned() {
            return Ok(Sent::NoPeer);
        }
        match locked.guest.seal(packet.stream, &frames) {
            Some(frames) => Ok(send(self.socket(packet.stream), &[], frames, None)?),
            None => {
                if matches!(packet.body, Body::Hello(_)) {
                    locked.hello = Some(packet.clone());
                }
                Ok(Sent::Full)
            }
        }
    }

    fn send_plain(&self, packet: &Packet) -> Result<Sent, UplinkError> {
        let mut shared = self.shared.borrow_mut();
        let frames = match &packet.body {
            Body::Hello(hello) => {
                let body = Body::Hello(Box::new(Hello { offer: shared.offer(), ..*hello.clone() }));
                encode(&Packet { body, ..*packet })?
            }
            _ => encode(packet)?,
        };
        if matches!(packet.body, Body::Data { .. }) && shared.put(&frames) {
            return Ok(Sent::Queued);
        }
        Ok(send(self.socket(packet.stream), &[], frames, Some(&mut shared))?)
    }

    /// Takes the next packet. None if there is none.
    pub fn receive(&self) -> Result<Option<Packet>, UplinkError> {
        let memory_first = self.memory_first.get();
        self.memory_first.set(!memory_first);
        let first = if memory_first { self.letter()? } else { self.incoming()? };
        match first {
            Some(packet) => Ok(Some(packet)),
            None if memory_first => self.incoming(),
            None => self.letter(),
        }
    }

    /// Takes the next packet out of the memory.
    fn letter(&self) -> Result<Option<Packet>, UplinkError> {
        let letter = self.shared.borrow_mut().take()?;
        Ok(letter.map(|Frames { head, payload }| decode(&head, payload)).transpose()?)
    }

    /// Takes the next packet of the sockets.
    fn incoming(&self) -> Result<Option<Packet>, UplinkError> {
        for stream in [Stream::Control, Stream::Bulk] {
            while let Some(incoming) = self.socket(stream).receive()? {
                let Some(sealed) = &self.sealed else { return self.plain(incoming).map(Some) };
                let was_open = sealed.borrow().guest.is_open();
                let opened = sealed.borrow_mut().guest.receive(stream, frames(incoming)?);
                if let Some(Frames { head, payload }) = opened {
                    return Ok(Some(decode(&head, payload)?));
                }
                if !was_open {
                    self.entered()?;
                }
            }
        }
        Ok(None)
    }

    /// A packet of a connection without encryption.
    fn plain(&self, incoming: Incoming) -> Result<Packet, UplinkError> {
        let mut shared = self.shared.borrow_mut();
        let packet = packet(incoming, Some(&shared))?;
        if let Body::Welcome(welcome) = &packet.body
            && let Some(offer) = welcome.offer
        {
            shared.open(offer);
        }
        Ok(packet)
    }

    /// Goes on with the handshake, and sends the hello that waits for its end.
    fn entered(&self) -> Result<(), UplinkError> {
        self.knock(clock::now())?;
        let hello = self.sealed.as_ref().and_then(|sealed| {
            let mut locked = sealed.borrow_mut();
            if locked.guest.is_open() { locked.hello.take() } else { None }
        });
        hello.map_or(Ok(()), |hello| self.send(&hello).map(drop))
    }

    /// Waits until a packet has come, a wake-up has come, or `timeout` has passed.
    pub fn wait(&self, wakeups: &Wakeups, timeout: Option<Duration>) -> Result<(), SocketError> {
        wait(&self.sockets(), wakeups, timeout)
    }

    /// Its sockets, to wait for several uplinks at once.
    #[must_use]
    pub fn sockets(&self) -> [&Socket; 2] {
        [&self.control, &self.bulk]
    }

    /// Sets how long dropping the uplink waits for queued packets to be sent.
    pub fn set_linger(&self, linger: Duration) -> Result<(), SocketError> {
        self.control.set_linger(linger)?;
        self.bulk.set_linger(linger)
    }

    /// The number of blocks of its memory that have been used.
    #[cfg(test)]
    pub(super) fn n_blocks(&self) -> usize {
        self.shared.borrow().n_blocks()
    }

    fn socket(&self, stream: Stream) -> &Socket {
        match stream {
            Stream::Control => &self.control,
            Stream::Bulk => &self.bulk,
        }
    }
}

/// Why a packet could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum UplinkError {
    /// The sockets failed.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The bytes are not a packet, or the packet is over a limit.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Sends a packet's frames. A payload in shared memory is an empty frame and a ticket.
pub fn send(
    socket: &Socket,
    to: &[u8],
    Frames { head, payload }: Frames,
    shared: Option<&mut Shared>,
) -> Result<Sent, SocketError> {
    let Some(payload) = payload else { return socket.send(to, head, &[]) };
    let Some(lent) = shared.and_then(|shared| shared.lend(&payload)) else {
        return socket.send(to, head, &[&payload]);
    };
    let sent = socket.send(to, head, &[&[], &lent.ticket])?;
    if sent != Sent::Queued {
        lent.take_back();
    }
    Ok(sent)
}

/// Decodes a message as a packet, whose sender may share memory.
pub fn packet(incoming: Incoming, shared: Option<&Shared>) -> Result<Packet, WireError> {
    let mut frames = incoming.frames.into_iter();
    let head = frames.next().ok_or_else(|| WireError::Damaged("it has no frame".into()))?;
    match (frames.next(), frames.next(), frames.next()) {
        (payload, None, _) => decode(&head, payload),
        (Some(empty), Some(ticket), None) if empty.is_empty() => {
            let shared = shared.ok_or_else(|| WireError::Damaged("it shares no memory".into()))?;
            let mut packet = decode(&head, Some(shared.borrow(&ticket)?))?;
            keep_whole(&mut packet);
            Ok(packet)
        }
        _ => Err(WireError::Damaged("it has too many frames".into())),
    }
}

/// The frames of a message, which has one or two.
pub fn frames(incoming: Incoming) -> Result<Sealed, WireError> {
    let mut frames = incoming.frames.into_iter();
    let head = frames.next().ok_or_else(|| WireError::Damaged("it has no frame".into()))?;
    let payload = frames.next();
    match frames.next() {
        Some(_) => Err(WireError::Damaged("it has too many frames".into())),
        None => Ok(Sealed { head, payload }),
    }
}

/// The name under which a stream of a peer connects.
#[must_use]
pub fn name(stream: Stream, key: &Name) -> [u8; 17] {
    let mut name = [0; 17];
    name[0] = tag(stream);
    name[1..].copy_from_slice(key);
    name
}

/// The stream and the peer's key in the name of one of its connections.
#[must_use]
pub fn parse_name(name: &[u8]) -> Option<(Stream, Name)> {
    let (&first, key) = name.split_first()?;
    let stream = [Stream::Control, Stream::Bulk].into_iter().find(|stream| tag(*stream) == first);
    stream.zip(key.try_into().ok())
}

// Names that begin with 0 belong to libzmq.
fn tag(stream: Stream) -> u8 {
    match stream {
        Stream::Control => b'c',
        Stream::Bulk => b'b',
    }
}

fn endpoint(address: &Address, patience: Duration) -> Result<String, AddressError> {
    let end = clock::now() + patience;
    loop {
        match address.reachable_endpoint(end.saturating_sub(clock::now())) {
            Err(AddressError::NoServer(..)) if clock::now() + RETRY < end => {
                std::thread::sleep(RETRY)
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_the_key() {
        let (a, b): (Name, Name) = (random(), random());
        assert_ne!(a, b);
        for stream in [Stream::Control, Stream::Bulk] {
            assert_eq!(parse_name(&name(stream, &a)), Some((stream, a)));
        }
        for bad in [&b""[..], b"c", b"x0123456789abcdef", b"c0123456789abcdefg", b"\0\0\0\0\x05"] {
            assert_eq!(parse_name(bad), None);
        }
    }
}
