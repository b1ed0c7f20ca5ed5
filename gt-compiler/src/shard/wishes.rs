//! Open signals: wishes that are dropped in a segment that is estimated to be faster without them.
//!
//! A segment is partitioned with and without each wish. An upload by itself never pays for its
//! journey, so a wish is judged by all that follows from it in the segment. Values from before the
//! segment count as there already: a program that repeats the segment finds them where it left
//! them.
//!
//! Does not: try all subsets. A wish that is dropped is not tried again.

use std::sync::Arc;

use gt_ir::signal::{ShardConfig, Signals};
use gt_ir::{Entry, OpError};

use super::Request;
use super::report::Wish;
use super::scopes::Dropped;
use super::sharder::{Sharder, Sums};

/// The most wishes that are tried one by one; more are tried together.
const MAX_TRIED: usize = 8;
/// The part of the time that a segment has to save for a wish to be dropped: estimates are rough.
const LENIENCE: f64 = 0.1;

/// The open signals of a segment that are not granted, and why.
pub(super) fn decide(request: &Request<'_>) -> Result<(Dropped, Vec<Wish>), OpError> {
    let trials = trials(request);
    let (mut dropped, mut wishes) = (Dropped::new(), Vec::new());
    if trials.is_empty() {
        return Ok((dropped, wishes));
    }
    let all = trials.concat();
    let mut seconds = estimate(request, &dropped)?;
    for signals in trials {
        let wish = tried(request, signals, &mut dropped, &mut seconds)?;
        wishes.push(wish);
    }
    // Two wishes may be slow together although neither is slow alone.
    if wishes.len() > 1 && all.iter().any(|signal| !dropped.contains(signal)) {
        let together = tried(request, all, &mut dropped, &mut seconds)?;
        if !together.granted {
            wishes = vec![together];
        }
    }
    Ok((dropped, wishes))
}

fn estimate(request: &Request<'_>, dropped: &Dropped) -> Result<f64, OpError> {
    Ok(Sharder::new(request, dropped, Sums::Repeated)?.seconds(|_| true)?.0)
}

/// Drops signals if the segment is faster without them.
fn tried(
    request: &Request<'_>,
    signals: Vec<Arc<str>>,
    dropped: &mut Dropped,
    seconds: &mut f64,
) -> Result<Wish, OpError> {
    let others = dropped.clone();
    dropped.extend(signals.iter().cloned());
    let (with, without) = (*seconds, estimate(request, dropped)?);
    let granted = without >= with * (1.0 - LENIENCE);
    match granted {
        true => *dropped = others,
        false => *seconds = without,
    }
    Ok(Wish { signals, granted, with, without })
}

/// The open signals of a segment, each alone, the one with the highest priority number first.
fn trials(request: &Request<'_>) -> Vec<Vec<Arc<str>>> {
    let mut names: Vec<&Arc<str>> = Vec::new();
    let open = |name| shard(request.signals, name).is_some_and(|shard| shard.open);
    if !request.signals.iter().any(|(name, _)| open(name)) {
        return Vec::new();
    }
    for entry in &request.template.tape.entries {
        if let Entry::Enter(name) = entry
            && open(name)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    let priority = |name: &&Arc<str>| shard(request.signals, name).map(|shard| shard.priority);
    names.sort_by_key(|name| std::cmp::Reverse(priority(name)));
    let alone = names.len().min(MAX_TRIED);
    let (first, rest) = names.split_at(if names.len() > MAX_TRIED { alone - 1 } else { alone });
    let mut trials: Vec<Vec<Arc<str>>> = first.iter().map(|name| vec![Arc::clone(name)]).collect();
    if !rest.is_empty() {
        trials.push(rest.iter().map(|name| Arc::clone(name)).collect());
    }
    trials
}

fn shard<'a>(signals: &'a Signals, name: &str) -> Option<&'a ShardConfig> {
    signals.get(name)?.shard.as_ref()
}
