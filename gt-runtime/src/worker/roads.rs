//! The sockets between workers: a gate at which others bring values, and an uplink to each worker
//! that gets values of this one; and the lanes beside them, which large pieces may take (`lanes`).
//! It decides nothing.
//!
//! A worker listens on the loopback interface if its server is on the same machine, else at an
//! address that its configuration names. Over tcp, values are encrypted. Both ends know the secret
//! of the door, which the server has told them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use zmq::Context;

use super::lanes::{Come, Fate, Lanes};
use super::siblings::Road;
use super::wanted::Wanted;
use crate::clock;
use crate::doors;
use crate::identity::machine;
use crate::wire::{Door, Packet};
use crate::zmq::{
    Address, Arrival, Bell, Entry, Exposure, Gate, Peers, Sent, Socket, SocketError, Uplink,
    UplinkError, Waker, Wakeups, wait,
};

/// The timeout of one attempt to reach another worker. It delays everything else that the worker
/// says, so it is short.
const PATIENCE: Duration = Duration::from_millis(300);

/// Where a worker listens for other workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address. Port 0 takes a free port.
    pub address: Address,
    /// Whether values are encrypted over tcp.
    pub exposure: Exposure,
}

impl Listen {
    /// The usual place for a worker of a server at this address.
    #[must_use]
    pub fn usual(server: &Address) -> Option<Listen> {
        let listen = || Listen { address: Address::local(0), exposure: Exposure::Sealed };
        server.is_loopback().then(listen)
    }
}

/// The sockets.
pub(super) struct Roads<'a> {
    ctx: &'a Context,
    gate: Option<Gate>,
    door: Option<Arc<Door>>,
    peers: Peers,
    uplinks: BTreeMap<Arc<Door>, Uplink>,
    lanes: Lanes,
    /// How other workers on this machine wake this one.
    bell: Bell,
}

/// Why a packet did not leave.
pub(super) enum Trouble {
    /// The other end cannot be reached now.
    Unreachable,
    /// There is no such road.
    Impassable,
}

impl<'a> Roads<'a> {
    /// Listens for other workers, if the worker is to listen. The threads of lanes wake `waker`,
    /// workers on this machine ring `bell`.
    pub(super) fn open(
        ctx: &'a Context,
        listen: Option<&Listen>,
        wanted: Wanted,
        (waker, bell): (Waker, Bell),
    ) -> Result<Self, SocketError> {
        let (gate, door) = match listen {
            Some(listen) => {
                let (gate, door) = listening(ctx, listen)?;
                (Some(gate.heard_by(bell)), Some(Arc::new(door)))
            }
            None => (None, None),
        };
        let lanes = Lanes::new(wanted, door.clone(), waker);
        Ok(Roads {
            ctx,
            gate,
            door,
            peers: Peers::default(),
            uplinks: BTreeMap::new(),
            lanes,
            bell,
        })
    }

    /// How other workers reach this one.
    pub(super) fn door(&self) -> Option<Arc<Door>> {
        self.door.clone()
    }

    /// Takes the next packet of another worker. Bytes that are no packet are dropped.
    pub(super) fn receive(&mut self) -> Result<Option<(Road, Packet)>, SocketError> {
        while let Some(come) = self.lanes.next() {
            match come {
                Come::Packet(road, packet) => return Ok(Some((road, packet))),
                // If it is lost, so is the lane, and sockets remain.
                Come::Say(road, packet) => drop(self.pass(&road, &packet)),
            }
        }
        while let Some((road, packet)) = self.arrived()? {
            if let Some(packet) = self.lanes.sort(&road, packet) {
                return Ok(Some((road, packet)));
            }
        }
        Ok(None)
    }

    /// Takes the next packet of the sockets.
    fn arrived(&mut self) -> Result<Option<(Road, Packet)>, SocketError> {
        let now = clock::now();
        while let Some(arrival) =
            self.gate.as_mut().map(|gate| gate.receive(now)).transpose()?.flatten()
        {
            if let Arrival::Packet(route, _, packet) = arrival {
                return Ok(Some((Road::From(self.peers.id(route).0), packet)));
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
        let by_file = match road {
            Road::To(door) => self.uplinks.get(door).is_some_and(Uplink::is_by_file),
            Road::From(_) => false,
        };
        match self.lanes.fate(road, packet, by_file) {
            Fate::Sockets => self.pass(road, packet),
            Fate::Underway => Ok(()),
            Fate::Over => Err(Trouble::Impassable),
            Fate::Instead(other) => {
                self.pass(road, &other)?;
                self.lanes.follow(road, packet);
                Ok(())
            }
        }
    }

    /// Sends a packet by the sockets.
    fn pass(&mut self, road: &Road, packet: &Packet) -> Result<(), Trouble> {
        let sent = match road {
            Road::To(door) => {
                if !self.uplinks.contains_key(door) {
                    let uplink = self.connect(door).ok_or(Trouble::Impassable)?;
                    self.uplinks.insert(Arc::clone(door), uplink);
                }
                self.uplinks.get(door).map(|uplink| uplink.send(packet).ok())
            }
            Road::From(peer) => {
                let to = self.gate.as_mut().zip(self.peers.route(*peer));
                to.map(|(gate, route)| {
                    let mut packet = packet.clone();
                    gate.complete(&route, &mut packet);
                    gate.send(&route, &packet).ok()
                })
            }
        };
        match sent.flatten() {
            Some(Sent::Queued) => Ok(()),
            Some(Sent::Full | Sent::NoPeer) | None => Err(Trouble::Unreachable),
        }
    }

    fn connect(&self, door: &Door) -> Option<Uplink> {
        let entry = if door.sealed { Entry::Secret(secret(&door.key)) } else { Entry::Plain };
        let uplink = Uplink::begin(self.ctx, &door.address.parse().ok()?, PATIENCE, &entry).ok()?;
        Some(uplink.heard_by(self.bell))
    }

    /// Closes a road.
    pub(super) fn close(&mut self, road: &Road) {
        self.lanes.forget(road);
        match road {
            Road::To(door) => drop(self.uplinks.remove(door)),
            Road::From(peer) => {
                let route = self.peers.forget(*peer);
                if let Some((gate, route)) = self.gate.as_mut().zip(route) {
                    gate.forget(&route);
                }
            }
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
        let sockets: Vec<&Socket> = server
            .sockets()
            .into_iter()
            .chain(self.gate.iter().flat_map(Gate::sockets))
            .chain(uplinks)
            .collect();
        wait(&sockets, wakeups, timeout)
    }
}

/// A gate for other workers, and the door that they see.
fn listening(ctx: &Context, listen: &Listen) -> Result<(Gate, Door), SocketError> {
    let Listen { address, exposure } = listen;
    let key = doors::random();
    let sealed = *exposure == Exposure::Sealed;
    let (gate, address) = match sealed {
        true => Gate::with_secret(ctx, address, secret(&key))?,
        false => Gate::listen(ctx, address, *exposure)?,
    };
    let local = address.is_loopback();
    // Others reach a worker that listens at all its addresses by the name of its machine.
    let host = if address.is_unspecified() { machine() } else { address.host.clone() };
    let address = Address { host, ..address }.to_string();
    Ok((gate, Door { address, local, sealed, key }))
}

/// The secret of a door's key, from which the keys of its connections are made.
fn secret(key: &[u8; 16]) -> [u8; 32] {
    doors::derive("gt road", key)
}
