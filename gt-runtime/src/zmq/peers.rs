//! The numbers of the peers that are connected to a gate, and their processes. Their routes tell
//! them apart.

use std::collections::BTreeMap;

use super::gate::Route;
use crate::identity::{Identity, is_running};
use crate::ids::PeerId;

/// The peers that are connected to a gate.
#[derive(Default)]
pub struct Peers {
    ids: BTreeMap<Route, PeerId>,
    routes: BTreeMap<PeerId, Route>,
    /// The processes of the peers on this machine.
    processes: BTreeMap<PeerId, u32>,
    next: u64,
}

impl Peers {
    /// The peer at the end of this route, and whether it is new.
    pub fn id(&mut self, route: Route) -> (PeerId, bool) {
        if let Some(&id) = self.ids.get(&route) {
            return (id, false);
        }
        self.next += 1;
        let id = PeerId(self.next);
        self.ids.insert(route, id);
        self.routes.insert(id, route);
        (id, true)
    }

    /// The peer at the end of this route, if it is known.
    #[must_use]
    pub fn find(&self, route: &Route) -> Option<PeerId> {
        self.ids.get(route).copied()
    }

    /// The route to a peer.
    #[must_use]
    pub fn route(&self, id: PeerId) -> Option<Route> {
        self.routes.get(&id).copied()
    }

    /// Notes the process of a peer, if it runs on this machine. A process that cannot be seen, such
    /// as one in a container, counts as elsewhere.
    pub fn introduce(&mut self, id: PeerId, identity: &Identity) {
        if self.routes.contains_key(&id) && identity.is_running_here() {
            self.processes.insert(id, identity.pid);
        }
    }

    /// Whether a peer's process on this machine has ended.
    #[must_use]
    pub fn has_ended(&self, id: PeerId) -> bool {
        self.processes.get(&id).is_some_and(|pid| !is_running(*pid))
    }

    /// Forgets a peer. Returns the route to it.
    pub fn forget(&mut self, id: PeerId) -> Option<Route> {
        self.processes.remove(&id);
        let route = self.routes.remove(&id)?;
        self.ids.remove(&route);
        Some(route)
    }
}
