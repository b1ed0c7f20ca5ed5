//! The memory that the sessions of a worker hold, for statistics and out-of-memory errors.
//!
//! A client sees the names of its user's other clients and how many bytes each holds. Of other
//! users it sees one total. This module gives no session a share of the memory.

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
/// The clients of other users, which are not told apart.
const OTHER_USERS: &str = "clients of other users";

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
    holdings_of(sessions, own, |table| table.live().0)
}

/// As `everybody_else`, with the number of bytes that a table holds.
fn holdings_of(
    sessions: &BTreeMap<SessionId, Table>,
    own: SessionId,
    held: impl Fn(&Table) -> u64,
) -> Vec<Holding> {
    let user = |table: &Table| table.client.as_ref().map(|(_, user)| *user);
    let own_user = sessions.get(&own).and_then(user);
    let others = sessions.iter().filter(|(id, _)| **id != own);
    let (same, foreign): (Vec<_>, Vec<_>) = others.partition(|(_, table)| user(table) == own_user);
    let holding = |(id, table): (&SessionId, &Table)| {
        let client =
            table.client.as_ref().map_or_else(|| id.to_string(), |(name, _)| name.to_string());
        Holding { client, bytes: held(table) }
    };
    let foreign = foreign.into_iter().map(|(_, table)| held(table)).sum();
    let foreign = Holding { client: OTHER_USERS.into(), bytes: foreign };
    let all = same.into_iter().map(holding).chain([foreign]);
    let mut all: Vec<Holding> = all.filter(|held| held.bytes > 0).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_are_one_total() {
        let table = |name: &str, user| {
            let mut table = Table::default();
            table.client = Some((name.into(), user));
            table
        };
        let sessions = [(1, "a", 7), (2, "b", 7), (3, "c", 8), (4, "d", 9)];
        let sessions: BTreeMap<SessionId, Table> = sessions
            .into_iter()
            .map(|(id, name, user)| (SessionId(id), table(name, user)))
            .collect();
        let names = |own| {
            let held = holdings_of(&sessions, SessionId(own), |_| 4);
            held.into_iter().map(|held| (held.client, held.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(names(1), [(OTHER_USERS.to_owned(), 8), ("b".to_owned(), 4)]);
        assert_eq!(names(3), [(OTHER_USERS.to_owned(), 12)]);
    }
}
