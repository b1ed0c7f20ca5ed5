//! The partitions of a session's segments. The least recently used ones are given up.

use std::collections::HashMap;
use std::sync::Arc;

use gt_compiler::shard::{Auto, Partition, Rates, Request, Step, partition};
use gt_ir::OpError;
use gt_ir::canonical::{Bindings, Key, Matcher, Template};
use gt_ir::layout::Layout;
use gt_ir::lru::Lru;
use gt_ir::shape::Type;
use gt_ir::signal::Signals;

/// The most partitions of one session.
const MAX_PARTITIONS: usize = 256;

/// The inputs of a segment with their places, and the places of its uploads.
pub(super) type Places = (Vec<(Type, Layout)>, Vec<Layout>);

/// What a partition depends on besides the signals: the segment, the places of its values, the
/// number of members, and how it is planned.
type Case = (Key, Places, u32, Option<Auto>);

/// The partitions of one session.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    by_case: HashMap<Case, usize>,
    held: Lru<Held>,
    n_templates: u32,
    matcher: Matcher,
}

#[derive(Debug)]
struct Held {
    case: Case,
    template: Template,
    partition: Arc<Partition>,
    /// The number of the first template by which members know its tapes; the others follow. None
    /// until it is launched.
    first: Option<u32>,
}

/// A template of the members.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered {
    pub(super) number: u32,
    /// Whether members learn it now.
    pub(super) is_new: bool,
    /// Whether its launches wait until it is compiled.
    pub(super) planned: bool,
}

/// A partition that is about to be carried out.
pub(super) struct Chosen {
    pub(super) partition: Arc<Partition>,
    /// Its first template, where its tapes are launched.
    pub(super) first: Option<Numbered>,
    /// Templates that members are to forget.
    pub(super) forgotten: Vec<u32>,
}

impl Partitions {
    /// The partition of a segment on members that hold its values so. `again` says that the segment
    /// has come before and will come again. It is planned as `auto` asks then, or at once if
    /// members are to share out memory.
    pub(super) fn get(
        &mut self,
        template: &Template,
        places: Places,
        (signals, auto): (&Signals, Option<(Auto, Rates)>),
        n_members: u32,
        again: bool,
    ) -> Result<Chosen, OpError> {
        // A segment that comes once does not pay for a plan.
        let (auto, rates) = auto.filter(|(auto, _)| again || auto.zero > 0).unzip();
        let case = (template.key, places, n_members, auto);
        let mut forgotten = Vec::new();
        let slot = match self.find(&case, template) {
            Some(slot) => slot,
            None => {
                let (inputs, uploads) = (&case.1.0[..], &case.1.1[..]);
                let rates = rates.unwrap_or_default();
                let request =
                    Request { template, inputs, uploads, signals, n_members, auto, rates };
                let made = partition(&request)?;
                self.add(case, template.clone(), made, &mut forgotten)
            }
        };
        self.held.touch(slot);
        let n_templates = self.n_templates;
        let held = self.held.get_mut(slot).ok_or_else(|| OpError::new("internal: no slot"))?;
        let is_new = again && held.first.is_none();
        if is_new {
            held.first = Some(n_templates);
            self.n_templates += n_tapes(&held.partition);
        }
        let planned = is_new && signals.compiles(&template.tape);
        let first = held.first.filter(|_| again);
        let first = first.map(|number| Numbered { number, is_new, planned });
        Ok(Chosen { partition: Arc::clone(&held.partition), first, forgotten })
    }

    /// Gives up all partitions; returns the templates that members are to forget.
    pub(super) fn clear(&mut self) -> Vec<u32> {
        let mut forgotten = Vec::new();
        while let Some(oldest) = self.held.oldest() {
            self.remove(oldest, &mut forgotten);
        }
        forgotten
    }

    /// The numbers of the templates that members know.
    #[cfg(test)]
    pub(super) fn templates(&self) -> impl Iterator<Item = u32> {
        let held = self.by_case.values().filter_map(|&slot| self.held.get(slot));
        let numbers = |held: &Held| held.first.map(|first| first..first + n_tapes(&held.partition));
        held.filter_map(numbers).flatten()
    }

    /// Equal keys do not prove that two segments are equal, so their tapes are compared, each
    /// tape once.
    fn find(&mut self, case: &Case, template: &Template) -> Option<usize> {
        let slot = *self.by_case.get(case)?;
        let held = self.held.get_mut(slot)?;
        if !Arc::ptr_eq(&held.template.tape, &template.tape) {
            self.matcher.matches(&held.template, &template.tape, &mut Bindings::default()).ok()?;
            held.template = template.clone();
        }
        Some(slot)
    }

    fn add(
        &mut self,
        case: Case,
        template: Template,
        made: Partition,
        forgotten: &mut Vec<u32>,
    ) -> usize {
        if let Some(&slot) = self.by_case.get(&case) {
            self.remove(slot, forgotten);
        }
        while self.held.len() >= MAX_PARTITIONS
            && let Some(oldest) = self.held.oldest()
        {
            self.remove(oldest, forgotten);
        }
        let held = Held { case: case.clone(), template, partition: Arc::new(made), first: None };
        let slot = self.held.insert(held);
        self.by_case.insert(case, slot);
        slot
    }

    fn remove(&mut self, slot: usize, forgotten: &mut Vec<u32>) {
        let Some(held) = self.held.remove(slot) else { return };
        self.by_case.remove(&held.case);
        let tapes = held.first.map(|first| first..first + n_tapes(&held.partition));
        forgotten.extend(tapes.into_iter().flatten());
    }
}

/// How many tapes the members of a partition run.
fn n_tapes(partition: &Partition) -> u32 {
    let steps = partition.parts.iter().flat_map(|part| &part.steps);
    steps.filter(|step| matches!(step, Step::Run(_))).count() as u32
}
