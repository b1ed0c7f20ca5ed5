//! Turns: each member does the work of several places of its mesh one after the other, such as
//! micro-batches. A mesh has them as its last axis, so a micro-batch is a part of a batch as any
//! other: the factors of ops carry it on, and gradients are partial sums.
//!
//! Every local value has a [`Moment`]. The key of a moment orders the work of a member. Along each
//! way through the values of all members keys never fall, and they rise where a value is sent. So
//! each member may do its work in the order of keys, and no two wait for each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use gt_ir::Entry;
use gt_ir::signal::{Schedule, ShardConfig};

use super::Request;
use super::scopes::Dropped;

/// The most instructions of a segment in all turns: their work grows with the turns.
const MAX_INSTRUCTIONS: usize = 1 << 19;

/// How many turns the members take in a segment, and in which order stages take theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turns {
    pub(super) n: usize,
    pub(super) schedule: Schedule,
}

impl Turns {
    /// Members do all at once.
    pub(super) const NONE: Turns = Turns { n: 1, schedule: Schedule::Gpipe };

    /// What the signals of a segment ask for: the most turns of all. Also what they do not get.
    pub(super) fn of(request: &Request<'_>, dropped: &Dropped) -> (Turns, Vec<String>) {
        let asked = asked(request, dropped);
        let most = asked.iter().map(|(_, shard)| wished(shard)).max().unwrap_or(1);
        let entries = request.template.tape.entries.len().max(1);
        let n = most.min((MAX_INSTRUCTIONS / entries).max(1));
        let first = asked.iter().find(|(_, shard)| wished(shard) == most);
        let schedule = first.map_or(Schedule::default(), |(_, shard)| shard.schedule);
        let mut warnings = Vec::new();
        for (name, shard) in &asked {
            let wished = wished(shard);
            if wished != 1 && wished != n {
                warnings.push(format!(
                    "signal {name:?} asks for {wished} micro-batches, and its segment has {n}"
                ));
            } else if wished == n && shard.schedule != schedule {
                warnings.push(format!(
                    "signal {name:?} asks for schedule {}, and its segment has {schedule}",
                    shard.schedule
                ));
            }
        }
        (Turns { n, schedule }, warnings)
    }
}

fn wished(shard: &ShardConfig) -> usize {
    shard.microbatches.map_or(1, |n| n.max(1) as usize)
}

/// The signals of a segment that ask for micro-batches, in the order in which they come.
fn asked<'a>(request: &Request<'a>, dropped: &Dropped) -> Vec<(Arc<str>, &'a ShardConfig)> {
    let signals = request.signals;
    if !signals.take_turns() {
        return Vec::new();
    }
    let (mut seen, mut asked) = (BTreeSet::new(), Vec::new());
    for entry in &request.template.tape.entries {
        if let Entry::Enter(name) = entry
            && seen.insert(Arc::clone(name))
            && !dropped.contains(name)
            && let Some(shard) = signals.get(name).and_then(|config| config.shard.as_ref())
            && shard.takes_turns()
        {
            asked.push((Arc::clone(name), shard));
        }
    }
    asked
}

/// When a local value is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    /// How many exchanges have happened.
    pub(super) level: u32,
    /// How many of them were between stages of a pipeline. Without turns they are not counted.
    pub(super) hop: u32,
    /// The last turn of which it needs anything.
    pub(super) turn: u32,
}

/// The place of a moment in the order of a member's work.
pub(super) type Key = [u32; 3];

impl Moment {
    /// The first moment at which both are there.
    pub(super) fn max(self, other: Moment) -> Moment {
        Moment {
            level: self.level.max(other.level),
            hop: self.hop.max(other.hop),
            turn: self.turn.max(other.turn),
        }
    }

    /// When another member has the value. `leaves` says that it is one of another stage.
    pub(super) fn after_exchange(self, leaves: bool) -> Moment {
        Moment { level: self.level + 1, hop: self.hop + u32::from(leaves), ..self }
    }

    /// A stage takes its turns one after the other, each through all exchanges within the stage.
    /// What comes back to it, such as gradients, has more hops. By `gpipe` it comes after all
    /// turns. By `1f1b` a value enters the pipeline every second step: of the `2 n` hops until it
    /// comes back, `n` are steps in which others enter.
    pub(super) fn key(self, schedule: Schedule) -> Key {
        let Moment { level, hop, turn } = self;
        match schedule {
            Schedule::Gpipe => [hop, turn, level],
            Schedule::OneForwardOneBackward => [hop + 2 * turn, hop, level],
        }
    }
}
