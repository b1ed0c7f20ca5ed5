//! The serialized form of signals: one for files that people write, one for the wire, told apart by
//! the format.
//!
//! Each part is checked where it is read: messages about a file name its line, and what is above a
//! limit is refused before it is read to its end.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    MAX_LISTED, ShardAxis, Signals, check_mesh, check_microbatches, check_name, check_workers,
};

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

/// Reads an axis from a file, where `0` and `batch` are both axes and the format tells numbers from
/// texts.
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

/// What was read, if nothing is wrong with it.
fn checked<T, E: Error>(read: T, check: impl FnOnce(&T) -> Result<(), String>) -> Result<T, E> {
    check(&read).map_err(E::custom).map(|()| read)
}

/// The workers of a shard; `None` means all of them, as `all` does in a file.
pub(super) fn workers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u32>>, D::Error> {
    let listed = Option::<Listed>::deserialize(from)?;
    Ok(listed.map(|Listed(workers)| workers).filter(|workers| !workers.is_empty()))
}

/// The rows of a mesh.
pub(super) fn mesh<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Vec<u32>>>, D::Error> {
    let rows = Option::<Rows>::deserialize(from)?.map(|Rows(rows)| rows);
    checked(rows, |rows: &Option<Vec<Vec<u32>>>| rows.as_deref().map_or(Ok(()), check_mesh))
}

/// How many micro-batches there are, if it is said.
pub(super) fn microbatches<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let n = Option::<u32>::deserialize(from)?;
    checked(n, |n| n.map_or(Ok(()), check_microbatches))
}

/// The rows of a mesh, each of them checked.
struct Rows(Vec<Vec<u32>>);

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Rows, D::Error> {
        from.deserialize_seq(RowsVisitor)
    }
}

/// Reads [`Rows`].
struct RowsVisitor;

impl<'de> Visitor<'de> for RowsVisitor {
    type Value = Rows;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows of workers, such as [[0, 1], [2, 3]]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Rows, A::Error> {
        let mut rows = Vec::new();
        while let Some(Listed(row)) = seq.next_element()? {
            if rows.len() == MAX_LISTED {
                return Err(A::Error::custom(format!("a mesh has at most {MAX_LISTED} rows")));
            }
            rows.push(row);
        }
        Ok(Rows(rows))
    }
}

/// A list of workers that has been checked; empty for `all`.
struct Listed(Vec<u32>);

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Listed, D::Error> {
        match from.is_human_readable() {
            true => from.deserialize_any(ListedVisitor),
            false => from.deserialize_seq(ListedVisitor),
        }
    }
}

/// Reads [`Listed`].
struct ListedVisitor;

impl<'de> Visitor<'de> for ListedVisitor {
    type Value = Listed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of workers, by number, or `all`")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Listed, E> {
        match word {
            "all" => Ok(Listed(Vec::new())),
            _ => Err(E::custom(format!("`{word}` is not a list of workers, nor `all`"))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Listed, A::Error> {
        let mut workers = Vec::new();
        while let Some(worker) = seq.next_element()? {
            workers.push(worker);
        }
        checked(workers, |workers| check_workers(workers)).map(Listed)
    }
}

/// The name of the signal of a backward walk, if one is given.
pub(super) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Option::<Name>::deserialize(from).map(|name| name.map(|Name(name)| name))
}

/// The name of a signal, checked as a key of [`Signals`] is.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        NewName(&Signals::new()).deserialize(from).map(Name)
    }
}

/// Reads the name of a signal about which nothing is said yet.
pub(crate) struct NewName<'a>(pub(crate) &'a Signals);

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

/// Reads [`Signals`], each of them checked before the next is read: a file with a million signals
/// ends at the limit and takes no memory for the rest.
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
