//! What a program says about its signals: how the work recorded in a scope is to be spread over workers, as plain data.
//!
//! Guarantees: whatever [`Signals`] holds is within the limits below, wherever it came from; two that say the same are equal, encode to the
//! same bytes and print the same text.
//!
//! Does not: read files, follow scopes or place anything. A signal nobody configured, and a configuration no scope refers to, are harmless.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::shape::MAX_RANK;
use crate::text::MAX_STRING;

/// The most signals a session may configure.
pub const MAX_SIGNALS: usize = 1 << 10;
/// The most workers one signal may name.
pub const MAX_LISTED: usize = 1 << 10;
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

/// How the tensors of a scope, and with them its work, are spread over workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShardConfig {
    /// The axis that is cut, one part a worker.
    pub axis: ShardAxis,
    /// The workers, by number from 0; all there are when none is named.
    #[serde(deserialize_with = "read_workers")]
    pub workers: Option<Vec<u32>>,
    /// Whether each of the workers has the whole instead.
    pub replicated: bool,
    /// Whether this is a wish, to be dropped where something else is faster, and not a demand.
    pub open: bool,
    /// Where two signals contradict each other, the one with the lower number is heard first.
    pub priority: u32,
}

/// What is said about one signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SignalConfig {
    /// How its tensors are spread.
    pub shard: Option<ShardConfig>,
    /// The signal of the gradients of what is recorded under it.
    #[serde(deserialize_with = "read_name")]
    pub backward: Option<String>,
    /// Whether its work is to be compiled the first time it is seen.
    pub compile: bool,
}

/// Why a configuration is refused. The message names the signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignalError(String);

/// What is said about all signals of a session, by their names.
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
        let listed = |shard: &ShardConfig| shard.workers.as_ref().map_or(0, Vec::len);
        let workers = self.shard.as_ref().map_or(0, listed);
        64 + self.backward.as_ref().map_or(0, String::len) + 4 * workers
    }
}

impl ShardConfig {
    fn check(&self) -> Result<(), String> {
        self.axis.check()?;
        self.workers.as_deref().map_or(Ok(()), check_workers)
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

fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        0 => Err("a name is empty".into()),
        1..=MAX_STRING => Ok(()),
        long => Err(format!("a name of {long} bytes is above the limit of {MAX_STRING}")),
    }
}

impl Signals {
    /// Nothing is said about any signal.
    #[must_use]
    pub const fn new() -> Signals {
        Signals(BTreeMap::new())
    }

    /// Says something about a signal, in place of what was said before, which is given back.
    ///
    /// # Errors
    /// What is said contradicts itself or is above a limit; everything stays as it was.
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

    /// What is said about a signal.
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

impl fmt::Display for ShardAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardAxis::Number(axis) => axis.fmt(f),
            ShardAxis::Named(name) => name.fmt(f),
        }
    }
}

/// `axis 0 of workers 0, 1, or elsewhere; priority 2`.
impl fmt::Display for ShardConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replicated {
            true => f.write_str("replicated on")?,
            false => write!(f, "axis {} over", self.axis)?,
        }
        match &self.workers {
            None => f.write_str(" all workers")?,
            Some(list) => {
                let names: Vec<String> = list.iter().map(u32::to_string).collect();
                write!(f, " workers {}", names.join(", "))?;
            }
        }
        if self.open {
            f.write_str(", if nothing else is faster")?;
        }
        if self.priority > 0 { write!(f, ", priority {}", self.priority) } else { Ok(()) }
    }
}

/// `shard axis 0 over all workers; backward "b"; compile`.
impl fmt::Display for SignalConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.shard.as_ref().map(|shard| format!("shard {shard}")));
        parts.extend(self.backward.as_ref().map(|name| format!("backward {name:?}")));
        parts.extend(self.compile.then(|| "compile".to_owned()));
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}

/// One line a signal.
impl fmt::Display for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, config)| writeln!(f, "signal {name:?}: {config}"))
    }
}

/// In files an axis is a number or a name, as it stands; on the wire it says which.
#[derive(Serialize, Deserialize)]
enum OnWire {
    Number(i64),
    Named(String),
}

impl Serialize for ShardAxis {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (self, to.is_human_readable()) {
            (ShardAxis::Number(axis), true) => to.serialize_i64(*axis),
            (ShardAxis::Named(name), true) => to.serialize_str(name),
            (ShardAxis::Number(axis), false) => OnWire::Number(*axis).serialize(to),
            (ShardAxis::Named(name), false) => OnWire::Named(name.clone()).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for ShardAxis {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ShardAxis, D::Error> {
        if from.is_human_readable() {
            return from.deserialize_any(AxisVisitor);
        }
        let axis = match OnWire::deserialize(from)? {
            OnWire::Number(axis) => ShardAxis::Number(axis),
            OnWire::Named(name) => ShardAxis::Named(name),
        };
        checked(axis, ShardAxis::check)
    }
}

struct AxisVisitor;

impl Visitor<'_> for AxisVisitor {
    type Value = ShardAxis;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an axis: its number, or the name of a dimension")
    }

    fn visit_i64<E: Error>(self, axis: i64) -> Result<ShardAxis, E> {
        checked(ShardAxis::Number(axis), ShardAxis::check)
    }

    fn visit_u64<E: Error>(self, axis: u64) -> Result<ShardAxis, E> {
        self.visit_i64(i64::try_from(axis).unwrap_or(i64::MAX))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ShardAxis, E> {
        checked(ShardAxis::Named(name.to_owned()), ShardAxis::check)
    }
}

/// What was read, if nothing is wrong with it. Each part is checked where it is read, so that messages about a file name its line.
fn checked<T, E: Error>(read: T, check: impl FnOnce(&T) -> Result<(), String>) -> Result<T, E> {
    check(&read).map_err(E::custom).map(|()| read)
}

fn read_workers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u32>>, D::Error> {
    Option::<Listed>::deserialize(from).map(|listed| listed.map(|Listed(workers)| workers))
}

struct Listed(Vec<u32>);

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Listed, D::Error> {
        from.deserialize_seq(ListedVisitor)
    }
}

struct ListedVisitor;

impl<'de> Visitor<'de> for ListedVisitor {
    type Value = Listed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of workers, by number")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Listed, A::Error> {
        let mut workers = Vec::new();
        while let Some(worker) = seq.next_element()? {
            workers.push(worker);
        }
        checked(workers, |workers| check_workers(workers)).map(Listed)
    }
}

fn read_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Option::<Name>::deserialize(from).map(|name| name.map(|Name(name)| name))
}

struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        NewName(&Signals::new()).deserialize(from).map(Name)
    }
}

/// Reads the name of a signal about which nothing is said yet.
struct NewName<'a>(&'a Signals);

impl<'de> DeserializeSeed<'de> for NewName<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NewName<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a signal")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
        if self.0.get(name).is_some() {
            return Err(E::custom(format!("signal {name:?} is configured twice")));
        }
        checked(name.to_owned(), |name| check_name(name))
    }
}

impl Serialize for Signals {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

/// Checked part by part: what is above a limit is refused before it is read to its end.
impl<'de> Deserialize<'de> for Signals {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Signals, D::Error> {
        from.deserialize_map(SignalsVisitor)
    }
}

struct SignalsVisitor;

impl<'de> Visitor<'de> for SignalsVisitor {
    type Value = Signals;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("signals, each a name with what is said about it")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Signals, A::Error> {
        let mut signals = Signals::new();
        while let Some(name) = map.next_key_seed(NewName(&signals))? {
            signals.set(&name, map.next_value()?).map_err(A::Error::custom)?;
        }
        Ok(signals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(axis: impl Into<ShardAxis>, workers: &[u32]) -> SignalConfig {
        let shard = ShardConfig {
            axis: axis.into(),
            workers: Some(workers.to_vec()),
            ..ShardConfig::default()
        };
        SignalConfig { shard: Some(shard), ..SignalConfig::default() }
    }

    #[test]
    fn what_contradicts_itself_is_refused_and_changes_nothing() {
        let mut signals = Signals::new();
        signals.set("a", shard(0, &[0, 1])).unwrap();
        let before = signals.clone();
        let long = "x".repeat(MAX_STRING + 1);
        let backward = SignalConfig { backward: Some(String::new()), ..SignalConfig::default() };
        for (name, config, want) in [
            ("a", shard(8, &[0]), "signal \"a\": axis 8: tensors have at most 8 axes"),
            ("a", shard(-9, &[0]), "signal \"a\": axis -9: tensors have at most 8 axes"),
            ("a", shard(0, &[2, 1, 2]), "signal \"a\": worker 2 is listed twice"),
            ("a", shard("", &[1]), "signal \"a\": a name is empty"),
            ("b", backward, "signal \"b\": a name is empty"),
            ("", SignalConfig::default(), "signal \"\": a name is empty"),
        ] {
            assert_eq!(signals.set(name, config).unwrap_err().to_string(), want);
        }
        assert!(signals.set("a", shard(0, &[])).is_err());
        assert!(signals.set("a", shard(0, &vec![7; MAX_LISTED + 1])).is_err());
        assert!(signals.set(&long, SignalConfig::default()).is_err());
        assert_eq!(signals, before);
        assert!(signals.set("a", shard(-8, &[3])).unwrap().is_some());
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut signals = Signals::new();
        for i in 0..MAX_SIGNALS {
            signals.set(&i.to_string(), SignalConfig::default()).unwrap();
        }
        let said = signals.set("more", SignalConfig::default()).unwrap_err().to_string();
        assert_eq!(said, "signal \"more\": there are 1024 signals already, the limit");
        let wide = shard(0, &(0..MAX_LISTED as u32).collect::<Vec<_>>());
        let fits =
            (0..MAX_SIGNALS).take_while(|i| signals.set(&i.to_string(), wide.clone()).is_ok());
        let fits = fits.count();
        assert!(0 < fits && fits < MAX_SIGNALS && signals.bytes() <= MAX_SIGNAL_BYTES, "{fits}");
    }

    #[test]
    fn the_wire_gives_back_what_it_was_given_and_nothing_above_the_limits() {
        let mut signals = Signals::new();
        signals.set("a", shard("Batch", &[0, 1])).unwrap();
        let all = SignalConfig {
            shard: Some(ShardConfig {
                axis: (-1).into(),
                replicated: true,
                open: true,
                priority: 3,
                ..ShardConfig::default()
            }),
            backward: Some("a".into()),
            compile: true,
        };
        signals.set("b", all).unwrap();
        let bytes = postcard::to_stdvec(&signals).unwrap();
        assert_eq!(postcard::from_bytes::<Signals>(&bytes).unwrap(), signals);
        for bad in [shard(9, &[0]), shard(0, &[1, 1])] {
            let raw = BTreeMap::from([("a".to_owned(), bad)]);
            let bytes = postcard::to_stdvec(&raw).unwrap();
            assert!(postcard::from_bytes::<Signals>(&bytes).is_err());
        }
        assert_eq!(
            signals.to_string(),
            "signal \"a\": shard axis Batch over workers 0, 1\n\
             signal \"b\": shard replicated on all workers, if nothing else is faster, priority 3; backward \"a\"; compile\n"
        );
    }
}
