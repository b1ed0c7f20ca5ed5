//! A configuration file: what is said about signals, and the workers that sessions ask for.
//!
//! Guarantees: a file is checked part by part, and an error of the reader stands where the mistake
//! does. The key [`SESSION`] is no signal. With the feature `schema`, `schema` is the JSON Schema
//! of files, for editors.

#[cfg(feature = "schema")]
mod schema;

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::backend::Demand;
use crate::signal::{NewName, Signals};

#[cfg(feature = "schema")]
pub use schema::schema;

/// The key under which a file says what workers sessions ask for.
pub const SESSION: &str = "session";

/// A configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConfigFile {
    /// The workers that sessions ask for, where neither the program nor its environment chooses.
    pub session: Demand,
    /// The configurations of signals.
    #[serde(flatten)]
    pub signals: Signals,
}

impl ConfigFile {
    /// A file that says nothing.
    #[must_use]
    pub const fn new() -> ConfigFile {
        ConfigFile { session: Demand::new(), signals: Signals::new() }
    }
}

impl<'de> Deserialize<'de> for ConfigFile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ConfigFile, D::Error> {
        from.deserialize_map(FileVisitor)
    }
}

/// Reads a [`ConfigFile`].
struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = ConfigFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("signals, each a name with what is said about it")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ConfigFile, A::Error> {
        let (mut session, mut signals) = (None, Signals::new());
        while let Some(name) = map.next_key_seed(NewName(&signals))? {
            match name == SESSION {
                true if session.is_some() => {
                    return Err(A::Error::custom(format!("`{SESSION}` is there twice")));
                }
                true => session = Some(map.next_value::<Option<Demand>>()?.unwrap_or_default()),
                false => drop(signals.set(&name, map.next_value()?).map_err(A::Error::custom)?),
            }
        }
        Ok(ConfigFile { session: session.unwrap_or_default(), signals })
    }
}
