//! The sockets between workers: one ROUTER at which others bring values, and an uplink to each
//! worker that gets values of this one. It decides nothing.
//!
//! A worker listens on the loopback interface if its server is on the same machine. Otherwise it
//! listens only at an address that its configuration names, because the network may not be trusted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use zmq::Context;

use super::siblings::Road;
use crate::identity::machine;
use crate::wire::codec::encode;
use crate::wire::{Door, Packet};
use crate::zmq::uplink;
use crate::zmq::{
    Address, Exposure, Peers, Sent, Socket, SocketError, Uplink, UplinkError, Wakeups, random_key,
    wait,
};

/// The timeout of one attempt to reach another worker. It delays everything else that the worker
/// says, so it is short.
const PATIENCE: Duration = Duration::from_millis(300);

/// Where a worker listens for other workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address. Port 0 takes a free port.
    pub address: Address,
    /// Whether other machines may reach it.
    pub exposure: Exposure,
}

impl Listen {
    /// The usual place for a worker of a server at this address.
    #[must_use]
    pub fn usual(server: &Address) -> Option<Listen> {
        let listen = || Listen { address: Address::local(0), exposure: Exposure::Loopback };
        server.is_loopback().then(listen)
    }
}

/// The sockets.
pub(super) struct Roads<'a> {
    ctx: &'a Context,
    router: Option<Socket>,
    door: Option<Arc<Door>>,
    peers: Peers,
    uplinks: BTreeMap<Arc<Door>, Uplink>,
}

/// Why a packet did not leave.
pub(super) enum Trouble {
    /// The other end cannot be reached now.
    Unreachable,
    /// There is no such road.
    Impassable,
}

impl<'a> Roads<'a> {
    /// Listens for other workers, if the worker is to listen.
    pub(super) fn open(ctx: &'a Context, listen: Option<&Listen>) -> Result<Self, SocketError> {
        let (peers, uplinks) = (Peers::default(), BTreeMap::new());
        let Some(Listen { address, exposure }) = listen else {
            return Ok(Roads { ctx, router: None, door: None, peers, uplinks });
        };
        let (router, address) = Socket::listen(ctx, address, *exposure)?;
        let local = address.is_loopback();
        // Others reach a worker that listens at all its addresses by the name of its machine.
        let host = if address.is_unspecified() { machine() } else { address.host.clone() };
        let address = Address { host, ..address }.to_string();
        let door = Door { address, local, key: random_key() };
        Ok(Roads { ctx, router: Some(router), door: Some(Arc::new(door)), peers, uplinks })
    }

    /// How other workers reach this one.
    pub(super) fn door(&self) -> Option<Arc<Door>> {
        self.door.clone()
    }

    /// Takes the next packet of another worker. Bytes that are no packet are dropped.
    pub(super) fn receive(&mut self) -> Result<Option<(Road, Packet)>, SocketError> {
        while let Some(incoming) = self.router.as_ref().map(Socket::receive).transpose()?.flatten()
        {
            let Some(key) = uplink::key(&incoming.from) else { continue };
            if let Ok(packet) = uplink::packet(incoming, self.peers.shared(&key)) {
                let (peer, _) = self.peers.id(key);
                self.peers.greet(peer, &packet);
                return Ok(Some((Road::From(peer), packet)));
            }
        }
        for (door, uplink) in &self.uplinks {
            match uplink.receive() {
                Ok(Some(packet)) => return Ok(Some((Road::To(Arc::clone(door)), packet))),
                Ok(None) | Err(UplinkError::Wire(_)) => {}
                Err(UplinkError::Socket(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Sends a packet without waiting. Opens the road if it is not open.
    pub(super) fn send(&mut self, road: &Road, packet: &Packet) -> Result<(), Trouble> {
        let sent = match road {
            Road::To(door) => {
                if !self.uplinks.contains_key(door) {
                    let uplink = self.connect(door).ok_or(Trouble::Impassable)?;
                    self.uplinks.insert(Arc::clone(door), uplink);
                }
                self.uplinks.get(door).map(|uplink| uplink.send(packet).ok())
            }
            Road::From(peer) => self.router.as_ref().zip(self.peers.key(*peer)).map(|(to, key)| {
                let mut packet = packet.clone();
                self.peers.answer(*peer, &mut packet);
                let frames = encode(&packet).ok()?;
                uplink::send(to, &uplink::name(packet.stream, &key), frames, None).ok()
            }),
        };
        match sent.flatten() {
            Some(Sent::Queued) => Ok(()),
            Some(Sent::Full | Sent::NoPeer) | None => Err(Trouble::Unreachable),
        }
    }

    fn connect(&self, door: &Door) -> Option<Uplink> {
        Uplink::open(self.ctx, &door.address.parse().ok()?, PATIENCE).ok()
    }

    /// Closes a road.
    pub(super) fn close(&mut self, road: &Road) {
        match road {
            Road::To(door) => drop(self.uplinks.remove(door)),
            Road::From(peer) => self.peers.forget(*peer),
        }
    }

    /// Waits until a packet has come on a road or from the server, a wake-up has come, or `timeout`
    /// has passed.
    pub(super) fn wait(
        &self,
        server: &Uplink,
        wakeups: &Wakeups,
        timeout: Option<Duration>,
    ) -> Result<(), SocketError> {
        let uplinks = self.uplinks.values().flat_map(Uplink::sockets);
        let sockets: Vec<&Socket> =
            server.sockets().into_iter().chain(&self.router).chain(uplinks).collect();
        wait(&sockets, wakeups, timeout)
    }
}
