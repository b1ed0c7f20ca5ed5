//! The invariants of a gang's books, with the numbers of `dispatcher::check`, and for tests what
//! members should hold.

use std::collections::BTreeSet;

use gt_ir::ValueId;

use super::Gang;
#[cfg(test)]
use crate::dispatcher::holdings::Holding;
use crate::ids::SessionId;
#[cfg(test)]
use crate::ids::WorkerId;
use crate::wire::RESERVED;

impl Gang {
    /// Panics if an invariant does not hold. The live values of a session that has many are left
    /// out.
    pub(in crate::dispatcher) fn check(
        &self,
        id: SessionId,
        live: Option<impl Iterator<Item = ValueId>>,
    ) {
        let workers: BTreeSet<_> = self.seats.iter().map(|seat| seat.worker).collect();
        assert_eq!(workers.len(), self.seats.len(), "10: a worker is two members of {id}");
        for (member, seat) in self.seats.iter().enumerate() {
            assert_eq!(self.member(seat.worker), Some(member), "10: {} of {id}", seat.worker);
            assert!(seat.n_done <= seat.n_segments, "10: {} of {id} ran too much", seat.worker);
        }
        if self.seats.is_empty() {
            let quiet = self.transfers.is_empty() && self.performances.is_empty();
            assert!(
                quiet && self.places.is_empty() && self.unpaid.is_empty(),
                "13: {id} has no members, but values"
            );
            return;
        }
        if let Some(live) = live {
            assert!(live.eq(self.places.keys().copied()), "11: {id} has lost sight of a value");
            self.check_places(id);
        }
        self.check_transfers(id);
    }

    fn check_places(&self, id: SessionId) {
        for (value, place) in &self.places {
            let members = place.layout.mesh.members();
            let there = members.iter().all(|&member| (member as usize) < self.seats.len());
            assert!(there, "11: {value} of {id} is at a member that does not exist");
            assert_eq!(members.len(), place.names.len(), "11: parts of {value} of {id}");
        }
    }

    fn check_transfers(&self, id: SessionId) {
        let n_members = self.seats.len();
        for (request, underway) in &self.performances {
            assert!(underway.is_sound(n_members), "12: the performance {request} of {id}");
        }
        let mut received = BTreeSet::new();
        for (request, transfer) in &self.transfers {
            let (from, to) = transfer.ends();
            let between = from != to && from < n_members && to < n_members;
            assert!(between, "12: {request} of {id} goes from {from} to {to}");
            let name = transfer.received();
            let fresh = name.0 >= RESERVED && received.insert((to, name));
            assert!(fresh, "12: {request} of {id} is not the only {name} of member {to}");
        }
    }
}

#[cfg(test)]
impl Gang {
    /// What a member should hold when nothing is under way, and its name for the session.
    pub(in crate::dispatcher) fn holding(&self, worker: WorkerId) -> (SessionId, Holding) {
        let member = self.member(worker).expect("a worker lists sessions that live on it");
        let values = self.places.keys().filter_map(|value| self.name_of(*value, member)).collect();
        let templates = self.partitions.templates().collect();
        let holding = Holding { values, templates, ..Holding::default() };
        (self.seats[member].session, holding)
    }

    /// Whether every member has run what it was ordered, and no value is on its way.
    pub(in crate::dispatcher) fn is_quiet(&self) -> bool {
        let ran = self.seats.iter().all(|seat| seat.n_done == seat.n_segments);
        let brought = self.transfers.is_empty() && self.performances.is_empty();
        ran && brought && self.unpaid.is_empty()
    }
}
