//! The two sockets of the connecting side to one server: one for control, one for bulk data.
//!
//! Each is a stream of its own, so a large tensor never delays a control message. The server sees
//! two connections whose names share a random key. The first byte of a name distinguishes the
//! streams.

use std::time::Duration;

use zmq::Context;

use super::{Address, AddressError, Incoming, Sent, Socket, SocketError, Wakeups, wait};
use crate::clock;
use crate::wire::codec::{Frames, WireError, decode, encode};
use crate::wire::{Packet, Stream};

/// The time between two attempts to reach a server that does not answer.
const RETRY: Duration = Duration::from_millis(50);

/// The key of a peer, equal in the names of both connections.
pub type Key = [u8; 16];

/// The two sockets that connect to one server.
pub struct Uplink {
    control: Socket,
    bulk: Socket,
}

impl Uplink {
    /// Connects to the server at `address`, which must accept within `patience`.
    pub fn open(
        ctx: &Context,
        address: &Address,
        patience: Duration,
    ) -> Result<Uplink, SocketError> {
        let endpoint = endpoint(address, patience)?;
        let key = random_key();
        let socket = |stream| Socket::connect(ctx, &endpoint, &name(stream, &key));
        Ok(Uplink { control: socket(Stream::Control)?, bulk: socket(Stream::Bulk)? })
    }

    /// Sends a packet without waiting. A packet that cannot be queued is dropped, and its link
    /// sends it again.
    pub fn send(&self, packet: &Packet) -> Result<Sent, UplinkError> {
        let Frames { head, payload } = encode(packet)?;
        Ok(self.socket(packet.stream).send(&[], head, payload.as_deref())?)
    }

    /// Takes the next packet. None if there is none.
    pub fn receive(&self) -> Result<Option<Packet>, UplinkError> {
        for socket in [&self.control, &self.bulk] {
            if let Some(incoming) = socket.receive()? {
                return Ok(Some(packet(incoming)?));
            }
        }
        Ok(None)
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

/// Decodes a message as a packet.
pub fn packet(incoming: Incoming) -> Result<Packet, WireError> {
    let mut frames = incoming.frames.into_iter();
    let head = frames.next().ok_or_else(|| WireError::Damaged("it has no frame".into()))?;
    let payload = frames.next();
    if frames.next().is_some() {
        return Err(WireError::Damaged("it has too many frames".into()));
    }
    decode(&head, payload)
}

/// The name under which a stream of a peer connects.
#[must_use]
pub fn name(stream: Stream, key: &Key) -> [u8; 17] {
    let mut name = [0; 17];
    name[0] = tag(stream);
    name[1..].copy_from_slice(key);
    name
}

/// The peer's key in the name of one of its connections.
#[must_use]
pub fn key(name: &[u8]) -> Option<Key> {
    let (&first, key) = name.split_first()?;
    if first != tag(Stream::Control) && first != tag(Stream::Bulk) {
        return None;
    }
    key.try_into().ok()
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

/// Sixteen bytes that nobody can guess, because the hasher's keys are random.
#[must_use]
pub fn random_key() -> Key {
    use std::hash::{BuildHasher as _, RandomState};
    let half = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
    let mut key = [0; 16];
    key[..8].copy_from_slice(&half());
    key[8..].copy_from_slice(&half());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_the_key() {
        let (a, b) = (random_key(), random_key());
        assert_ne!(a, b);
        for stream in [Stream::Control, Stream::Bulk] {
            assert_eq!(key(&name(stream, &a)), Some(a));
        }
        for bad in [&b""[..], b"c", b"x0123456789abcdef", b"c0123456789abcdefg", b"\0\0\0\0\x05"] {
            assert_eq!(key(bad), None);
        }
    }
}
