//! The numbers of the peers that are connected to a ROUTER, and their processes. The keys in the
//! names of their connections tell them apart.

use std::collections::BTreeMap;

use super::Shared;
use super::key::Key;
use crate::identity::{Identity, is_running};
use crate::ids::PeerId;
use crate::wire::{Body, Packet};

/// The peers that are connected to a ROUTER.
#[derive(Default)]
pub struct Peers {
    ids: BTreeMap<Key, PeerId>,
    keys: BTreeMap<PeerId, Key>,
    shared: BTreeMap<PeerId, Shared>,
    /// The processes of the peers on this machine.
    processes: BTreeMap<PeerId, u32>,
    next: u64,
}

impl Peers {
    /// The peer of this key, and whether it is new.
    pub fn id(&mut self, key: Key) -> (PeerId, bool) {
        if let Some(&id) = self.ids.get(&key) {
            return (id, false);
        }
        self.next += 1;
        let id = PeerId(self.next);
        self.ids.insert(key, id);
        self.keys.insert(id, key);
        (id, true)
    }

    /// The key of a peer.
    #[must_use]
    pub fn key(&self, id: PeerId) -> Option<Key> {
        self.keys.get(&id).copied()
    }

    /// The memory that is shared with the peer of this key.
    pub fn shared(&mut self, key: &Key) -> Option<&mut Shared> {
        self.shared.get_mut(self.ids.get(key)?)
    }

    /// Shares memory with a peer whose hello offers some, if it can be opened.
    pub fn greet(&mut self, id: PeerId, packet: &Packet) {
        if let Body::Hello(hello) = &packet.body
            && let Some(offer) = hello.offer
            && !self.shared.contains_key(&id)
        {
            self.shared.extend(Shared::accepting(offer).map(|shared| (id, shared)));
        }
    }

    /// A packet for a peer. A welcome tells whether memory is shared.
    pub fn answer(&self, id: PeerId, packet: &mut Packet) {
        if let Body::Welcome(welcome) = &mut packet.body {
            welcome.shares = self.shared.contains_key(&id);
        }
    }

    /// Notes the process of a peer, if it runs on this machine. A process that cannot be seen, such
    /// as one in a container, counts as elsewhere.
    pub fn introduce(&mut self, id: PeerId, identity: &Identity) {
        if self.keys.contains_key(&id) && identity.is_running_here() {
            self.processes.insert(id, identity.pid);
        }
    }

    /// Whether a peer's process on this machine has ended.
    #[must_use]
    pub fn has_ended(&self, id: PeerId) -> bool {
        self.processes.get(&id).is_some_and(|pid| !is_running(*pid))
    }

    /// Forgets a peer.
    pub fn forget(&mut self, id: PeerId) {
        self.shared.remove(&id);
        self.processes.remove(&id);
        if let Some(key) = self.keys.remove(&id) {
            self.ids.remove(&key);
        }
    }
}
