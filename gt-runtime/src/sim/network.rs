//! The network of a simulation: packets on their way, in order of their arrival.

use super::Random;
use crate::clock::Time;
use crate::ids::{Incarnation, PeerId};
use crate::wire::{Packet, codec};
use std::collections::BTreeMap;
use std::time::Duration;

/// The direction of a packet of a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Way {
    ToDispatcher,
    FromDispatcher,
    /// To the door of a worker, from the worker at this address.
    ToSibling(PeerId),
    /// Back to the worker that came to the door of the worker at this address, in this life.
    FromSibling(PeerId, Incarnation),
}

/// The faults of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// The percentage of packets lost.
    pub(super) lost: u64,
    /// The percentage of packets repeated.
    pub(super) repeated: u64,
    /// The most microseconds that a packet takes.
    pub(super) delay: u64,
    /// Whether packets of one route stay in order, and none is lost or repeated.
    pub(super) reliable: bool,
    /// The most packets on their way on one route. What is sent above this mark is dropped, as
    /// libzmq does.
    pub(super) mark: usize,
}

#[derive(Debug)]
pub(super) struct Network {
    pub(super) weather: Weather,
    flight: BTreeMap<(Time, u64), (Way, PeerId, Packet)>,
    last: BTreeMap<(Way, PeerId), Time>,
    /// The number of packets on their way on each route.
    on_way: BTreeMap<(Way, PeerId), usize>,
    n_packets: u64,
    /// The packets that were dropped at the mark.
    pub(super) n_full: u64,
}

impl Network {
    pub(super) fn new(weather: Weather) -> Network {
        Network {
            weather,
            flight: BTreeMap::new(),
            last: BTreeMap::new(),
            on_way: BTreeMap::new(),
            n_packets: 0,
            n_full: 0,
        }
    }

    /// Sends a packet. Says whether the route had room for it.
    pub(super) fn send(
        &mut self,
        now: Time,
        random: &mut Random,
        way: Way,
        peer: PeerId,
        packet: Packet,
    ) -> bool {
        let weather = self.weather;
        if weather.reliable {
            let earliest = self.last.get(&(way, peer)).copied().unwrap_or_default().max(now);
            let at = earliest + Duration::from_micros(random.below(weather.delay));
            self.last.insert((way, peer), at);
            self.put(at, way, peer, packet);
            return true;
        }
        if self.on_way.get(&(way, peer)).is_some_and(|&n| n >= weather.mark) {
            self.n_full += 1;
            return false;
        }
        let n_copies = if random.percent(weather.lost) {
            0
        } else {
            1 + u64::from(random.percent(weather.repeated))
        };
        for _ in 0..n_copies {
            // Most are quick and some are very late, so that they meet another state than they were
            // sent for.
            let late = if random.percent(3) { 40 } else { 1 };
            let at = now + Duration::from_micros(50 + random.below(weather.delay * late));
            // Packets travel as bytes, so that errors of the encoding are found too.
            let frames = codec::encode(&packet).expect("senders keep to the limits");
            let copy =
                codec::decode(&frames.head, frames.payload).expect("an encoded packet decodes");
            assert_eq!(copy, packet);
            self.put(at, way, peer, copy);
        }
        true
    }

    fn put(&mut self, at: Time, way: Way, peer: PeerId, packet: Packet) {
        self.n_packets += 1;
        *self.on_way.entry((way, peer)).or_default() += 1;
        self.flight.insert((at, self.n_packets), (way, peer, packet));
    }

    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.flight.first_key_value().map(|(&(at, _), _)| at)
    }

    pub(super) fn take_arrived(&mut self, now: Time) -> Option<(Way, PeerId, Packet)> {
        let first = self.flight.first_entry().filter(|first| first.key().0 <= now)?;
        let (way, peer, packet) = first.remove();
        self.on_way.entry((way, peer)).and_modify(|n| *n -= 1);
        Some((way, peer, packet))
    }

    /// Removes the packets of a process that is gone.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.flight.retain(|_, (_, other, _)| *other != peer);
        self.on_way.retain(|(_, other), _| *other != peer);
    }
}
