//! The two sockets of the connecting side to one server: one for control, one for bulk data.
//!
//! Each is a stream of its own, so a large tensor never delays a control message. The server sees
//! two connections whose names share a random key. The first byte of a name distinguishes the
//! streams. Large payloads pass through shared memory if the server is on this machine and belongs
//! to the same user (`shared`).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use zmq::Context;

use super::key::{Key, random_key};
use super::shared::keep_whole;
use super::{Address, AddressError, Incoming, Sent, Shared, Socket, SocketError, Wakeups, wait};
use crate::clock;
use crate::wire::codec::{Frames, WireError, decode, encode};
use crate::wire::{Body, Hello, Packet, Stream};

/// The time between two attempts to reach a server that does not answer.
const RETRY: Duration = Duration::from_millis(50);

/// The two sockets that connect to one server.
pub struct Uplink {
    control: Socket,
    bulk: Socket,
    /// The memory that it offers, and shares once the server has agreed.
    shared: RefCell<Shared>,
    agreed: Cell<bool>,
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
        let here = endpoint.starts_with("ipc:");
        let shared = if here { Shared::offering() } else { Shared::default() };
        Ok(Uplink {
            control: socket(Stream::Control)?,
            bulk: socket(Stream::Bulk)?,
            shared: RefCell::new(shared),
            agreed: Cell::new(false),
        })
    }

    /// Sends a packet without waiting. A packet that cannot be queued is dropped, and its link
    /// sends it again.
    pub fn send(&self, packet: &Packet) -> Result<Sent, UplinkError> {
        let mut shared = self.shared.borrow_mut();
        let frames = match &packet.body {
            Body::Hello(hello) => {
                let body = Body::Hello(Hello { offer: shared.offer(), ..hello.clone() });
                encode(&Packet { body, ..*packet })?
            }
            _ => encode(packet)?,
        };
        let shared = self.agreed.get().then_some(&mut *shared);
        Ok(send(self.socket(packet.stream), &[], frames, shared)?)
    }

    /// Takes the next packet. None if there is none.
    pub fn receive(&self) -> Result<Option<Packet>, UplinkError> {
        for socket in [&self.control, &self.bulk] {
            if let Some(incoming) = socket.receive()? {
                let packet = packet(incoming, Some(&mut self.shared.borrow_mut()))?;
                if let Body::Welcome(welcome) = &packet.body {
                    self.agreed.set(welcome.shares);
                }
                return Ok(Some(packet));
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
pub fn packet(incoming: Incoming, shared: Option<&mut Shared>) -> Result<Packet, WireError> {
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gt_ir::{HostTensor, Shape, ValueId};

    use super::*;
    use crate::assembly::whole;
    use crate::identity::Identity;
    use crate::ids::Incarnation;
    use crate::wire::{FromClient, MAX_CHUNK, Message, Order, Role, Welcome};
    use crate::zmq::{Exposure, Peers, context, wake_pair};

    fn packet_of(stream: Stream, body: Body) -> Packet {
        Packet { stream, incarnation: Incarnation(1), body }
    }

    fn patient<T>(sockets: &[&Socket], mut take: impl FnMut() -> Option<T>) -> T {
        let (_waker, wakeups) = wake_pair().unwrap();
        for _ in 0..500 {
            if let Some(taken) = take() {
                return taken;
            }
            wait(sockets, &wakeups, Some(Duration::from_millis(10))).unwrap();
        }
        panic!("nothing came");
    }

    #[test]
    fn large_payloads_pass_through_memory_after_the_handshake() {
        let ctx = context();
        let (router, address) =
            Socket::listen(&ctx, &Address::local(0), Exposure::Loopback).unwrap();
        let uplink = Uplink::open(&ctx, &address, Duration::from_secs(5)).unwrap();
        let mut peers = Peers::default();
        let send = |packet: &Packet| {
            patient(&[], || (uplink.send(packet).unwrap() == Sent::Queued).then_some(()));
        };
        let received = || patient(&[&router], || router.receive().unwrap());
        let bytes = vec![7u8; MAX_CHUNK];
        let data = HostTensor::from_vec(bytes, Shape::new(&[MAX_CHUNK]).unwrap()).unwrap();
        let order = Order::Chunk(whole(ValueId(1), data));
        let message = Message::FromClient(FromClient::Order(order));
        let large = packet_of(Stream::Bulk, Body::Data { seq: 0, ack: 0, message });

        send(&large);
        assert_eq!(received().frames.len(), 2, "nothing is shared before the handshake");
        let hello = Hello::new(Role::Client, Identity::default());
        send(&packet_of(Stream::Control, Body::Hello(hello)));
        let incoming = received();
        let (name, key) = (incoming.from.clone(), key(&incoming.from).unwrap());
        let id = peers.id(key).0;
        peers.greet(id, &packet(incoming, None).unwrap());
        let welcome = Welcome { name: "s1".into(), accepted: 0, shares: false };
        let mut welcome = packet_of(Stream::Control, Body::Welcome(welcome));
        peers.answer(id, &mut welcome);
        super::send(&router, &name, encode(&welcome).unwrap(), None).unwrap();
        assert_eq!(patient(&uplink.sockets(), || uplink.receive().unwrap()), welcome);

        send(&large);
        let incoming = received();
        let sizes: Vec<usize> = incoming.frames.iter().map(Bytes::len).collect();
        assert!(matches!(sizes[..], [_, 0, 1..100]), "{sizes:?}");
        let got = packet(incoming, peers.shared(&key)).unwrap();
        assert_eq!(got, large);
        let name = super::name(Stream::Bulk, &key);
        super::send(&router, &name, encode(&got).unwrap(), peers.shared(&key)).unwrap();
        assert_eq!(patient(&uplink.sockets(), || uplink.receive().unwrap()), large);
    }

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
