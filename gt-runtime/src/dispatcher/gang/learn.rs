//! How the routines of a partition are written, learned by the members and performed.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_compiler::shard::{self, Local, Partition, Step};
use gt_ir::canonical::Template;
use gt_ir::{Entry, OpError, ValueId};

use super::orders::{Orders, check_size, lacks};
use super::performances::Underway;
use super::routines::{Part, Routines, Sending, tapes};
use super::{Bound, Gang};
use crate::wire::{self, Arrival, Name, Order, Performance, Receiver, Routine};

/// The parts of a routine that is being written.
#[derive(Default)]
struct Draft {
    routine: Routine,
    /// The places of receivers, by member.
    receivers: BTreeMap<usize, u32>,
    /// The places of the values that the member has.
    given: BTreeMap<u32, u32>,
    part: Vec<(usize, usize)>,
    sends: Vec<Sending>,
}

impl Gang {
    /// Writes the routines of a partition that is about to be carried out, and the orders by which
    /// members learn them.
    pub(super) fn routines(
        &mut self,
        (number, planned): (u32, bool),
        partition: &Partition,
        bound: &Bound<'_>,
        orders: &mut Orders,
    ) -> Result<Routines, OpError> {
        let received = received(partition);
        let (mut given, mut parts, mut n_sends) = (BTreeMap::new(), Vec::new(), 0);
        for (member, part) in partition.parts.iter().enumerate() {
            let mut draft = Draft::default();
            let mut template = number;
            for step in &part.steps {
                match step {
                    Step::Run(phase) => {
                        template += 1;
                        check_size(phase)?;
                        let tape = Arc::clone(&phase.template.tape);
                        orders.push((member, Order::Define { template, tape, planned }));
                        let step = self.phase(member, (template, phase), bound, |local| {
                            self.known_as(member, local, bound, &mut given, &mut draft)
                        })?;
                        draft.routine.steps.push(step);
                    }
                    Step::Send { value, to, made } => {
                        let value = self.known_as(member, *value, bound, &mut given, &mut draft)?;
                        let bytes = received.get(&(*to, *made)).copied().unwrap_or(0);
                        let (to, made) = (*to as usize, bound.offset(*to as usize) + made);
                        let arrival = self.arrival(member, (to, made), &mut draft);
                        let request = n_sends + draft.sends.len() as u32;
                        let is_direct = arrival.is_some();
                        draft.sends.push(Sending { value, to, made, bytes, is_direct });
                        let step = wire::Step::Send { value, request, to: arrival };
                        draft.routine.steps.push(step);
                    }
                }
            }
            let Draft { routine, part: given, sends, .. } = draft;
            let (routine, first_send) = (Arc::new(routine), n_sends);
            n_sends += sends.len() as u32;
            if !routine.steps.is_empty() {
                let steps = Arc::clone(&routine);
                orders.push((member, Order::Learn { routine: number, steps }));
            }
            let n_segments = template - number;
            let is_direct = sends.iter().all(|sending| sending.is_direct);
            parts.push(Part { routine, n_segments, given, first_send, sends, is_direct });
        }
        let direct = parts.iter().enumerate().flat_map(|(from, part)| {
            let direct = part.sends.iter().filter(|sending| sending.is_direct);
            direct.map(move |sending| ((from, sending.to), sending.bytes))
        });
        let loads = self.roads.loads(direct);
        let mut by_place: Vec<(usize, u32)> = given.into_iter().map(|(n, at)| (at, n)).collect();
        by_place.sort_unstable();
        let given = by_place.into_iter().map(|(_, number)| number).collect();
        Ok(Routines { number, parts, given, n_sends, loads })
    }

    fn phase(
        &self,
        member: usize,
        (template, phase): (u32, &shard::Phase),
        bound: &Bound<'_>,
        mut name: impl FnMut(Local) -> Result<Name, OpError>,
    ) -> Result<wire::Step, OpError> {
        let literal = |literal: &shard::Literal| match literal {
            shard::Literal::Slot(slot) => wire::Literal::Slot(*slot),
            shard::Literal::Number(scalar) => wire::Literal::Number(*scalar),
        };
        let inputs = phase.inputs.iter().map(|local| name(*local));
        Ok(wire::Step::Run {
            template,
            inputs: inputs.collect::<Result<_, _>>()?,
            first: bound.offset(member) + phase.first,
            literals: phase.literals.iter().map(literal).collect(),
        })
    }

    /// How a routine names a value of a member.
    fn known_as(
        &self,
        member: usize,
        local: Local,
        bound: &Bound<'_>,
        given: &mut BTreeMap<u32, usize>,
        draft: &mut Draft,
    ) -> Result<Name, OpError> {
        let number = match local {
            Local::Made(made) => return Ok(Name::Made(bound.offset(member) + made)),
            Local::Given(number) => number,
        };
        if let Some(at) = draft.given.get(&number) {
            return Ok(Name::Given(*at));
        }
        let place = bound.value(number).and_then(|value| self.places.get(&value));
        let rank = place.and_then(|place| place.layout.mesh.rank_of(member as u32));
        let rank = rank.ok_or_else(|| lacks(member))?;
        let n_given = given.len();
        let (value, at) = (*given.entry(number).or_insert(n_given), draft.part.len() as u32);
        draft.part.push((value, rank));
        draft.given.insert(number, at);
        Ok(Name::Given(at))
    }

    /// Where a value arrives that goes straight to another member. None if it cannot.
    fn arrival(&self, from: usize, (to, made): (usize, u32), draft: &mut Draft) -> Option<Arrival> {
        let (door, seat) = (self.road(from, to)?, self.seats.get(to)?);
        let receivers = &mut draft.routine.receivers;
        let receiver = *draft.receivers.entry(to).or_insert_with(|| {
            receivers.push(Receiver { door, session: seat.session, opened: seat.opened });
            receivers.len() as u32 - 1
        });
        Some(Arrival { receiver, made })
    }

    /// The orders by which members perform their routines on the values of a segment.
    pub(super) fn perform(
        &mut self,
        routines: &Arc<Routines>,
        bound: &Bound<'_>,
        orders: &mut Orders,
    ) -> Result<(), OpError> {
        let (first, request) = (ValueId(bound.origin()), self.requests(routines.n_sends.max(1)));
        let names = |number: &u32| {
            let place = bound.value(*number).and_then(|value| self.places.get(&value));
            place.map(|place| Arc::clone(&place.names)).ok_or_else(|| lacks(0))
        };
        let given = routines.given.iter().map(names).collect::<Result<Vec<_>, _>>()?;
        let scalars: Arc<[_]> = bound.bindings.scalars.as_slice().into();
        let busy = |(_, part): &(usize, &Part)| !part.routine.steps.is_empty();
        for (member, part) in routines.parts.iter().enumerate().filter(busy) {
            let name = |&(value, rank): &(usize, usize)| given.get(value)?.get(rank).copied();
            let given = part.given.iter().map(name).collect::<Option<_>>();
            let performance = Performance {
                routine: routines.number,
                n_segments: part.n_segments,
                given: given.ok_or_else(|| lacks(member))?,
                scalars: Arc::clone(&scalars),
                first,
                request,
            };
            orders.push((member, Order::Perform(Box::new(performance))));
        }
        if routines.n_sends > 0 {
            let underway = Underway::new(Arc::clone(routines), first, given);
            self.performances.insert(request, underway);
        }
        Ok(())
    }
}

/// The bytes of the values that members receive, by member and name.
fn received(partition: &Partition) -> BTreeMap<(u32, u32), u64> {
    let of = |(member, phase): (u32, &shard::Phase)| {
        let Template { tape, n_inputs, .. } = &phase.template;
        let (first, n_inputs) = (phase.first, *n_inputs as u64);
        let inputs = tape.entries.iter().filter_map(move |entry| match entry {
            Entry::Input { out, ty, .. } => {
                let made = first + u32::try_from(out.0.checked_sub(n_inputs)?).ok()?;
                Some(((member, made), ty.bytes() as u64))
            }
            _ => None,
        });
        inputs.collect::<Vec<_>>()
    };
    let members = (0..).zip(&partition.parts);
    members
        .flat_map(|(member, part)| tapes(part).map(move |tape| (member, tape)))
        .flat_map(of)
        .collect()
}
