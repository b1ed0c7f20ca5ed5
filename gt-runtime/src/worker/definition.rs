//! A template as a worker holds it: one [`Definition`] from its `Define` until it is forgotten,
//! shared by the core, the executor and the launches under way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gt_ir::canonical::{Bindings, Template};
use gt_ir::{Tape, Type, ValueId};

use crate::footprint::Footprint;

/// What a plan may take and still be called quick, in nanoseconds.
const QUICK: u64 = 500_000;

/// A template as a worker holds it.
#[derive(Debug)]
pub struct Definition {
    pub(super) template: Template,
    pub(super) footprint: Footprint,
    /// For the executor: the plan it ran last.
    pub(super) plan: PlanHint,
}

/// Where to find the plan that a template ran last, and what its session knows of plans.
#[derive(Debug, Default)]
pub(super) struct PlanHint {
    /// Its slot among the plans.
    pub(super) slot: AtomicUsize,
    /// Its number, which no other plan has: the plan was compared with the template. 0 is none's.
    pub(super) number: AtomicU64,
    /// The plans of which the session was told, a bit for each; some share one.
    pub(super) told: AtomicU64,
    /// The types of the values from outside in the plan the session was told of last.
    pub(super) types: Mutex<Vec<Type>>,
    /// How long it took last.
    nanos: AtomicU64,
}

impl Definition {
    /// A template; none when the tape is not canonical.
    #[must_use]
    pub fn new(tape: Arc<Tape>) -> Option<Definition> {
        let template = Template::new(tape).ok()?;
        let footprint = Footprint::of(&template);
        Some(Definition { template, footprint, plan: PlanHint::default() })
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

    /// Whether the last run was one as a plan, and quick.
    pub(super) fn was_quick(&self) -> bool {
        (1..QUICK).contains(&self.nanos.load(Ordering::Relaxed))
    }
}
