//! The listening side: one ROUTER for the socket file and one for tcp, and the lock between tcp and
//! everything else.
//!
//! A packet comes out with a [`Route`], which says by which of the two it came, and with a
//! [`Pass`]. Whoever came by the socket file is the user of this process. Over tcp the [`Host`]
//! decides. The file of authorized keys is read again when it changes. Nothing here decides what a
//! peer may do.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use zmq::Context;

use super::uplink;
use super::{
    Address, Bell, Incoming, Sent, Shared, Socket, SocketError, UplinkError, Wakeups, ipc_path,
    wait,
};
use crate::clock::Time;
use crate::doors::{Heard, Host, KeyError, KeyFolder, Lock, Name, Pass, Stamp};
use crate::ids::Incarnation;
use crate::wire::codec::{Frames, WireError, encode};
use crate::wire::{Body, PROTOCOL, Packet, Refusal, Stream};

/// The time between two looks at the file of authorized keys.
const LOOK: Duration = Duration::from_secs(1);

/// Whether connections over tcp are encrypted and authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exposure {
    /// They are, loopback included.
    #[default]
    Sealed,
    /// They are not: everyone who can reach the port may do everything.
    Insecure,
}

/// By which socket a peer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The socket file.
    File,
    /// Tcp.
    Tcp,
}

/// The way to a peer: its socket, and the key in the names of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// By which socket it came.
    pub way: Way,
    /// The key in the names of its connections.
    pub key: Name,
}

/// Something that arrived.
#[derive(Debug)]
pub enum Arrival {
    /// A packet.
    Packet(Route, Pass, Packet),
    /// News for users.
    News(String),
    /// Bytes that are no packet.
    Damaged(WireError),
    /// A message that the gate has handled.
    Handled,
}

/// The sockets of a listening side.
pub struct Gate {
    file: Option<Socket>,
    tcp: Socket,
    door: Door,
    /// The memory that is shared with peers at the socket file.
    shared: BTreeMap<Name, Shared>,
    /// The peers in whose memory small messages may be.
    letters: VecDeque<Name>,
    /// By which pipe peers at the socket file tell of small messages.
    bell: Option<Bell>,
    /// The source that is looked at first next, so that none starves the others.
    first: usize,
}

/// Where packets come from.
#[derive(Clone, Copy)]
enum Source {
    Socket(Way),
    Memory,
}

impl Source {
    const ALL: [Source; 3] = [Source::Memory, Source::Socket(Way::File), Source::Socket(Way::Tcp)];
}

/// What stands between tcp and the packets.
enum Door {
    /// Nothing.
    Open,
    /// A host, and the file of its keys.
    Locked(Box<Host>, Option<Watched>),
    /// Nobody enters, because there is no key. The reason is told once.
    Shut(Option<String>),
}

impl Door {
    /// What whoever comes by the socket file may do: it is the user of this process.
    fn pass_by_file(&self) -> Pass {
        match self {
            Door::Open => Pass::ANYONE,
            Door::Locked(..) | Door::Shut(_) => Pass::OWNER,
        }
    }
}

/// The file of authorized keys.
struct Watched {
    folder: KeyFolder,
    stamp: Stamp,
    looked: Time,
}

impl Gate {
    /// Listens at `address` over tcp, and, at a loopback address, over a socket file too. Port 0
    /// takes a free port. Returns the address with its port.
    ///
    /// # Errors
    /// A socket cannot listen there, or there is no key although other machines can reach the
    /// address.
    pub fn listen(
        ctx: &Context,
        address: &Address,
        exposure: Exposure,
    ) -> Result<(Gate, Address), SocketError> {
        let door = match exposure {
            Exposure::Insecure => Door::Open,
            Exposure::Sealed => match locked() {
                Ok(door) => door,
                Err(why) if address.is_loopback() => {
                    Door::Shut(Some(format!("programs can connect by the socket file only: {why}")))
                }
                Err(why) => return Err(why.into()),
            },
        };
        Gate::with(ctx, address, door)
    }

    /// As `listen`, for peers that know a secret.
    ///
    /// # Errors
    /// A socket cannot listen there.
    pub fn with_secret(
        ctx: &Context,
        address: &Address,
        secret: [u8; 32],
    ) -> Result<(Gate, Address), SocketError> {
        let host = Box::new(Host::new(Lock::Secret(secret)));
        Gate::with(ctx, address, Door::Locked(host, None))
    }

    fn with(ctx: &Context, address: &Address, door: Door) -> Result<(Gate, Address), SocketError> {
        // tcp comes first, because libzmq would silently replace the socket file of a running
        // server.
        let (tcp, bound) = Socket::listen(ctx, address)?;
        let path = if bound.is_loopback() { ipc_path(bound.port) } else { None };
        // On a full disk, or a file system without sockets, clients use tcp.
        let file = path.and_then(|path| Socket::listen_at(ctx, path).ok());
        let (shared, letters) = (BTreeMap::new(), VecDeque::new());
        Ok((Gate { file, tcp, door, shared, letters, bell: None, first: 0 }, bound))
    }

    /// Tells peers by which pipe to wake the thread that receives here. Without it, small messages
    /// come by sockets only.
    #[must_use]
    pub fn heard_by(self, bell: Bell) -> Gate {
        Gate { bell: Some(bell), ..self }
    }

    /// Takes the next message. None if there is none.
    ///
    /// # Errors
    /// The sockets failed.
    pub fn receive(&mut self, now: Time) -> Result<Option<Arrival>, SocketError> {
        if let Door::Shut(why) = &mut self.door
            && let Some(why) = why.take()
        {
            return Ok(Some(Arrival::News(why)));
        }
        for turn in 0..Source::ALL.len() {
            let at = (self.first + turn) % Source::ALL.len();
            let arrival = match Source::ALL[at] {
                Source::Memory => self.letter(),
                Source::Socket(way) => {
                    let incoming = self.socket(way).map(Socket::receive).transpose()?.flatten();
                    incoming.map(|incoming| self.arrived(now, way, incoming)).transpose()?
                }
            };
            if arrival.is_some() {
                self.first = at + 1;
                return Ok(arrival);
            }
        }
        Ok(None)
    }

    /// Takes the next small message out of the memory of a peer. Peers take turns.
    fn letter(&mut self) -> Option<Arrival> {
        if self.letters.is_empty() {
            self.letters.extend(self.shared.keys());
        }
        while let Some(key) = self.letters.pop_front() {
            let Some(shared) = self.shared.get_mut(&key) else { continue };
            match shared.take() {
                Ok(None) => {}
                Ok(Some(frames)) => {
                    self.letters.push_back(key);
                    let route = Route { way: Way::File, key };
                    return Some(decoded(route, self.door.pass_by_file(), frames));
                }
                Err(error) => return Some(Arrival::Damaged(error)),
            }
        }
        None
    }

    fn socket(&self, way: Way) -> Option<&Socket> {
        match way {
            Way::File => self.file.as_ref(),
            Way::Tcp => Some(&self.tcp),
        }
    }

    fn arrived(&mut self, now: Time, way: Way, incoming: Incoming) -> Result<Arrival, SocketError> {
        let from = incoming.from.clone();
        let Some((stream, key)) = uplink::parse_name(&from) else {
            return Ok(Arrival::Damaged(WireError::Damaged("its sender has no name".into())));
        };
        let route = Route { way, key };
        match (&mut self.door, way) {
            (Door::Open, Way::Tcp) if incoming.frames.first().is_some_and(|h| is_sealed(h)) => {
                self.answer(&from, Incarnation(0), Refusal::Plain)
            }
            (Door::Open, Way::Tcp) => self.plain(route, Pass::ANYONE, incoming),
            (door, Way::File) => {
                let pass = door.pass_by_file();
                self.plain(route, pass, incoming)
            }
            (Door::Shut(_), Way::Tcp) => Ok(Arrival::Handled),
            (Door::Locked(host, _), Way::Tcp) => {
                let sealed = match uplink::frames(incoming) {
                    Ok(sealed) => sealed,
                    Err(error) => return Ok(Arrival::Damaged(error)),
                };
                let head = sealed.head.clone();
                match host.receive(now, stream, key, sealed) {
                    Heard::Packet(pass, frames) => Ok(decoded(route, pass, frames)),
                    Heard::Answer(answer) => self.send_raw(&from, answer),
                    Heard::Denied(answer, key) => {
                        self.send_raw(&from, answer)?;
                        let print = key.fingerprint();
                        Ok(Arrival::News(format!(
                            "a program with the unknown key {key} ({print}) was refused"
                        )))
                    }
                    Heard::Plain if host.may_answer(now) => {
                        self.plain_at_locked(&from, head.get(..HEAD).unwrap_or(&head))
                    }
                    Heard::Plain | Heard::Nothing => Ok(Arrival::Handled),
                    Heard::Damaged(error) => Ok(self.damaged(now, &from, error)),
                }
            }
        }
    }

    /// A packet of a connection without encryption.
    fn plain(
        &mut self,
        route: Route,
        pass: Pass,
        incoming: Incoming,
    ) -> Result<Arrival, SocketError> {
        let from = incoming.from.clone();
        let shared = match route.way {
            Way::File => self.shared.get(&route.key),
            Way::Tcp => None,
        };
        match uplink::packet(incoming, shared) {
            Ok(packet) => {
                self.greet(&route, &packet);
                Ok(Arrival::Packet(route, pass, packet))
            }
            Err(error) => {
                self.refuse_version(route.way, &from, &error);
                Ok(Arrival::Damaged(error))
            }
        }
    }

    /// Shares memory with a peer whose hello offers some, if it can be opened.
    fn greet(&mut self, from: &Route, packet: &Packet) {
        if let (Body::Hello(hello), Way::File) = (&packet.body, from.way)
            && let Some(offer) = hello.offer
        {
            let offering = || match self.bell {
                Some(bell) => Shared::offering().with_bell(bell),
                None => Shared::offering(),
            };
            self.shared.entry(from.key).or_insert_with(offering).open(offer);
        }
    }

    /// Offers memory in a welcome, if its peer has offered some.
    pub fn complete(&self, to: &Route, packet: &mut Packet) {
        if let (Body::Welcome(welcome), Way::File) = (&mut packet.body, to.way) {
            welcome.offer = self.shared.get(&to.key).and_then(Shared::offer);
        }
    }

    /// Gives up the memory that is shared with a peer.
    pub fn forget(&mut self, route: &Route) {
        if route.way == Way::File {
            self.shared.remove(&route.key);
        }
    }

    /// A plain packet where only sealed ones are taken: says so, or that its version is another
    /// one.
    fn plain_at_locked(&mut self, from: &[u8], head: &[u8]) -> Result<Arrival, SocketError> {
        match crate::wire::codec::decode(head, None) {
            Err(error @ (WireError::Version { .. } | WireError::Magic(_))) => {
                self.refuse_version(Way::Tcp, from, &error);
                Ok(Arrival::Damaged(error))
            }
            Err(_) => self.answer(from, Incarnation(0), Refusal::Encrypted),
            Ok(packet) => self.answer(from, packet.incarnation, Refusal::Encrypted),
        }
    }

    fn damaged(&mut self, now: Time, from: &[u8], error: WireError) -> Arrival {
        if let Door::Locked(host, _) = &mut self.door
            && host.may_answer(now)
        {
            self.refuse_version(Way::Tcp, from, &error);
        }
        Arrival::Damaged(error)
    }

    fn answer(
        &self,
        to: &[u8],
        incarnation: Incarnation,
        refusal: Refusal,
    ) -> Result<Arrival, SocketError> {
        match encode(&refused(incarnation, refusal)) {
            Ok(Frames { head, .. }) => self.send_raw(to, head),
            Err(_) => Ok(Arrival::Handled),
        }
    }

    fn send_raw(&self, to: &[u8], head: Vec<u8>) -> Result<Arrival, SocketError> {
        // The peer asks again if the answer cannot be sent.
        self.tcp.send(to, head, &[])?;
        Ok(Arrival::Handled)
    }

    /// Refuses a packet of another version. Its sender cannot decode the refusal, but finds the
    /// version in the first bytes.
    fn refuse_version(&self, way: Way, to: &[u8], error: &WireError) {
        let WireError::Version { theirs, .. } = error else { return };
        let refusal = Refusal::Protocol { ours: PROTOCOL, theirs: *theirs };
        if let (Ok(Frames { head, .. }), Some(socket)) =
            (encode(&refused(Incarnation(0), refusal)), self.socket(way))
        {
            // A refusal that cannot be sent is dropped.
            let _ = socket.send(to, head, &[]);
        }
    }

    /// Sends a packet without waiting.
    ///
    /// # Errors
    /// The sockets failed, or the packet is over a limit.
    pub fn send(&mut self, to: &Route, packet: &Packet) -> Result<Sent, UplinkError> {
        let (frames, stream) = (encode(packet)?, packet.stream);
        let shared = self.shared.get(&to.key).filter(|_| to.way == Way::File);
        if matches!(packet.body, Body::Data { .. }) && shared.is_some_and(|s| s.put(&frames)) {
            return Ok(Sent::Queued);
        }
        Ok(self.send_frames(to, stream, frames)?)
    }

    fn send_frames(
        &mut self,
        to: &Route,
        stream: Stream,
        frames: Frames,
    ) -> Result<Sent, SocketError> {
        let frames = match (&mut self.door, to.way) {
            (Door::Locked(host, _), Way::Tcp) => match host.seal(stream, &to.key, &frames) {
                Some(sealed) => sealed,
                None => return Ok(Sent::NoPeer),
            },
            _ => frames,
        };
        let name = uplink::name(stream, &to.key);
        match (&self.file, to.way) {
            (_, Way::Tcp) => uplink::send(&self.tcp, &name, frames, None),
            (Some(file), Way::File) => {
                uplink::send(file, &name, frames, self.shared.get_mut(&to.key))
            }
            (None, Way::File) => Ok(Sent::NoPeer),
        }
    }

    /// Reads the authorized keys again if their file has changed. Returns the peers whose key has
    /// lost a role, and news for users. [`Gate::close`] these peers once they are told.
    pub fn revoked(&mut self, now: Time) -> (Vec<Route>, Option<String>) {
        let Door::Locked(host, Some(watched)) = &mut self.door else { return (Vec::new(), None) };
        if now < watched.looked + LOOK {
            return (Vec::new(), None);
        }
        watched.looked = now;
        let stamp = watched.folder.stamp();
        if stamp == watched.stamp {
            return (Vec::new(), None);
        }
        watched.stamp = stamp;
        let (known, news) = match watched.folder.authorized() {
            Ok(known) => (known, "the authorized keys were read again".to_owned()),
            // A file that cannot be read authorizes nobody.
            Err(why) => match host.own() {
                Some(own) => (own, format!("no other user's key is authorized: {why}")),
                None => return (Vec::new(), None),
            },
        };
        let gone = host.replace(known).into_iter();
        (gone.map(|key| Route { way: Way::Tcp, key }).collect(), Some(news))
    }

    /// Ends the connection of a peer whose key was revoked.
    pub fn close(&mut self, route: &Route) {
        if let (Door::Locked(host, _), Way::Tcp) = (&mut self.door, route.way) {
            host.close(&route.key);
        }
    }

    /// Its sockets, to wait for them.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.file.iter().chain([&self.tcp])
    }

    /// Waits until a message has come, a wake-up has come, or `timeout` has passed.
    ///
    /// # Errors
    /// The sockets failed.
    pub fn wait(&self, wakeups: &Wakeups, timeout: Option<Duration>) -> Result<(), SocketError> {
        let sockets: smallvec::SmallVec<[&Socket; 2]> = self.sockets().collect();
        wait(&sockets, wakeups, timeout)
    }

    /// Sets how long dropping the sockets waits for queued messages to be sent.
    ///
    /// # Errors
    /// libzmq refused.
    pub fn set_linger(&self, linger: Duration) -> Result<(), SocketError> {
        self.sockets().try_for_each(|socket| socket.set_linger(linger))
    }

    /// Takes a message and drops it. Says whether there was one.
    ///
    /// # Errors
    /// The sockets failed.
    pub fn drain(&self) -> Result<bool, SocketError> {
        for socket in self.sockets() {
            if socket.receive()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The most bytes of a plain packet that are looked at where only sealed ones are taken.
const HEAD: usize = 4 << 10;

/// The door of this user's keys.
fn locked() -> Result<Door, KeyError> {
    let folder = KeyFolder::of_user()?;
    let stamp = folder.stamp();
    let host = Host::new(Lock::Keys(folder.own()?, folder.authorized()?));
    let watched = Watched { folder, stamp, looked: Time::ZERO };
    Ok(Door::Locked(Box::new(host), Some(watched)))
}

fn is_sealed(head: &[u8]) -> bool {
    head.starts_with(b"GS")
}

fn refused(incarnation: Incarnation, refusal: Refusal) -> Packet {
    Packet { stream: Stream::Control, incarnation, body: Body::Refused(refusal) }
}

fn decoded(route: Route, pass: Pass, frames: Frames) -> Arrival {
    match crate::wire::codec::decode(&frames.head, frames.payload) {
        Ok(packet) => Arrival::Packet(route, pass, packet),
        Err(error) => Arrival::Damaged(error),
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::{HostTensor, Shape, ValueId};

    use super::*;
    use crate::assembly::whole;
    use crate::clock;
    use crate::identity::Identity;
    use crate::wire::{FromClient, Hello, MAX_CHUNK, Message, Order, Role, Welcome};
    use crate::zmq::{Entry, Uplink, context, wake_pair};

    fn packet_of(stream: Stream, body: Body) -> Packet {
        Packet { stream, incarnation: Incarnation(1), body }
    }

    /// Tries until there is something.
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

    fn received(gate: &mut Gate) -> (Route, Packet) {
        let (_waker, wakeups) = wake_pair().unwrap();
        for _ in 0..500 {
            if let Some(Arrival::Packet(route, _, packet)) = gate.receive(clock::now()).unwrap() {
                return (route, packet);
            }
            gate.wait(&wakeups, Some(Duration::from_millis(10))).unwrap();
        }
        panic!("nothing came");
    }

    #[test]
    fn large_payloads_pass_through_memory_after_the_handshake() {
        let (ctx, patience) = (context(), Duration::from_secs(5));
        let (mut gate, address) =
            Gate::listen(&ctx, &Address::local(0), Exposure::Insecure).unwrap();
        let uplink = Uplink::open(&ctx, &address, patience, &Entry::Plain).unwrap();
        let send = |packet: &Packet| {
            patient(&[], || (uplink.send(packet).unwrap() == Sent::Queued).then_some(()));
        };
        let data = HostTensor::from_vec(vec![7u8; MAX_CHUNK], Shape::new(&[MAX_CHUNK]).unwrap());
        let order = Order::Chunk(whole(ValueId(1), data.unwrap()));
        let message = Message::FromClient(FromClient::Order(order));
        let large = packet_of(Stream::Bulk, Body::Data { seq: 0, ack: 0, message });

        send(&large);
        let (route, got) = received(&mut gate);
        assert_eq!((got == large, uplink.n_blocks(), route.way), (true, 0, Way::File));
        let hello = Hello::new(Role::Client, Identity::default());
        send(&packet_of(Stream::Control, Body::Hello(Box::new(hello))));
        received(&mut gate);
        let welcome = Welcome { name: "s1".into(), accepted: 0, offer: None };
        let mut welcome = packet_of(Stream::Control, Body::Welcome(Box::new(welcome)));
        gate.complete(&route, &mut welcome);
        gate.send(&route, &welcome).unwrap();
        assert_eq!(patient(&uplink.sockets(), || uplink.receive().unwrap()), welcome);

        send(&large);
        assert_eq!((received(&mut gate).1 == large, uplink.n_blocks()), (true, 1));
        gate.send(&route, &large).unwrap();
        assert_eq!(patient(&uplink.sockets(), || uplink.receive().unwrap()), large);
        assert_eq!(gate.shared.values().map(Shared::n_blocks).collect::<Vec<_>>(), [1]);
        gate.forget(&route);
        assert!(gate.shared.is_empty());
    }
}
