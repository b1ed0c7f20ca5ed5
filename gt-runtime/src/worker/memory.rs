//! The memory that the sessions of a worker hold, for statistics and out-of-memory errors.
//!
//! A client sees the names of other clients and how many bytes each holds, and nothing else. This
//! module gives no session a share of the memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use gt_compiler::engine::Engine;
use gt_ir::backend::{Holding, MemoryStats, RunError};

use super::table::Table;
use crate::ids::SessionId;
use crate::log::size_text;
use crate::wire::codec::cut;

/// The most other clients named in an error, and in statistics.
const MOST_IN_ERROR: usize = 8;
const MOST_IN_STATS: usize = 64;

/// An engine's use of memory.
pub(super) fn of_engine(engine: &dyn Engine) -> MemoryStats {
    let stats = engine.stats();
    MemoryStats {
        live: stats.live_bytes as u64,
        peak: stats.peak_bytes as u64,
        cached: stats.pooled_bytes as u64,
        limit: engine.info().memory_limit as u64,
    }
}

/// The memory that other sessions hold, the largest first.
pub(super) fn others(sessions: &BTreeMap<SessionId, Table>, own: SessionId) -> Vec<Holding> {
    let mut all = everybody_else(sessions, own);
    all.truncate(MOST_IN_STATS);
    all
}

fn everybody_else(sessions: &BTreeMap<SessionId, Table>, own: SessionId) -> Vec<Holding> {
    let others = sessions.iter().filter(|(id, _)| **id != own);
    let holding = |(id, table): (&SessionId, &Table)| {
        let client = table.client.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
        Holding { client, bytes: table.live().0 }
    };
    let mut all: Vec<Holding> = others.map(holding).filter(|held| held.bytes > 0).collect();
    all.sort_by_key(|held| Reverse(held.bytes));
    all
}

/// An out-of-memory error, with the memory that each client holds.
pub(super) fn with_holders(
    error: &RunError,
    sessions: &BTreeMap<SessionId, Table>,
    own: SessionId,
    engine: &dyn Engine,
) -> Arc<RunError> {
    let message = error.message.clone() + &holders(sessions, own, engine);
    Arc::new(RunError { message: cut(message), ..error.clone() })
}

fn holders(sessions: &BTreeMap<SessionId, Table>, own: SessionId, engine: &dyn Engine) -> String {
    let (bytes, n) = sessions.get(&own).map(Table::live).unwrap_or_default();
    let s = if n == 1 { "" } else { "s" };
    let mut text = format!("\n  this client holds {} in {n} value{s}", size(bytes));
    let others = everybody_else(sessions, own);
    let (named, rest) = others.split_at(others.len().min(MOST_IN_ERROR));
    for Holding { client, bytes } in named {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {client} holds {}", size(*bytes));
    }
    if !rest.is_empty() {
        let bytes = rest.iter().map(|held| held.bytes).sum();
        let _ = write!(text, "\n  {} more clients hold {}", rest.len(), size(bytes));
    }
    let memory = of_engine(engine);
    let (live, limit, cached) = (size(memory.live), size(memory.limit), size(memory.cached));
    let _ = write!(text, "\n  the engine uses {live} of {limit} and keeps {cached} for reuse");
    text
}

fn size(bytes: u64) -> String {
    if bytes == 0 { "nothing".into() } else { size_text(bytes) }
}
