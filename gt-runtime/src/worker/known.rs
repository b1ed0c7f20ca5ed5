//! A routine on a worker: what it has learned, and what a performance of it must have.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::definition::Definition;
use crate::wire::{Arrival, Literal, MAX_ROUTINE, Name, Performance, Routine, Step};

/// A routine that was learned, and what a performance of it must have.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) routine: Arc<Routine>,
    /// The templates of its segments, in order. They stay when the dispatcher has them forgotten
    /// while a performance waits.
    pub(super) templates: Vec<Arc<Definition>>,
    n_given: usize,
    n_slots: usize,
    /// The number of segments.
    pub(super) n_runs: u32,
    /// The number of its first request, and the number of requests: they follow each other.
    pub(super) first_send: u32,
    pub(super) n_sends: u32,
    /// For each request, whether its value goes straight to another worker.
    direct: Vec<bool>,
}

impl Known {
    /// A routine from the dispatcher, for a worker with these templates. None if one of its numbers
    /// leads nowhere.
    pub(super) fn new(
        routine: Arc<Routine>,
        templates: &BTreeMap<u32, Arc<Definition>>,
    ) -> Option<Known> {
        let mut known = Known { routine: Arc::clone(&routine), ..Known::default() };
        if routine.size() > MAX_ROUTINE {
            return None;
        }
        for step in &routine.steps {
            match step {
                Step::Run { template, inputs, literals, .. } => {
                    known.templates.push(Arc::clone(templates.get(template)?));
                    known.n_runs += 1;
                    inputs.iter().for_each(|name| known.names(*name));
                    for literal in literals {
                        if let Literal::Slot(slot) = literal {
                            known.n_slots = known.n_slots.max(*slot as usize + 1);
                        }
                    }
                }
                Step::Send { value, request, to } => {
                    known.names(*value);
                    if known.n_sends == 0 {
                        known.first_send = *request;
                    }
                    let follows = known.first_send.checked_add(known.n_sends) == Some(*request);
                    let there = |to: Arrival| (to.receiver as usize) < routine.receivers.len();
                    if !follows || !to.is_none_or(there) {
                        return None;
                    }
                    known.n_sends += 1;
                    known.direct.push(to.is_some());
                }
            }
        }
        Some(known)
    }

    fn names(&mut self, name: Name) {
        if let Name::Given(at) = name {
            self.n_given = self.n_given.max(at as usize + 1);
        }
    }

    /// Whether a performance has what the routine names.
    pub(super) fn fits(&self, performance: &Performance) -> bool {
        let Performance { n_segments, given, scalars, first, request, .. } = performance;
        let few = |first: u64| first <= u64::MAX / 2;
        *n_segments == self.n_runs
            && given.len() == self.n_given
            && scalars.len() >= self.n_slots
            && few(first.0)
            && few(request.0)
    }

    /// Whether the value of a request goes straight to another worker, where that can be reached.
    pub(super) fn is_direct(&self, request: u32) -> bool {
        let at = request.checked_sub(self.first_send).map(|at| at as usize);
        at.and_then(|at| self.direct.get(at)).is_some_and(|direct| *direct)
    }
}
