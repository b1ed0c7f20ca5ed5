//! The members' parts of a partition as routines, which each member learns once. How they are
//! written and performed is in `learn`.

use std::sync::Arc;

use gt_compiler::shard::{self, Partition, Step};
use gt_ir::ValueId;

use super::roads::Load;
use crate::wire::{MAX_ROUTINE, Name, Routine};

/// The routines of a partition.
#[derive(Debug)]
pub(super) struct Routines {
    /// The number by which all members know their routines.
    pub(super) number: u32,
    /// Each member's.
    pub(super) parts: Vec<Part>,
    /// The values of the segment that members have, by their numbers there.
    pub(super) given: Vec<u32>,
    /// The number of values that members send each other.
    pub(super) n_sends: u32,
    /// What a performance brings over the roads between members.
    pub(super) loads: Vec<Load>,
}

/// A member's part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) routine: Arc<Routine>,
    pub(super) n_segments: u32,
    /// For each value that it has, its place among `given`, and that of the member among those that
    /// have parts of it.
    pub(super) given: Vec<(usize, usize)>,
    /// The number of the first value that it sends.
    pub(super) first_send: u32,
    pub(super) sends: Vec<Sending>,
    /// Whether all of them go straight to other members.
    pub(super) is_direct: bool,
}

/// A value that a member sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) value: Name,
    pub(super) to: usize,
    /// Its name there, counted from the first one of the performance on.
    pub(super) made: u32,
    pub(super) bytes: u64,
    /// Whether it goes straight to the other member.
    pub(super) is_direct: bool,
}

/// Whether a partition has routines: they are within the limits of the wire.
pub(super) fn fits(partition: &Partition) -> bool {
    let size = |part: &shard::Part| {
        let steps = part.steps.iter().map(|step| match step {
            Step::Run(phase) => 1 + phase.inputs.len() + phase.literals.len(),
            Step::Send { .. } => 2,
        });
        steps.sum::<usize>()
    };
    let made = partition.parts.iter().try_fold(0_u32, |sum, part| sum.checked_add(part.n_made));
    partition.parts.iter().all(|part| size(part) <= MAX_ROUTINE) && made.is_some()
}

/// The numbers that templates and routines of a partition take.
pub(super) fn n_numbers(partition: &Partition) -> u32 {
    let n_tapes = |part: &shard::Part| tapes(part).count() as u32;
    1 + partition.parts.iter().map(n_tapes).max().unwrap_or(0)
}

/// The tapes of a member.
pub(super) fn tapes(part: &shard::Part) -> impl Iterator<Item = &shard::Phase> {
    part.steps.iter().filter_map(|step| match step {
        Step::Run(phase) => Some(&**phase),
        Step::Send { .. } => None,
    })
}

impl Routines {
    /// The member that sends the value of a request, counted from the first one of a performance
    /// on, and what it sends.
    pub(super) fn sending(&self, request: u32) -> Option<(usize, Sending)> {
        let from = self.parts.partition_point(|part| part.first_send <= request).checked_sub(1)?;
        let part = self.parts.get(from)?;
        Some((from, *part.sends.get((request - part.first_send) as usize)?))
    }

    /// What a member sends, by the numbers of the requests.
    pub(super) fn sendings(&self, member: usize) -> impl Iterator<Item = (u32, Sending)> + '_ {
        let part = self.parts.get(member).into_iter();
        part.flat_map(|part| (part.first_send..).zip(part.sends.iter().copied()))
    }

    /// The requests of a member whose values go through the dispatcher.
    pub(super) fn indirect(&self, member: usize) -> impl Iterator<Item = u32> + '_ {
        let some = self.parts.get(member).is_some_and(|part| !part.is_direct);
        let sendings = some.then(|| self.sendings(member)).into_iter().flatten();
        sendings.filter(|(_, sending)| !sending.is_direct).map(|(request, _)| request)
    }

    /// The number of members.
    pub(super) fn n_members(&self) -> usize {
        self.parts.len()
    }

    /// What a performance brings over the roads between members.
    pub(super) fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// What a value of a performance is called on a member that sends it, and on the one that
    /// receives it.
    pub(super) fn names(
        &self,
        from: usize,
        sending: Sending,
        (first, given): (ValueId, &[Arc<[ValueId]>]),
    ) -> Option<(ValueId, ValueId)> {
        let made = |made: u32| ValueId(first.0 + u64::from(made));
        let value = match sending.value {
            Name::Made(at) => made(at),
            Name::Given(at) => {
                let (value, rank) = *self.parts.get(from)?.given.get(at as usize)?;
                *given.get(value)?.get(rank)?
            }
        };
        Some((value, made(sending.made)))
    }
}
