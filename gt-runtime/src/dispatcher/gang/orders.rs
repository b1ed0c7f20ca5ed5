//! A session's orders as the orders of its members.

use std::sync::Arc;

use gt_compiler::shard::{self, Literal, Local, Partition, Phase, Step};
use gt_ir::canonical::{Bindings, Defined, Template, expand};
use gt_ir::layout::Layout;
use gt_ir::shape::Type;
use gt_ir::{Entry, OpError, Tape, ValueId};

use super::exchange::Transfer;
use super::partitions::{Carried, Chosen, Job, Sought};
use super::{Bound, Gang, MAX_WARNED};
use crate::ids::RequestId;
use crate::machine::Machine;
use crate::wire::{MAX_ENTRIES, Order};

/// Orders of members, each with the member it is for, in order.
pub(in crate::dispatcher) type Orders = Vec<(usize, Order)>;

/// What becomes of a segment.
pub(in crate::dispatcher) enum Ordered {
    /// The orders of members, and what signals asked for and did not get.
    Now(Orders, Vec<String>),
    /// The orders of members that come before, and the partition that is to be made first.
    Later(Orders, Arc<Job>),
}

impl Gang {
    /// A segment as the orders of members. `again` says that the segment has come before. With a
    /// level of ZeRO it is planned. Uploads of at least `large` bytes may be cut; `is_untouched`
    /// says whether no piece of an upload has come. A partition of more than `small` entries is
    /// made elsewhere.
    pub(in crate::dispatcher) fn segment(
        &mut self,
        template: &Template,
        bindings: &Bindings,
        (zero, again): (Option<(u8, Option<Machine>)>, bool),
        (large, is_untouched): (u64, &dyn Fn(ValueId) -> bool),
        small: usize,
    ) -> Result<Ordered, OpError> {
        let n_members = self.seats.len() as u32;
        let mut inputs: Vec<(Type, Layout)> = Vec::new();
        for value in &bindings.inputs {
            let place = self.places.get(value);
            let place = place.ok_or_else(|| OpError::new(format!("{value} is nowhere")))?;
            inputs.push((place.ty, place.layout.clone()));
        }
        let mut declared = Orders::new();
        let uploads = self.declare(template, bindings, (large, is_untouched), &mut declared);
        let places = (inputs, uploads);
        let auto = zero.map(|(zero, here)| (self.auto(zero), self.rates(here)));
        let planned = self.signals.compiles(&template.tape);
        let how = (Arc::clone(&self.signals), auto, n_members);
        let sought = self.partitions.get(template, places, how, again, small)?;
        let mut orders = Orders::new();
        let forgotten = self.partitions.forgotten();
        self.forget(&forgotten, &mut orders);
        orders.extend(declared);
        let Chosen { slot, partition, how } = match sought {
            Sought::Held(chosen) => chosen,
            Sought::Missing(job) => return Ok(Ordered::Later(orders, job)),
        };
        self.note_needed(template, &partition);
        let bound = self.bind(bindings, template.n_inputs, &partition);
        match how {
            Carried::Once => self.steps(&partition, &bound, &mut orders)?,
            Carried::Anew(number) => {
                let written = self.routines((number, planned), &partition, &bound, &mut orders)?;
                let routines = Arc::new(written);
                self.partitions.learned(slot, &routines);
                self.perform(&routines, &bound, &mut orders)?;
            }
            Carried::Again(routines) => self.perform(&routines, &bound, &mut orders)?,
        }
        self.settle(&bound, &partition, &template.tape);
        let news = self.news(&partition.report.warnings);
        Ok(Ordered::Now(orders, news))
    }

    /// The order that reads a value on one member, with that member and the value's name there; and
    /// what is to be done before and after.
    pub(in crate::dispatcher) fn fetch(
        &mut self,
        request: RequestId,
        value: ValueId,
    ) -> Result<(Orders, ValueId), OpError> {
        let place = self.places.get(&value).cloned();
        let place = place.ok_or_else(|| OpError::new(format!("{value} is nowhere")))?;
        if place.layout.is_whole()
            && let (Some(&member), Some(&name)) =
                (place.layout.mesh.members().first(), place.names.first())
        {
            let order = Order::Fetch { request, value: name };
            return Ok((vec![(member as usize, order)], name));
        }
        let partition = shard::gather(&place.ty, &place.layout, self.seats.len() as u32)?;
        let bindings = Bindings { inputs: vec![value], ..Bindings::default() };
        let bound = self.bind(&bindings, 1, &partition);
        let mut orders = Orders::new();
        self.steps(&partition, &bound, &mut orders)?;
        let local = partition.kept.first().and_then(|kept| kept.names.first()).copied();
        let name = local.and_then(|local| bound.local(self, local, 0));
        let name = name.ok_or_else(|| OpError::new("internal: nothing was gathered"))?;
        orders.push((0, Order::Fetch { request, value: name }));
        // The first member's own part may be all there is of the value, and lives on.
        if matches!(local, Some(Local::Made(_))) {
            let free = Tape { entries: vec![Entry::Free(name)] };
            orders.push((0, Order::Run(Arc::new(free))));
        }
        Ok((orders, name))
    }

    /// Templates that all members forget.
    pub(super) fn forget(&self, templates: &[u32], orders: &mut Orders) {
        for &template in templates {
            orders.extend((0..self.seats.len()).map(|m| (m, Order::Forget { template })));
        }
    }

    fn bind<'a>(
        &mut self,
        bindings: &'a Bindings,
        n_inputs: usize,
        partition: &Partition,
    ) -> Bound<'a> {
        let first = partition.parts.iter().map(|part| self.names(part.n_made)).collect();
        Bound { bindings, n_inputs, first }
    }

    /// The steps of a partition, one by one.
    fn steps(
        &mut self,
        partition: &Partition,
        bound: &Bound<'_>,
        orders: &mut Orders,
    ) -> Result<(), OpError> {
        for (member, part) in partition.parts.iter().enumerate() {
            for step in &part.steps {
                match step {
                    Step::Run(phase) => orders.push((member, self.run(member, phase, bound)?)),
                    Step::Send { value, to, made } => {
                        let name = bound.local(self, *value, member);
                        let received = ValueId(bound.first[*to as usize] + u64::from(*made));
                        let name = name.ok_or_else(|| lacks(member))?;
                        let transfer = Transfer::new(member, *to as usize, name, received);
                        orders.push((member, self.sending(transfer)));
                    }
                }
            }
        }
        Ok(())
    }

    /// A tape of a member.
    fn run(&self, member: usize, phase: &Phase, bound: &Bound<'_>) -> Result<Order, OpError> {
        check_size(phase)?;
        let inputs = phase.inputs.iter().map(|local| bound.local(self, *local, member));
        let first = ValueId(bound.first[member] + u64::from(phase.first));
        let literal = |literal: &Literal| match literal {
            Literal::Slot(slot) => bound.bindings.scalars.get(*slot as usize).copied(),
            Literal::Number(scalar) => Some(*scalar),
        };
        let bindings = Bindings {
            inputs: inputs.collect::<Option<_>>().ok_or_else(|| lacks(member))?,
            defined: Defined::Run(first, phase.template.n_defined as u64),
            scalars: phase
                .literals
                .iter()
                .map(literal)
                .collect::<Option<_>>()
                .ok_or_else(|| OpError::new("internal: a segment lacks a literal"))?,
        };
        let tape = expand(&phase.template, &bindings);
        let tape = tape.map_err(|why| OpError::new(format!("internal: {why}")))?;
        Ok(Order::Run(Arc::new(tape)))
    }

    /// What signals asked for and did not get, as far as the client has not been told.
    fn news(&mut self, warnings: &[String]) -> Vec<String> {
        let new = warnings.iter().filter(|warning| !self.warned.contains(warning));
        let room = MAX_WARNED.saturating_sub(self.warned.len());
        let new: Vec<String> = new.take(room).cloned().collect();
        self.warned.extend(new.iter().cloned());
        new
    }
}

/// Refuses a tape that no member may be sent.
pub(super) fn check_size(phase: &Phase) -> Result<(), OpError> {
    let n_entries = phase.template.tape.entries.len();
    if n_entries > MAX_ENTRIES {
        let why = format!("a member's part has {n_entries} entries, more than {MAX_ENTRIES}");
        return Err(OpError::new(why));
    }
    Ok(())
}

pub(super) fn lacks(member: usize) -> OpError {
    OpError::new(format!("internal: member {member} lacks a value of its part"))
}
