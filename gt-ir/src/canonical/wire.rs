//! The serde forms: a template is its tape, which is checked to be canonical when it is read;
//! bindings are lists.
//!
//! Guarantees: as those of a [tape](crate::binary): decoding what was encoded gives an equal thing,
//! anything else is refused without a panic, with memory in proportion to what was read. Whether
//! bindings fit a template is [checked](Bindings::fits) where they are brought together.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{Bindings, Defined, Key, Template};
use crate::{
    binary::List,
    scalar::Scalar,
    tape::MAX_ENTRIES,
    tape::{Tape, ValueId},
};

/// The most literals of a segment.
const MAX_SCALARS: usize = MAX_ENTRIES;

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.tape.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Template, D::Error> {
        let tape = Tape::deserialize(deserializer)?;
        Template::new(Arc::new(tape)).map_err(Error::custom)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.to_le_bytes().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        Ok(Key(u128::from_le_bytes(<[u8; 16]>::deserialize(deserializer)?)))
    }
}

/// Definitions as they are written, without a copy of the list.
#[derive(Serialize)]
#[serde(rename = "Defined")]
enum DefinedOut<'a> {
    Run(ValueId, u64),
    List(&'a [ValueId]),
}

/// Definitions as they are read, in the same form.
#[derive(Deserialize)]
#[serde(rename = "Defined")]
enum DefinedIn {
    Run(ValueId, u64),
    List(List<ValueId, MAX_ENTRIES>),
}

impl Serialize for Bindings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let defined = match &self.defined {
            Defined::Run(first, count) => DefinedOut::Run(*first, *count),
            Defined::List(list) => DefinedOut::List(list),
        };
        (&self.inputs, defined, &self.scalars).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bindings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bindings, D::Error> {
        type Form = (List<ValueId, MAX_ENTRIES>, DefinedIn, List<Scalar, MAX_SCALARS>);
        let (inputs, defined, scalars) = Form::deserialize(deserializer)?;
        let defined = match defined {
            // More than a tape has entries: such a run fits no template, and nobody should count to
            // its end.
            DefinedIn::Run(_, count) if count > MAX_ENTRIES as u64 => {
                return Err(Error::custom("too many definitions"));
            }
            DefinedIn::Run(first, count) => Defined::Run(first, count),
            DefinedIn::List(list) => Defined::List(list.0),
        };
        Ok(Bindings { inputs: inputs.0, defined, scalars: scalars.0 })
    }
}
