//! A template on a worker: one [`Definition`] from its `Define` until it is forgotten. The core,
//! the executor and waiting launches share it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use gt_compiler::Value;
use gt_ir::canonical::{Bindings, Template};
use gt_ir::{Entry, Loc, Tape, Type, ValueId};

use super::fates::Fates;
use crate::footprint::Footprint;
use crate::log::signals_of;

/// The nanoseconds below which a plan is called quick.
const QUICK: u64 = 500_000;

/// A template on a worker.
#[derive(Debug)]
pub struct Definition {
    pub(super) template: Template,
    pub(super) footprint: Footprint,
    /// For each input that is only freed, a used input of the same type in the first launch.
    partners: OnceLock<Vec<(u32, Option<Partner>)>>,
    /// The signals of its instructions, once somebody asked.
    signals: OnceLock<Arc<[String]>>,
    /// The line of each value that it defines, once a profile asked.
    lines: OnceLock<Vec<Loc>>,
    /// Whether launches wait until it is compiled.
    pub(super) planned: bool,
    /// For the executor: the plans that it ran last.
    pub(super) plan: PlanHint,
    /// For the executor: what became of its results.
    pub(super) fates: Fates,
}

/// A used input of the type of one that is only freed: its place, and whether it outlives the
/// launch, as some such input does if any.
#[derive(Clone, Copy, Debug)]
struct Partner {
    at: u32,
    stays: bool,
}

/// Where to find a plan that a template ran.
#[derive(Debug, Default)]
pub(super) struct PlanPlace {
    /// The plan's slot in the table of plans.
    pub(super) slot: AtomicUsize,
    /// The plan's number, which no other plan has. A plan with this number was compared with the
    /// template. No plan has the number 0.
    pub(super) number: AtomicU64,
}

/// A hint where to find the plans that a template ran last, and a record of the plans that its
/// session was told about.
#[derive(Debug, Default)]
pub(super) struct PlanHint {
    /// The plan that makes all results.
    pub(super) whole: PlanPlace,
    /// The plan that leaves out results that nobody uses.
    pub(super) spared: PlanPlace,
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
        let (partners, plan, fates) = (OnceLock::new(), PlanHint::default(), Fates::default());
        let (signals, lines) = (OnceLock::new(), OnceLock::new());
        Some(Definition { template, footprint, partners, signals, lines, planned, plan, fates })
    }

    /// The line of a value that it defines, by the value's place among them.
    pub(super) fn line_of(&self, at: u32) -> Loc {
        let line = |entry: &Entry| match entry {
            Entry::Instr(instr) => Some(instr.loc),
            Entry::Input { .. } => Some(Loc::NONE),
            Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => None,
        };
        let entries = &self.template.tape.entries;
        let lines = self.lines.get_or_init(|| entries.iter().filter_map(line).collect());
        lines.get(at as usize).copied().unwrap_or(Loc::NONE)
    }

    /// The signals of its instructions.
    pub(super) fn signals(&self) -> Arc<[String]> {
        self.signals.get_or_init(|| signals_of(&self.template.tape).into()).clone()
    }

    /// The template itself.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Puts `nothing` in the place of inputs that a launch only frees. A batch of the step before
    /// is one. Its size is then no part of the plan, and its memory is free before the plan runs.
    /// An input with the type of one that is used, such as a gradient of the step before, stays,
    /// because a result may take its memory.
    pub(super) fn without_idle(&self, given: &mut [Value], nothing: &Value) {
        for &(at, partner) in self.partners.get_or_init(|| self.partners(given)) {
            let ty = |at: u32| given.get(at as usize).map(|value| value.ty);
            if partner.is_some_and(|partner| ty(partner.at) == ty(at)) {
                continue;
            }
            // A result that was left out has no memory. Another value keeps the types the same.
            let was_left_out = ty(at) == Some(nothing.ty);
            let stand_in = partner.filter(|partner| was_left_out && partner.stays);
            let stand_in = stand_in.and_then(|partner| given.get(partner.at as usize));
            let stand_in = stand_in.unwrap_or(nothing).clone();
            if let Some(value) = given.get_mut(at as usize) {
                *value = stand_in;
            }
        }
    }

    fn partners(&self, given: &[Value]) -> Vec<(u32, Option<Partner>)> {
        let marked = |places: &[u32]| {
            let mut marks = vec![false; given.len()];
            for &at in places {
                marks.iter_mut().skip(at as usize).take(1).for_each(|mark| *mark = true);
            }
            marks
        };
        let (is_idle, is_freed) = (marked(&self.footprint.idle), marked(&self.footprint.freed));
        let partner = |&at: &u32| {
            let ty = given.get(at as usize)?.ty;
            let used = (0..).zip(given).filter(|(at, _)| !is_idle[*at as usize]);
            let alike = used.filter(|(_, value)| value.ty == ty);
            let partners = alike.map(|(at, _)| Partner { at, stays: !is_freed[at as usize] });
            partners.min_by_key(|partner| !partner.stays)
        };
        self.footprint.idle.iter().map(|at| (*at, partner(at))).collect()
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
