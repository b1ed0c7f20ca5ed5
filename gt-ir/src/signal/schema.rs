//! The parts of signals in the JSON Schema of configuration files.
//!
//! Does not: know all that is refused. Workers that are listed twice within a mesh, and a mesh
//! beside `workers`, are found when the file is read.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{MAX_LISTED, MAX_MICROBATCHES, ShardAxis};
use crate::shape::MAX_RANK;
use crate::tape::MAX_STRING;

impl JsonSchema for ShardAxis {
    fn schema_name() -> Cow<'static, str> {
        "ShardAxis".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let end = MAX_RANK as i64;
        json_schema!({
            "anyOf": [
                {
                    "type": "integer",
                    "minimum": -end,
                    "maximum": end - 1,
                    "description": "By position. Negative numbers count from the end.",
                },
                {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_STRING,
                    "description": "By the name of the dimension.",
                },
            ]
        })
    }
}

fn list() -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
        "minItems": 1,
        "maxItems": MAX_LISTED,
        "uniqueItems": true,
    })
}

/// The workers of a shard.
pub(super) fn workers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [list(), { "const": "all" }, { "type": "null" }] })
}

/// The rows of a mesh.
pub(super) fn mesh(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["array", "null"],
        "items": list(),
        "minItems": 1,
        "maxItems": MAX_LISTED,
    })
}

/// How many micro-batches there are, if it is said.
pub(super) fn microbatches(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "null"], "minimum": 1, "maximum": MAX_MICROBATCHES })
}

/// The name of a signal, if one is given.
pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_STRING })
}
