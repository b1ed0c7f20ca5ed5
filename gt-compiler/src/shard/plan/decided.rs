//! A plan: what is decided about the values of a segment.

use gt_ir::ValueId;
use gt_ir::layout::Layout;

use crate::shard::choose::Strategy;

/// What is decided about each value, by the walk's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::shard) struct Plan {
    /// All of a value on each member of the plan's mesh.
    pub(in crate::shard) whole: Layout,
    /// The class of each value.
    pub(super) of: Vec<usize>,
    /// How many values the walk has named after each value of the segment.
    pub(super) ends: Vec<usize>,
    pub(super) classes: Vec<Planned>,
    /// The choice for each variable.
    pub(super) chosen: Vec<usize>,
}

/// What is decided about the values of a class; nothing about those that members make by
/// themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Planned {
    /// How they are computed.
    pub(super) strategy: Option<Strategy>,
    /// The layout that they have for all their uses.
    pub(super) layout: Option<Layout>,
}

impl Plan {
    /// The plan of a segment whose values are like these values of this one, in order.
    pub(in crate::shard) fn of_alike(&self, values: impl Iterator<Item = usize>) -> Plan {
        let (mut of, mut ends) = (Vec::new(), Vec::new());
        for value in values {
            let first = value.checked_sub(1).map_or(0, |before| self.ends[before]);
            of.extend_from_slice(&self.of[first..self.ends[value]]);
            ends.push(of.len());
        }
        let (whole, classes) = (self.whole.clone(), self.classes.clone());
        Plan { whole, of, ends, classes, chosen: self.chosen.clone() }
    }

    /// Whether the walk names values as the plan does: so many after so many of the segment's.
    pub(in crate::shard) fn names(&self, values: usize, walked: usize) -> bool {
        values.checked_sub(1).and_then(|last| self.ends.get(last)) == Some(&walked)
    }

    fn at(&self, value: usize) -> Option<&Planned> {
        self.classes.get(*self.of.get(value)?)
    }

    /// The layout that a value has for all its uses.
    pub(in crate::shard) fn layout(&self, value: ValueId) -> Option<&Layout> {
        self.at(value.0 as usize)?.layout.as_ref()
    }

    /// How a value is computed.
    pub(in crate::shard) fn strategy(&self, value: ValueId) -> Option<&Strategy> {
        self.at(value.0 as usize)?.strategy.as_ref()
    }
}
