//! The JSON Schema of configuration files, by which editors complete keys and mark mistakes.
//!
//! Guarantees: keys, types, defaults and descriptions are those of the types that read a file. It
//! accepts every file that [`ConfigFile`] accepts, as long as no key is set to null.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{ConfigFile, SESSION};
use crate::backend::Demand;
use crate::signal::{MAX_SIGNALS, SignalConfig};
use crate::tape::MAX_STRING;

/// The JSON Schema of a configuration file.
#[must_use]
pub fn schema() -> Schema {
    schemars::schema_for!(ConfigFile)
}

impl JsonSchema for ConfigFile {
    fn schema_name() -> Cow<'static, str> {
        "Configuration of GT".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["object", "null"],
            "description": "The workers that sessions ask for, and the configuration of signals, \
                            each by its name.",
            "properties": { SESSION: generator.subschema_for::<Demand>() },
            "additionalProperties": generator.subschema_for::<SignalConfig>(),
            "propertyNames": { "minLength": 1, "maxLength": MAX_STRING },
            "maxProperties": MAX_SIGNALS + 1,
        })
    }
}
