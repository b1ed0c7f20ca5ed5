//! The numbers of the peers that are connected to a ROUTER. The keys in the names of their
//! connections tell them apart.

use std::collections::BTreeMap;

use super::uplink::Key;
use crate::ids::PeerId;

/// The peers that are connected to a ROUTER.
#[derive(Default)]
pub struct Peers {
    ids: BTreeMap<Key, PeerId>,
    keys: BTreeMap<PeerId, Key>,
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

    /// Forgets a peer.
    pub fn forget(&mut self, id: PeerId) {
        if let Some(key) = self.keys.remove(&id) {
            self.ids.remove(&key);
        }
    }
}
