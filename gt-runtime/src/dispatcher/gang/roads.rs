//! What the members of a gang have brought each other without the dispatcher.

use std::collections::BTreeMap;

use crate::wire::Traffic;

/// The most pairs of workers whose exchanges are counted.
pub(in crate::dispatcher) const MAX_ROADS: usize = 4096;

/// The traffic from one member to another.
#[derive(Debug, Default)]
pub(super) struct Roads {
    places: BTreeMap<(usize, usize), usize>,
    traffic: Vec<Traffic>,
}

/// What travels over one road when a routine is performed once: the road's place, and the values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load(usize, Traffic);

impl Roads {
    /// The place of a road. None if too many roads are counted.
    fn place(&mut self, ends: (usize, usize)) -> Option<usize> {
        let Roads { places, traffic } = self;
        let has_room = traffic.len() < MAX_ROADS;
        if has_room || places.contains_key(&ends) {
            return Some(*places.entry(ends).or_insert_with(|| {
                traffic.push(Traffic::default());
                traffic.len() - 1
            }));
        }
        None
    }

    /// Counts a value.
    pub(super) fn count(&mut self, ends: (usize, usize), bytes: u64) {
        if let Some(road) = self.place(ends).and_then(|at| self.traffic.get_mut(at)) {
            road.count(bytes);
        }
    }

    /// What such values are together.
    pub(super) fn loads(
        &mut self,
        values: impl Iterator<Item = ((usize, usize), u64)>,
    ) -> Vec<Load> {
        let mut loads: BTreeMap<usize, Traffic> = BTreeMap::new();
        for (ends, bytes) in values {
            if let Some(at) = self.place(ends) {
                loads.entry(at).or_default().count(bytes);
            }
        }
        loads.into_iter().map(|(at, traffic)| Load(at, traffic)).collect()
    }

    /// Counts values that travel together.
    pub(super) fn add(&mut self, loads: &[Load]) {
        for Load(at, traffic) in loads {
            if let Some(road) = self.traffic.get_mut(*at) {
                road.add(*traffic);
            }
        }
    }

    /// The traffic from one member to another.
    pub(super) fn iter(&self) -> impl Iterator<Item = ((usize, usize), Traffic)> + '_ {
        self.places.iter().filter_map(|(ends, at)| Some((*ends, *self.traffic.get(*at)?)))
    }
}
