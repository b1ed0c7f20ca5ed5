//! What a program says about its signals: how the work recorded in a scope is to be spread over
//! workers, as plain data.
//!
//! Guarantees: whatever [`Signals`] holds is within the limits below, wherever it came from; two
//! that say the same are equal, encode to the same bytes and print the same text. How they are
//! written to files and to the wire, and held to the limits when read, is in `serial`; how they
//! print, in `print`; their part of the JSON Schema of files, in `schema`.
//!
//! Does not: read files, follow scopes or place anything. A signal nobody configured, and a
//! configuration no scope refers to, are harmless.

mod print;
#[cfg(feature = "schema")]
mod schema;
mod serial;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shape::MAX_RANK;
use crate::tape::{Entry, MAX_STRING, Tape};

pub(crate) use serial::NewName;

/// The most signals a session may configure.
pub const MAX_SIGNALS: usize = 1 << 10;
/// The most workers one signal may name.
pub const MAX_LISTED: usize = 1 << 10;
/// The most micro-batches of a signal.
pub const MAX_MICROBATCHES: u32 = 256;
/// About the most bytes all of them together may take.
pub const MAX_SIGNAL_BYTES: usize = 256 << 10;

/// An axis of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShardAxis {
    /// By position; negative ones count from the end.
    Number(i64),
    /// By the name of the dimension, in whichever place it stands.
    Named(String),
}

/// How sums of floats are computed whose addends are spread over workers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// Each worker adds its own addends, and the sums of the workers are added. The last bits
    /// depend on the number of workers.
    #[default]
    Usual,
    /// As one worker computes them, to the bit. The addends travel in place of their sums, and each
    /// worker adds all of them.
    Pinned,
}

/// In which order the stages of a pipeline compute micro-batches.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// Each stage goes through all micro-batches forward, and then through all of them backward.
    Gpipe,
    /// As soon as a stage can, it goes backward through a micro-batch after it went forward through
    /// another, so that it holds no more micro-batches than there are stages after it, and its own.
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
}

/// How the tensors of a scope, and with them its work, are spread over workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("dependentRequired" = {"columns": ["mesh"]})))]
#[serde(default, deny_unknown_fields, expecting = "keys such as `axis` and `workers`")]
pub struct ShardConfig {
    /// The axis that is cut, one part for each worker.
    pub axis: ShardAxis,
    /// The workers, by number from 0 on. All workers if it is left out.
    #[serde(deserialize_with = "serial::workers")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::workers"))]
    pub workers: Option<Vec<u32>>,
    /// The workers in rows of equal length, in place of `workers`. The axis is cut by rows, so the
    /// workers of a row have the same part.
    #[serde(deserialize_with = "serial::mesh")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::mesh"))]
    pub mesh: Option<Vec<Vec<u32>>>,
    /// The axis that is cut by the columns of the mesh.
    pub columns: Option<ShardAxis>,
    /// Whether each of the workers has the whole instead.
    pub replicated: bool,
    /// `true`: a wish, which is dropped in a segment that is estimated to be faster without it.
    /// `false`: a demand.
    pub open: bool,
    /// The order in which contradicting signals are heard: the lowest number first, then the
    /// innermost scope, then the first use.
    pub priority: u32,
    /// How sums of floats are computed whose addends are spread over workers.
    pub reduction: Reduction,
    /// Into so many micro-batches each worker's part is cut along the axis once more. They are
    /// computed one after the other, and their gradients are added up.
    #[serde(deserialize_with = "serial::microbatches")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::microbatches"))]
    pub microbatches: Option<u32>,
    /// In which order the stages of a pipeline compute micro-batches.
    pub schedule: Schedule,
}

/// The configuration of one signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, expecting = "keys such as `shard` and `backward`")]
pub struct SignalConfig {
    /// How its tensors are spread.
    pub shard: Option<ShardConfig>,
    /// The signal of the gradients of what is recorded under it.
    #[serde(deserialize_with = "serial::name")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::name"))]
    pub backward: Option<String>,
    /// Whether its work is to be compiled the first time it is seen.
    pub compile: bool,
}

/// Why a configuration is refused. The message names the signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignalError(String);

/// The configurations of all signals of a session, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signals(BTreeMap<String, SignalConfig>);

impl Default for ShardAxis {
    fn default() -> ShardAxis {
        ShardAxis::Number(0)
    }
}

impl From<i64> for ShardAxis {
    fn from(axis: i64) -> ShardAxis {
        ShardAxis::Number(axis)
    }
}

impl From<&str> for ShardAxis {
    fn from(name: &str) -> ShardAxis {
        ShardAxis::Named(name.to_owned())
    }
}

impl SignalConfig {
    /// What is wrong with it, if anything.
    fn check(&self) -> Result<(), String> {
        self.backward.as_deref().map_or(Ok(()), check_name)?;
        self.shard.as_ref().map_or(Ok(()), ShardConfig::check)
    }

    fn bytes(&self) -> usize {
        let shard = self.shard.as_ref();
        let workers = shard.and_then(ShardConfig::named).map_or(0, |named| named.len());
        64 + self.backward.as_ref().map_or(0, String::len) + 4 * workers
    }
}

impl ShardConfig {
    fn check(&self) -> Result<(), String> {
        self.axis.check()?;
        self.columns.as_ref().map_or(Ok(()), ShardAxis::check)?;
        if self.mesh.is_some() && self.workers.is_some() {
            return Err("both `workers` and `mesh` are given; the mesh lists the workers".into());
        }
        if self.columns.is_some() && self.mesh.is_none() {
            return Err("`columns` needs a `mesh`, such as [[0, 1], [2, 3]]".into());
        }
        if self.columns.as_ref() == Some(&self.axis) {
            return Err(format!("rows and columns of the mesh both cut axis {}", self.axis));
        }
        self.microbatches.map_or(Ok(()), check_microbatches)?;
        self.workers.as_deref().map_or(Ok(()), check_workers)?;
        self.mesh.as_deref().map_or(Ok(()), check_mesh)
    }

    /// Whether each worker's part is cut into micro-batches.
    #[must_use]
    pub fn takes_turns(&self) -> bool {
        self.microbatches.is_some_and(|n| n > 1)
    }

    /// The workers that it names, in order; none if it means all.
    #[must_use]
    pub fn named(&self) -> Option<Vec<u32>> {
        self.workers.clone().or_else(|| Some(self.mesh.as_ref()?.concat()))
    }
}

impl ShardAxis {
    fn check(&self) -> Result<(), String> {
        match self {
            ShardAxis::Number(axis) if !(-(MAX_RANK as i64)..MAX_RANK as i64).contains(axis) => {
                Err(format!("axis {axis}: tensors have at most {MAX_RANK} axes"))
            }
            ShardAxis::Number(_) => Ok(()),
            ShardAxis::Named(name) => check_name(name),
        }
    }
}

fn check_microbatches(n: u32) -> Result<(), String> {
    match n {
        0 => Err("0 micro-batches; leave `microbatches` out to compute all at once".into()),
        1..=MAX_MICROBATCHES => Ok(()),
        _ => Err(format!("{n} micro-batches are more than the {MAX_MICROBATCHES} there may be")),
    }
}

fn check_workers(workers: &[u32]) -> Result<(), String> {
    if workers.is_empty() {
        return Err("the list of workers is empty; leave `workers` out to mean all".into());
    }
    if workers.len() > MAX_LISTED {
        let listed = workers.len();
        return Err(format!("{listed} workers are more than the {MAX_LISTED} a signal may list"));
    }
    let mut sorted = workers.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("worker {} is listed twice", pair[0])),
        None => Ok(()),
    }
}

fn check_mesh(mesh: &[Vec<u32>]) -> Result<(), String> {
    let width = mesh.first().map_or(0, Vec::len);
    match mesh.iter().position(|row| row.len() != width) {
        Some(row) => Err(format!(
            "row {row} of the mesh has {} workers, and the first row {width}",
            mesh[row].len()
        )),
        None => check_workers(&mesh.concat()),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        0 => Err("a name is empty".into()),
        1..=MAX_STRING => Ok(()),
        long => Err(format!("a name of {long} bytes is above the limit of {MAX_STRING}")),
    }
}

impl Signals {
    /// The last worker that a signal names, by its number.
    #[must_use]
    pub fn last_worker(&self) -> Option<u32> {
        let shards = self.0.values().filter_map(|config| config.shard.as_ref());
        shards.filter_map(ShardConfig::named).flatten().max()
    }

    /// Whether a signal asks for micro-batches.
    #[must_use]
    pub fn take_turns(&self) -> bool {
        let mut shards = self.0.values().filter_map(|config| config.shard.as_ref());
        shards.any(ShardConfig::takes_turns)
    }

    /// Whether a tape opens the scope of a signal whose work is compiled before its first run.
    #[must_use]
    pub fn compiles(&self, tape: &Tape) -> bool {
        let asks = |config: &SignalConfig| config.compile;
        let asks = |entry: &Entry| match entry {
            Entry::Enter(name) => self.0.get(&**name).is_some_and(asks),
            Entry::Instr(_)
            | Entry::Free(_)
            | Entry::Exit(_)
            | Entry::Input { .. }
            | Entry::Output { .. } => false,
        };
        self.0.values().any(|config| config.compile) && tape.entries.iter().any(asks)
    }

    /// Nothing is said about any signal.
    #[must_use]
    pub const fn new() -> Signals {
        Signals(BTreeMap::new())
    }

    /// Says something about a signal, in place of what was said before, which is given back.
    ///
    /// # Errors
    /// The configuration contradicts itself or is above a limit; everything stays as it was.
    pub fn set(
        &mut self,
        name: &str,
        config: SignalConfig,
    ) -> Result<Option<SignalConfig>, SignalError> {
        let refuse = |why: String| SignalError(format!("signal {name:?}: {why}"));
        check_name(name).and_then(|()| config.check()).map_err(refuse)?;
        if !self.0.contains_key(name) && self.0.len() >= MAX_SIGNALS {
            return Err(refuse(format!("there are {MAX_SIGNALS} signals already, the limit")));
        }
        let bytes = self.bytes() + name.len() + config.bytes();
        if bytes > MAX_SIGNAL_BYTES {
            let why = format!("all signals together take {bytes} bytes, of {MAX_SIGNAL_BYTES}");
            return Err(refuse(why));
        }
        Ok(self.0.insert(name.to_owned(), config))
    }

    /// The configuration of a signal.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SignalConfig> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SignalConfig)> {
        self.0.iter().map(|(name, config)| (name.as_str(), config))
    }

    /// How many signals something is said about.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is said about any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// About the bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, config)| name.len() + config.bytes()).sum()
    }
}
