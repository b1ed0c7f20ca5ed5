//! What workers should hold when nothing is under way, for the simulation. A worker that holds more
//! has a leak.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::ValueId;

use super::Dispatcher;
use super::gang::Gang;
use super::session::Session;
use crate::ids::{PeerId, SessionId};

/// What a worker holds of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Holding {
    pub(crate) values: BTreeSet<ValueId>,
    pub(crate) templates: BTreeSet<u32>,
    /// Data of inputs that no segment has taken.
    pub(crate) uploads: BTreeSet<ValueId>,
}

impl Dispatcher {
    /// What the worker at an address should hold, by the names under which it knows its sessions.
    pub(crate) fn holdings(&self, peer: PeerId) -> BTreeMap<SessionId, Holding> {
        let mut holdings = BTreeMap::new();
        for (&worker, known) in self.workers.iter().filter(|(_, worker)| worker.peer == peer) {
            for id in &known.sessions {
                let session = &self.sessions[id];
                let early = session.uploads.values().collect();
                let (name, holding) = match &session.gang {
                    Some(gang) => gang.holding(worker),
                    None => {
                        let values = session.live().map(|(value, _)| value).collect();
                        let templates = session.at_home.keys().copied().collect();
                        (session.name, Holding { values, templates, ..Holding::default() })
                    }
                };
                holdings.insert(name, Holding { uploads: early, ..holding });
            }
        }
        holdings
    }

    /// The sessions that have segments to run on the worker at an address, and wait for no data of
    /// theirs, by the names under which it knows them, with their weights.
    pub(crate) fn busy(&self, peer: PeerId) -> Vec<(SessionId, u64)> {
        let worker = self.workers.values().find(|worker| worker.peer == peer);
        let sessions = worker.into_iter().flat_map(|worker| &worker.sessions);
        let sessions = sessions.map(|id| &self.sessions[id]);
        let busy = sessions.filter(|session| session.flight.len() > 0 && !session.waits_for_data());
        busy.map(|session| (session.name, session.priority.weight().into())).collect()
    }

    /// Whether every member of every gang has run what it was ordered, and no value is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        let quiet = |session: &Session| {
            session.parked.is_none() && session.gang.as_deref().is_none_or(Gang::is_quiet)
        };
        self.sessions.values().all(quiet)
    }

    /// The number of sessions on several workers.
    pub(crate) fn n_gangs(&self) -> usize {
        let gangs = self.sessions.values().filter_map(|session| session.gang.as_deref());
        gangs.filter(|gang| gang.seats.len() > 1).count()
    }
}
