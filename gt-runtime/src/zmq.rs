//! Sockets, in this module only: a thin safe layer over libzmq.
//!
//! A server binds a ROUTER for its socket file and one for tcp ([`gate`]). Each peer connects one
//! DEALER for control and one for bulk data. Each connection is a stream of its own, so a large
//! tensor never delays a control message. Sends never block: a full queue is reported, and the
//! reliable links above send again. Sockets belong to the thread that polls them, and other threads
//! wake it by a [`Waker`].
//!
//! It does not promise delivery, because libzmq loses messages when a connection breaks. It decodes
//! nothing.

mod address;
mod entry;
pub mod gate;
mod mailbox;
mod peers;
mod ring;
mod shared;
pub mod uplink;
mod wake;

pub use address::{Address, AddressError, ipc_endpoint, ipc_path};
pub use entry::Entry;
pub use gate::{Arrival, Exposure, Gate, Route, Way};
pub use peers::Peers;
pub use shared::Shared;
pub use uplink::{Uplink, UplinkError};
pub use wake::{Bell, Waker, Wakeups, wake_pair};

use std::cell::Cell;
use std::fmt;
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use ::zmq::{
    Context, DONTWAIT, Message as Frame, PollEvents, PollItem, SNDMORE, Socket as Raw, SocketType,
};
use bytes::Bytes;
use gt_ir::error::Hinted;

use crate::connection::WIDEST_WINDOW;
use crate::doors::{DoorError, KeyError};
use crate::wire::{MAX_HEAD, Message, Weight};

/// The most bytes of a frame. libzmq closes a connection that announces a larger frame before it
/// allocates memory.
pub const MAX_FRAME: i64 = MAX_HEAD as i64;
/// The most frames of a message, without the sender's name.
pub const MAX_FRAMES: usize = 8;
/// The most messages that libzmq queues for one connection. A connection that reaches this mark
/// stops reading, and libzmq then ends the process at some later events (an assertion on
/// `_io_error`). The credits of the links keep every peer below: the widest window in messages of
/// the least weight, and as much again for acknowledgements and messages sent again.
const HIGH_WATER: i32 = 1 << 20;
const _: () = assert!(2 * (WIDEST_WINDOW / <Message as Weight>::LEAST) <= HIGH_WATER as u64);
/// When the operating system asks a silent tcp peer for a sign of life, in seconds: first, then
/// how often, and how many times in vain. A connection whose other end is gone ends after a minute
/// and a half.
const KEEPALIVE: [i32; 3] = [30, 10, 6];

/// The version of libzmq, and whether it can authenticate and encrypt with CURVE.
#[must_use]
pub fn library() -> (String, bool) {
    let (major, minor, patch) = ::zmq::version();
    (format!("{major}.{minor}.{patch}"), ::zmq::has("curve") == Some(true))
}

/// The error of a socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The address is wrong.
    Address(#[from] AddressError),
    /// Another program listens at the address, or the address is not of this machine.
    Bind(Address, ::zmq::Error),
    /// A server could not be entered.
    Door(#[from] DoorError),
    /// libzmq refused.
    Zmq(#[from] ::zmq::Error),
    /// The operating system refused.
    Io(#[from] std::io::Error),
}

impl From<KeyError> for SocketError {
    fn from(why: KeyError) -> Self {
        SocketError::Door(why.into())
    }
}

impl Hinted for SocketError {
    fn message(&self) -> String {
        match self {
            SocketError::Address(why) => why.message(),
            SocketError::Bind(address, why) => {
                format!("cannot listen at {address}: {}", bind_reason(*why))
            }
            SocketError::Door(why) => why.message(),
            SocketError::Zmq(why) => format!("libzmq: {why}"),
            SocketError::Io(why) => why.to_string(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            SocketError::Address(why) => why.hint(),
            SocketError::Bind(_, ::zmq::Error::EADDRINUSE) => {
                Some("another server may be running there; choose another port with -p".into())
            }
            SocketError::Door(why) => why.hint(),
            SocketError::Bind(..) | SocketError::Zmq(_) | SocketError::Io(_) => None,
        }
    }
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// The outcome of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The message is queued for the peer. It may still be lost.
    Queued,
    /// The peer's queue is full.
    Full,
    /// No peer of this name is connected.
    NoPeer,
}

/// A received message.
#[derive(Debug)]
pub struct Incoming {
    /// The routing id of its connection. Empty on a DEALER, which has one peer.
    pub from: Bytes,
    /// Its frames. Large frames are libzmq's buffers, not copies.
    pub frames: Vec<Bytes>,
}

/// A ROUTER or DEALER with GT's options.
pub struct Socket {
    raw: Raw,
    role: Role,
    held: Option<PathBuf>,
    /// The descriptor that is readable when libzmq has news for this socket. libzmq may take the
    /// news while the socket sends or receives. It is then no longer readable, though messages may
    /// be there.
    fd: RawFd,
    /// Whether there may be a message.
    ready: Cell<bool>,
    /// Whether the socket has sent since it was last looked at.
    sent: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Router,
    Dealer,
}

/// A new libzmq context with one I/O thread.
#[must_use]
pub fn context() -> Context {
    Context::new()
}

impl Socket {
    /// A ROUTER that listens at `address` over tcp. Port 0 takes a free port. Returns the address
    /// with its port.
    pub fn listen(ctx: &Context, address: &Address) -> Result<(Socket, Address), SocketError> {
        let raw = router(ctx)?;
        raw.bind(&address.bind_endpoint()?).map_err(|e| SocketError::Bind(address.clone(), e))?;
        let bound = bound_port(&raw)
            .map_or_else(|| address.clone(), |port| Address { port, ..address.clone() });
        Ok((Socket::of(raw, Role::Router, None)?, bound))
    }

    /// A ROUTER that listens at a socket file.
    pub fn listen_at(ctx: &Context, path: PathBuf) -> Result<Socket, SocketError> {
        let raw = router(ctx)?;
        raw.bind(&ipc_endpoint(&path))?;
        Socket::of(raw, Role::Router, Some(path))
    }

    /// A DEALER that connects to `endpoint` under `name`. It queues nothing before it is connected.
    pub fn connect(ctx: &Context, endpoint: &str, name: &[u8]) -> Result<Socket, SocketError> {
        let raw = ctx.socket(SocketType::DEALER)?;
        common_options(&raw)?;
        raw.set_identity(name)?;
        raw.set_immediate(true)?;
        raw.set_reconnect_ivl(50)?;
        raw.set_reconnect_ivl_max(2_000)?;
        raw.set_connect_timeout(5_000)?;
        raw.connect(endpoint)?;
        Socket::of(raw, Role::Dealer, None)
    }

    fn of(raw: Raw, role: Role, held: Option<PathBuf>) -> Result<Socket, SocketError> {
        let (fd, ready, sent) = (raw.get_fd()?, Cell::new(true), Cell::new(false));
        Ok(Socket { raw, role, held, fd, ready, sent })
    }

    /// Sends a message without waiting: its head, and further frames. A DEALER ignores `to`.
    pub fn send(&self, to: &[u8], head: Vec<u8>, rest: &[&[u8]]) -> Result<Sent, SocketError> {
        self.sent.set(true);
        // libzmq checks for room only before the first frame of a message.
        let more = |n_left: usize| if n_left > 0 { DONTWAIT | SNDMORE } else { DONTWAIT };
        let named = if self.role == Role::Router { self.raw.send(to, more(1)) } else { Ok(()) };
        let sent = named.and_then(|()| self.raw.send(head, more(rest.len())));
        let sent = sent.and_then(|()| {
            let mut frames = (0..rest.len()).rev().zip(rest);
            frames.try_for_each(|(n_left, frame)| self.raw.send(*frame, more(n_left)))
        });
        match sent {
            Ok(()) => Ok(Sent::Queued),
            Err(::zmq::Error::EAGAIN | ::zmq::Error::EINTR) => Ok(Sent::Full),
            Err(::zmq::Error::EHOSTUNREACH) => Ok(Sent::NoPeer),
            Err(other) => Err(other.into()),
        }
    }

    /// Takes the next message. None if there is none, and from then on until the next [`wait`]. A
    /// message with too many frames is dropped.
    pub fn receive(&self) -> Result<Option<Incoming>, SocketError> {
        loop {
            let Some(mut frame) = self.receive_frame()? else { return Ok(None) };
            let mut incoming = Incoming { from: Bytes::new(), frames: Vec::with_capacity(2) };
            let mut named = self.role == Role::Dealer;
            loop {
                let more = frame.get_more();
                if !named {
                    incoming.from = Bytes::copy_from_slice(&frame);
                    named = true;
                } else if incoming.frames.len() <= MAX_FRAMES {
                    incoming.frames.push(own(frame));
                }
                if !more {
                    break;
                }
                // The frames of a message arrive together, so the next frame is there.
                match self.receive_frame()? {
                    Some(next) => frame = next,
                    None => break,
                }
            }
            if incoming.frames.len() <= MAX_FRAMES {
                return Ok(Some(incoming));
            }
        }
    }

    fn receive_frame(&self) -> Result<Option<Frame>, SocketError> {
        if !self.ready.get() {
            return Ok(None);
        }
        loop {
            match self.raw.recv_msg(DONTWAIT) {
                Ok(message) => return Ok(Some(message)),
                Err(::zmq::Error::EAGAIN) => {
                    // libzmq has taken all news, so the descriptor tells of the next.
                    self.ready.set(false);
                    self.sent.set(false);
                    return Ok(None);
                }
                Err(::zmq::Error::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Whether there may be a message, without a system call in most cases. If not, its descriptor
    /// becomes readable with the next.
    fn is_ready(&self) -> Result<bool, SocketError> {
        if !self.ready.get() && self.sent.replace(false) {
            self.ready.set(self.raw.get_events()?.contains(PollEvents::POLLIN));
        }
        Ok(self.ready.get())
    }

    /// Sets how long dropping the socket waits for queued messages to be sent.
    pub fn set_linger(&self, linger: Duration) -> Result<(), SocketError> {
        Ok(self.raw.set_linger(i32::try_from(linger.as_millis()).unwrap_or(i32::MAX))?)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(path) = &self.held {
            // If the file is gone or belongs to another server, nothing is left to do.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Waits until a socket has a message, a wake-up has come, or `timeout` has passed.
pub fn wait(
    sockets: &[&Socket],
    wakeups: &Wakeups,
    timeout: Option<Duration>,
) -> Result<(), SocketError> {
    // Asking libzmq to poll its sockets costs several system calls for each of them.
    let mut ready = false;
    for socket in sockets {
        ready |= socket.is_ready()?;
    }
    let fds = sockets.iter().map(|socket| socket.fd).chain([wakeups.as_raw_fd()]);
    let mut items: smallvec::SmallVec<[PollItem<'_>; 4]> =
        fds.map(|fd| PollItem::from_fd(fd, ::zmq::POLLIN)).collect();
    // Rounded up, so that the deadline has passed when the wait ends.
    let timeout =
        timeout.map_or(-1, |t| i64::try_from(t.as_micros().div_ceil(1000)).unwrap_or(i64::MAX));
    match ::zmq::poll(&mut items, if ready { 0 } else { timeout }) {
        Ok(_) | Err(::zmq::Error::EINTR) => {}
        Err(e) => return Err(e.into()),
    }
    for (socket, item) in sockets.iter().zip(&items) {
        socket.ready.set(socket.ready.get() || item.is_readable());
    }
    let readable = items.last().is_some_and(PollItem::is_readable);
    wakeups.clear(readable);
    Ok(())
}

fn common_options(raw: &Raw) -> Result<(), SocketError> {
    raw.set_sndhwm(HIGH_WATER)?;
    raw.set_rcvhwm(HIGH_WATER)?;
    raw.set_linger(0)?;
    raw.set_maxmsgsize(MAX_FRAME)?;
    // No heartbeats of libzmq: their timers run into the assertion above, and they would cut a
    // connection whose process is stopped for less than its lease. Connections have their own.
    raw.set_handshake_ivl(5_000)?;
    let [idle, interval, count] = KEEPALIVE;
    raw.set_tcp_keepalive(1)?;
    raw.set_tcp_keepalive_idle(idle)?;
    raw.set_tcp_keepalive_intvl(interval)?;
    raw.set_tcp_keepalive_cnt(count)?;
    raw.set_ipv6(true)?;
    Ok(())
}

fn router(ctx: &Context) -> Result<Raw, SocketError> {
    let raw = ctx.socket(SocketType::ROUTER)?;
    common_options(&raw)?;
    raw.set_router_mandatory(true)?;
    raw.set_router_handover(true)?;
    Ok(raw)
}

fn bind_reason(error: ::zmq::Error) -> String {
    match error {
        ::zmq::Error::EADDRINUSE => "the port is in use".into(),
        ::zmq::Error::EADDRNOTAVAIL | ::zmq::Error::ENODEV => {
            "the address does not belong to this machine".into()
        }
        other => other.to_string().to_lowercase(),
    }
}

fn bound_port(raw: &Raw) -> Option<u16> {
    let endpoint = raw.get_last_endpoint().ok()?.ok()?;
    endpoint.trim_end_matches('\0').rsplit_once(':')?.1.parse().ok()
}

/// A frame as `Bytes`. A small frame is a slice of libzmq's shared read buffer, so it is copied;
/// otherwise it would keep the buffer alive. A large frame is taken over without a copy.
fn own(frame: Frame) -> Bytes {
    struct Owner(Frame);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    if frame.len() <= 16 << 10 {
        Bytes::copy_from_slice(&frame)
    } else {
        Bytes::from_owner(Owner(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patient(sockets: &[&Socket], socket: &Socket) -> Incoming {
        let (_waker, wakeups) = wake_pair().unwrap();
        for _ in 0..50 {
            if let Some(incoming) = socket.receive().unwrap() {
                return incoming;
            }
            wait(sockets, &wakeups, Some(Duration::from_millis(100))).unwrap();
        }
        panic!("nothing came");
    }

    /// A DEALER refuses to send before it is connected.
    fn send(socket: &Socket, head: &[u8], rest: &[&[u8]]) {
        let (_waker, wakeups) = wake_pair().unwrap();
        for _ in 0..500 {
            if socket.send(&[], head.to_vec(), rest).unwrap() == Sent::Queued {
                return;
            }
            wait(&[], &wakeups, Some(Duration::from_millis(10))).unwrap();
        }
        panic!("never connected");
    }

    #[test]
    fn messages_go_both_ways_over_tcp_and_ipc() {
        let ctx = context();
        let (tcp, address) = Socket::listen(&ctx, &Address::local(0)).unwrap();
        let path = ipc_path(address.port).unwrap();
        let file = Socket::listen_at(&ctx, path).unwrap();
        let ipc = address.reachable_endpoint(Duration::from_secs(1)).unwrap();
        assert!(ipc.starts_with("ipc://"), "{ipc}");
        let ways = [(ipc, &file), (address.tcp_endpoint(), &tcp)];
        for (i, (endpoint, router)) in ways.iter().enumerate() {
            let name = [1, i as u8];
            let dealer = Socket::connect(&ctx, endpoint, &name).unwrap();
            let large = Bytes::from(vec![7; 1 << 20]);
            send(&dealer, b"head", &[&large]);
            let got = patient(&[router], router);
            assert_eq!((&got.from[..], &got.frames[0][..]), (&name[..], &b"head"[..]));
            assert_eq!(got.frames[1], large);
            assert_eq!(router.send(&got.from, b"back".to_vec(), &[]).unwrap(), Sent::Queued);
            assert_eq!(patient(&[&dealer], &dealer).frames, [Bytes::from_static(b"back")]);
        }
        assert_eq!(tcp.send(b"nobody", b"x".to_vec(), &[]).unwrap(), Sent::NoPeer);
    }

    #[test]
    fn too_many_frames_are_dropped_whole() {
        let ctx = context();
        let (router, address) = Socket::listen(&ctx, &Address::local(0)).unwrap();
        let dealer = Socket::connect(&ctx, &address.tcp_endpoint(), b"x").unwrap();
        send(&dealer, b"first", &[]);
        dealer.raw.send_multipart(vec![&b"many"[..]; 1000], 0).unwrap();
        send(&dealer, b"few", &[]);
        assert_eq!(patient(&[&router], &router).frames, [Bytes::from_static(b"first")]);
        assert_eq!(patient(&[&router], &router).frames, [Bytes::from_static(b"few")]);
    }

    #[test]
    fn a_taken_port_is_refused_and_an_address_of_the_machine_is_not() {
        let ctx = context();
        let (_held, address) = Socket::listen(&ctx, &Address::local(0)).unwrap();
        let again = Socket::listen(&ctx, &address).err().unwrap().to_string();
        assert!(
            again.starts_with(&format!("cannot listen at {address}: the port is in use")),
            "{again}"
        );
        let open = "0.0.0.0:0".parse().unwrap();
        assert!(Socket::listen(&ctx, &open).is_ok());
        // ZeroMQ binds to no names.
        let named = Address { host: crate::identity::machine(), port: 0 };
        if named.bind_endpoint().is_ok() {
            assert!(Socket::listen(&ctx, &named).is_ok());
        }
    }

    #[test]
    fn a_wake_up_ends_a_wait() {
        let (waker, wakeups) = wake_pair().unwrap();
        let other = waker.clone();
        std::thread::spawn(move || other.wake());
        wait(&[], &wakeups, None).unwrap();
        waker.wake();
        waker.wake();
        wait(&[], &wakeups, None).unwrap();
    }
}
