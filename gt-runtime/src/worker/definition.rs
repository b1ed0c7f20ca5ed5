//! A template on a worker: one [`Definition`] from its `Define` until it is forgotten. The core,
//! the executor and waiting launches share it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gt_ir::canonical::{Bindings, Template};
use gt_ir::{Tape, Type, ValueId};

use crate::footprint::Footprint;

/// The nanoseconds below which a plan is called quick.
const QUICK: u64 = 500_000;

/// A template on a worker.
#[derive(Debug)]
pub struct Definition {
    pub(super) template: Template,
    pub(super) footprint: Footprint,
    /// Whether launches wait until it is compiled.
    pub(super) planned: bool,
    /// For the executor: the plan that it ran last.
    pub(super) plan: PlanHint,
}

/// A hint where to find the plan that a template ran last, and a record of the plans that its
/// session was told about.
#[derive(Debug, Default)]
pub(super) struct PlanHint {
    /// The plan's slot in the table of plans.
    pub(super) slot: AtomicUsize,
    /// The plan's number, which no other plan has. A plan with this number was compared with the
    /// template. No plan has the number 0.
    pub(super) number: AtomicU64,
    /// A bit for each plan that the session was told about. Several plans may share a bit.
    pub(super) told: AtomicU64,
    /// The input types of the plan that the session was told about last.
    pub(super) types: Mutex<Vec<Type>>,
    /// The nanoseconds of the last run.
    nanos: AtomicU64,
}

impl Definition {
    /// A template. None if the tape is not canonical.
    #[must_use]
    pub fn new(tape: Arc<Tape>, planned: bool) -> Option<Definition> {
        let template = Template::new(tape).ok()?;
        let footprint = Footprint::of(&template);
        Some(Definition { template, footprint, planned, plan: PlanHint::default() })
    }

    /// The template itself.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// The values whose data a launch needs.
    pub(super) fn uploads(&self, bindings: &Bindings) -> Vec<ValueId> {
        let uploads = self.footprint.uploads.iter();
        uploads.filter_map(|(at, _)| bindings.defined.get(*at as usize)).collect()
    }
}

impl PlanHint {
    /// Notes how long a run as a plan took.
    pub(super) fn took(&self, nanos: u64) {
        self.nanos.store(nanos.max(1), Ordering::Relaxed);
    }

    /// Whether the last run was a plan, and quick.
    pub(super) fn was_quick(&self) -> bool {
        (1..QUICK).contains(&self.nanos.load(Ordering::Relaxed))
    }
}
