//! Routines on a worker: what it has learned, taken apart into the tasks that it knows, one at a
//! time. A performance that waits for a value of another worker therefore takes no more memory than
//! its order.

use std::sync::Arc;

use gt_ir::canonical::{Bindings, Defined};
use gt_ir::{Scalar, ValueId};

use super::{Session, Waiting};
use crate::ids::{RequestId, SessionId};
use crate::wire::{Arrival, Destination, Literal, Name, Order, Performance, Routine, Step};
use crate::worker::job::{Begun, Inputs, Job, Task};
use crate::worker::known::Known;

/// The steps of a performance that have not become tasks.
#[derive(Debug)]
pub(super) struct Rest {
    session: SessionId,
    attempt: u32,
    /// The number of its first segment, and the number of segments that have become tasks.
    seq: u64,
    n_taken: usize,
    known: Arc<Known>,
    performance: Performance,
    /// The next step.
    at: usize,
}

impl Rest {
    fn value(&self, name: Name) -> Option<ValueId> {
        match name {
            Name::Given(at) => self.performance.given.get(at as usize).copied(),
            Name::Made(made) => Some(self.made(made)),
        }
    }

    fn made(&self, made: u32) -> ValueId {
        ValueId(self.performance.first.0 + u64::from(made))
    }

    fn literal(&self, literal: Literal) -> Option<Scalar> {
        match literal {
            Literal::Slot(slot) => self.performance.scalars.get(slot as usize).copied(),
            Literal::Number(scalar) => Some(scalar),
        }
    }

    fn task(&self, order: Order) -> Task {
        let Rest { session, attempt, .. } = *self;
        let seq = self.seq.saturating_add(self.n_taken as u64);
        let (inputs, begun) = (Inputs::new(), Begun::default());
        Task { session, attempt, seq, order, template: None, inputs, begun, since: 0 }
    }

    fn destination(&self, to: Arrival) -> Option<Arc<Destination>> {
        let receiver = self.known.routine.receivers.get(to.receiver as usize)?;
        let (door, session, opened) =
            (Arc::clone(&receiver.door), receiver.session, receiver.opened);
        Some(Arc::new(Destination { door, session, opened, value: self.made(to.made) }))
    }
}

impl Session {
    /// Learns a routine, or forgets the one of this number if it is not well formed.
    pub(super) fn learn(&mut self, number: u32, steps: Arc<Routine>) {
        match Known::new(steps, &self.templates) {
            Some(known) => self.routines.insert(number, Arc::new(known)),
            None => self.routines.remove(&number),
        };
    }

    /// Takes a performance, unless it is repeated. A dispatcher has had the routine learned before.
    /// Without it nothing can run.
    pub(super) fn perform(
        &mut self,
        (session, attempt, seq): (SessionId, u32, u64),
        performance: Performance,
        weight: u64,
        out: &mut Vec<Job>,
    ) {
        let known = self.routines.get(&performance.routine).filter(|it| it.fits(&performance));
        let Some(known) = known.cloned() else { return };
        if known.n_runs > 0 {
            if self.last.is_some_and(|last| (attempt, seq) <= last) {
                return; // Repeated.
            }
            self.last = Some((attempt, seq.saturating_add(u64::from(known.n_runs) - 1)));
        }
        self.progress.begin((attempt, seq), performance.request, &known);
        let rest = Rest { session, attempt, seq, n_taken: 0, known, performance, at: 0 };
        if let Some(first) = self.next_step(Box::new(rest)) {
            self.waiting += weight;
            self.queue.push_back(Waiting { weight, ..first });
            self.release(out);
        }
    }

    /// The next step of a performance. None at its end.
    pub(super) fn next_step(&mut self, mut rest: Box<Rest>) -> Option<Waiting> {
        let known = Arc::clone(&rest.known);
        let step = known.routine.steps.get(rest.at)?;
        let (task, needs) = match step {
            Step::Run { template, inputs, first, literals } => {
                let defined = Arc::clone(known.templates.get(rest.n_taken)?);
                let n_defined = defined.template().n_defined as u64;
                let scalars = literals.iter().map(|literal| rest.literal(*literal));
                let inputs = inputs.iter().map(|name| rest.value(*name));
                let bindings = Bindings {
                    inputs: inputs.collect::<Option<_>>()?,
                    defined: Defined::Run(rest.made(*first), n_defined),
                    scalars: scalars.collect::<Option<_>>()?,
                };
                let needs = defined.uploads(&bindings);
                let bindings = Arc::new(bindings);
                let task = rest.task(Order::Launch { template: *template, bindings });
                rest.n_taken += 1;
                (Task { template: Some(defined), ..task }, needs)
            }
            Step::Send { value, request, to } => {
                let value = rest.value(*value)?;
                let request = RequestId(rest.performance.request.0 + u64::from(*request));
                if let Some(to) = to {
                    self.routes.insert(request, rest.destination(*to)?);
                }
                (rest.task(Order::Fetch { request, value }), Vec::new())
            }
        };
        rest.at += 1;
        Some(Waiting { task, needs, weight: 0, rest: Some(rest) })
    }
}
