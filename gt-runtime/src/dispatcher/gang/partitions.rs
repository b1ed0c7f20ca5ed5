//! The partitions of a session's segments. The least recently used ones are given up.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gt_compiler::shard::{Auto, Partition, Rates, Request, partition};
use gt_ir::OpError;
use gt_ir::canonical::{Bindings, Key, Matcher, Template};
use gt_ir::layout::Layout;
use gt_ir::lru::Lru;
use gt_ir::shape::Type;
use gt_ir::signal::Signals;

use super::routines::{self, Routines};

/// The most partitions of one session.
const MAX_PARTITIONS: usize = 256;
/// How many times as long as a partition without a plan one with a plan takes.
const WALKS: usize = 16;

/// The inputs of a segment with their places, and the places of its uploads.
pub(super) type Places = (Vec<(Type, Layout)>, Vec<Layout>);

/// What the program says about its signals, how the layouts that they leave open are planned, and
/// the number of members.
pub(super) type How = (Arc<Signals>, Option<(Auto, Rates)>, u32);

/// What a partition depends on besides the signals: the segment, the places of its values, the
/// number of members, and how it is planned.
type Case = (Key, Places, u32, Option<Auto>);

/// The partitions of one session.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    by_case: HashMap<Case, usize>,
    held: Lru<Held>,
    n_numbers: u32,
    /// The numbers of partitions that were given up.
    forgotten: Vec<u32>,
    matcher: Matcher,
}

#[derive(Debug)]
struct Held {
    case: Case,
    template: Template,
    partition: Arc<Partition>,
    /// The first of the numbers by which members know its routines and their templates. None until
    /// the segment has come again.
    first: Option<u32>,
    /// What members have learned.
    routines: Option<Arc<Routines>>,
}

/// A partition that is about to be carried out.
pub(super) struct Chosen {
    pub(super) slot: usize,
    pub(super) partition: Arc<Partition>,
    pub(super) how: Carried,
}

/// How a partition is carried out.
pub(super) enum Carried {
    /// Tape by tape, because it may not come again.
    Once,
    /// As routines that members learn now, by numbers from this one on.
    Anew(u32),
    /// As routines that members have learned.
    Again(Arc<Routines>),
}

/// A partition that is to be made, by anybody who has the time. A job equals only itself.
#[derive(Clone, Debug)]
pub struct Job {
    case: Case,
    template: Template,
    signals: Arc<Signals>,
    rates: Rates,
}

impl Job {
    pub(in crate::dispatcher) fn new(
        template: Template,
        places: Places,
        (signals, auto, n_members): How,
    ) -> Job {
        let (auto, rates) = auto.unzip();
        let case = (template.key, places, n_members, auto);
        Job { case, template, signals, rates: rates.unwrap_or_default() }
    }

    /// Makes the partition. Takes milliseconds for thousands of instructions on a few members, and
    /// minutes for many more.
    ///
    /// # Errors
    /// The segment cannot be partitioned.
    pub fn make(&self) -> Result<Partition, OpError> {
        let (_, (inputs, uploads), n_members, auto) = &self.case;
        let request = Request {
            template: &self.template,
            inputs,
            uploads,
            signals: &self.signals,
            n_members: *n_members,
            auto: *auto,
            rates: self.rates,
        };
        // A client may have sent a segment that nobody has verified yet.
        catch_unwind(AssertUnwindSafe(|| partition(&request)))
            .unwrap_or_else(|_| Err(OpError::new("internal: the partitioner panicked")))
    }

    /// About how many entries are looked at.
    pub(in crate::dispatcher) fn weight(&self) -> usize {
        let (_, _, n_members, auto) = &self.case;
        let walks = if auto.is_some() { WALKS } else { 1 };
        self.template.tape.entries.len().saturating_mul(*n_members as usize).saturating_mul(walks)
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Job) -> bool {
        std::ptr::eq(self, other)
    }
}

/// The partition of a segment.
pub(super) enum Sought {
    /// It is there.
    Held(Chosen),
    /// It is to be made first.
    Missing(Arc<Job>),
}

impl Partitions {
    /// The partition of a segment on members that hold its values so. `again` says that the segment
    /// has come before and will come again. It is planned as `auto` asks then, or at once if
    /// members are to share out memory. A partition of at most `small` entries is made here.
    pub(super) fn get(
        &mut self,
        template: &Template,
        places: Places,
        (signals, auto, n_members): How,
        again: bool,
        small: usize,
    ) -> Result<Sought, OpError> {
        // A segment that comes once does not pay for a plan.
        let auto = auto.filter(|(auto, _)| again || auto.zero > 0);
        let case = (template.key, places, n_members, auto.map(|(auto, _)| auto));
        let slot = match self.find(&case, template) {
            Some(slot) => slot,
            None => {
                let job = Job::new(template.clone(), case.1, (signals, auto, n_members));
                if job.weight() > small {
                    return Ok(Sought::Missing(Arc::new(job)));
                }
                self.add(&job, job.make()?)
            }
        };
        self.choose(slot, again).map(Sought::Held)
    }

    fn choose(&mut self, slot: usize, again: bool) -> Result<Chosen, OpError> {
        self.held.touch(slot);
        let held = self.held.get_mut(slot).ok_or_else(|| OpError::new("internal: no slot"))?;
        let how = match &held.routines {
            _ if !again => Carried::Once,
            Some(routines) => Carried::Again(Arc::clone(routines)),
            None if !routines::fits(&held.partition) => Carried::Once,
            None => {
                let number = self.n_numbers;
                held.first = Some(number);
                self.n_numbers += routines::n_numbers(&held.partition);
                Carried::Anew(number)
            }
        };
        Ok(Chosen { slot, partition: Arc::clone(&held.partition), how })
    }

    /// Notes that members have learned the routines of a partition.
    pub(super) fn learned(&mut self, slot: usize, routines: &Arc<Routines>) {
        if let Some(held) = self.held.get_mut(slot) {
            held.routines = Some(Arc::clone(routines));
        }
    }

    /// Gives up all partitions.
    pub(super) fn clear(&mut self) {
        while let Some(oldest) = self.held.oldest() {
            self.remove(oldest);
        }
    }

    /// The templates and routines that members are to forget.
    pub(super) fn forgotten(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.forgotten)
    }

    /// The numbers of the templates and routines that members know.
    #[cfg(test)]
    pub(super) fn templates(&self) -> impl Iterator<Item = u32> {
        let held = self.by_case.values().filter_map(|&slot| self.held.get(slot));
        held.filter_map(Held::numbers).flatten()
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

    /// Keeps a partition that was made, and says where.
    pub(super) fn add(&mut self, job: &Job, made: Partition) -> usize {
        if let Some(&slot) = self.by_case.get(&job.case) {
            self.remove(slot);
        }
        while self.held.len() >= MAX_PARTITIONS
            && let Some(oldest) = self.held.oldest()
        {
            self.remove(oldest);
        }
        let (case, template) = (job.case.clone(), job.template.clone());
        let (partition, first, routines) = (Arc::new(made), None, None);
        let held = Held { case: case.clone(), template, partition, first, routines };
        let slot = self.held.insert(held);
        self.by_case.insert(case, slot);
        slot
    }

    fn remove(&mut self, slot: usize) {
        let Some(held) = self.held.remove(slot) else { return };
        self.by_case.remove(&held.case);
        self.forgotten.extend(held.numbers().into_iter().flatten());
    }
}

impl Held {
    /// The numbers by which members know its routines and their templates.
    fn numbers(&self) -> Option<Range<u32>> {
        self.first.map(|first| first..first + routines::n_numbers(&self.partition))
    }
}
