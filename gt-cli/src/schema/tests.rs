//! The schema accepts what the reader of files accepts, and the committed copy is current.

use super::*;
use serde_json::Value;
use std::path::PathBuf;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn schema() -> Value {
    serde_json::from_str(&text().unwrap()).unwrap()
}

/// Checks a value by the part of JSON Schema that the schema uses. Another keyword panics.
fn check(schema: &Value, root: &Value, value: &Value) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if schema == &Value::Bool(false) { Err(format!("{value}")) } else { Ok(()) };
    };
    for (keyword, rule) in keywords {
        let good = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(root.pointer(pointer).unwrap(), root, value).is_ok()
            }
            "type" => {
                let types = rule.as_array().map_or_else(|| vec![rule.clone()], Clone::clone);
                types.iter().any(|name| is_a(name.as_str().unwrap(), value))
            }
            "const" => rule == value,
            "enum" => rule.as_array().unwrap().contains(value),
            "anyOf" => alternatives(rule, root, value) > 0,
            "oneOf" => alternatives(rule, root, value) == 1,
            "minimum" => value.as_i64().is_none_or(|n| n >= rule.as_i64().unwrap()),
            "maximum" => value.as_i64().is_none_or(|n| n <= rule.as_i64().unwrap()),
            "minLength" => value.as_str().is_none_or(|s| s.len() as u64 >= rule.as_u64().unwrap()),
            "maxLength" => value.as_str().is_none_or(|s| s.len() as u64 <= rule.as_u64().unwrap()),
            "minItems" => value.as_array().is_none_or(|a| a.len() as u64 >= rule.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|a| a.len() as u64 <= rule.as_u64().unwrap()),
            "uniqueItems" => value
                .as_array()
                .is_none_or(|a| a.iter().enumerate().all(|(i, item)| !a[..i].contains(item))),
            "items" => value
                .as_array()
                .is_none_or(|a| a.iter().all(|item| check(rule, root, item).is_ok())),
            "properties" | "additionalProperties" => value.as_object().is_none_or(|object| {
                object.iter().all(|(key, value)| {
                    let named = keywords.get("properties").and_then(|named| named.get(key));
                    let rest = keywords.get("additionalProperties");
                    named.or(rest).is_none_or(|schema| check(schema, root, value).is_ok())
                })
            }),
            "propertyNames" => value.as_object().is_none_or(|object| {
                object.keys().all(|key| check(rule, root, &Value::from(key.as_str())).is_ok())
            }),
            "maxProperties" => {
                value.as_object().is_none_or(|o| o.len() as u64 <= rule.as_u64().unwrap())
            }
            "dependentRequired" => value.as_object().is_none_or(|object| {
                let needs = rule.as_object().unwrap().iter();
                needs.filter(|(key, _)| object.contains_key(*key)).all(|(_, needed)| {
                    let mut needed = needed.as_array().unwrap().iter();
                    needed.all(|key| object.contains_key(key.as_str().unwrap()))
                })
            }),
            _ => panic!("the test does not know the keyword {keyword}"),
        };
        if !good {
            return Err(format!("{keyword} refuses {value}"));
        }
    }
    Ok(())
}

fn alternatives(rule: &Value, root: &Value, value: &Value) -> usize {
    let schemas = rule.as_array().unwrap().iter();
    schemas.filter(|schema| check(schema, root, value).is_ok()).count()
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => panic!("the test does not know the type {name}"),
    }
}

fn accepts(yaml: &str) -> Result<(), String> {
    let schema = schema();
    let value: Value = serde_yaml::from_str(yaml).map_err(|error| error.to_string())?;
    check(&schema, &schema, &value)
}

/// The configuration files in the examples, and the blocks of YAML in the guide.
fn examples() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root().join("examples")).unwrap() {
        let Ok(files) = std::fs::read_dir(folder.unwrap().path()) else { continue };
        for file in files.map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "yaml") {
                let text = std::fs::read_to_string(&file).unwrap();
                found.push((file.display().to_string(), text));
            }
        }
    }
    for page in ["signals.md", "parallel.md"] {
        let text = std::fs::read_to_string(root().join("docs/guide/src").join(page)).unwrap();
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        found.extend(blocks.map(|block| (page.to_owned(), block.to_owned())));
    }
    found
}

#[test]
fn every_example_is_valid() {
    let examples = examples();
    assert!(examples.len() >= 9, "{examples:?}");
    for (name, text) in examples {
        gt_lang::config::parse_config(&text, &name).unwrap_or_else(|error| panic!("{error}"));
        accepts(&text).unwrap_or_else(|why| panic!("{name}: {why}\n{text}"));
    }
}

#[test]
fn the_schema_and_the_reader_agree() {
    for good in [
        "",
        "a: {}",
        "a: {compile: true, backward: b}",
        "a: {shard: {axis: -8, workers: all, open: true, priority: 3, reduction: pinned}}",
        "a: {shard: {axis: Batch, workers: [0, 1], replicated: true, reduction: usual}}",
        "a: {shard: {mesh: [[0, 1], [2, 3]], columns: -1}}",
        "a: {shard: {microbatches: 256, schedule: gpipe}}",
        "a: {shard: {microbatches: 1, schedule: 1f1b}}",
    ] {
        gt_lang::config::parse_config(good, "good").unwrap_or_else(|error| panic!("{error}"));
        accepts(good).unwrap_or_else(|why| panic!("{good}: {why}"));
    }
    for bad in [
        "- a",
        "a: 3",
        "a: {shrad: {}}",
        "a: {compile: perhaps}",
        "a: {backward: ''}",
        "a: {shard: 3}",
        "a: {shard: {axs: 0}}",
        "a: {shard: {axis: 8}}",
        "a: {shard: {axis: 1.5}}",
        "a: {shard: {axis: ''}}",
        "a: {shard: {workers: []}}",
        "a: {shard: {workers: some}}",
        "a: {shard: {workers: [0, 0]}}",
        "a: {shard: {workers: [-1]}}",
        "a: {shard: {mesh: 3}}",
        "a: {shard: {mesh: [0, 1]}}",
        "a: {shard: {columns: 1}}",
        "a: {shard: {priority: -1}}",
        "a: {shard: {reduction: pinnd}}",
        "a: {shard: {microbatches: 0}}",
        "a: {shard: {microbatches: 257}}",
        "a: {shard: {microbatches: many}}",
        "a: {shard: {schedule: 1f2b}}",
    ] {
        assert!(gt_lang::config::parse_config(bad, "bad").is_err(), "{bad}");
        assert!(accepts(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_committed_schema_is_current() {
    let file = root().join("docs/signals.schema.json");
    let text = text().unwrap();
    if std::env::var_os("GT_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "run: gt-cli schema > docs/signals.schema.json\n{text}");
}
