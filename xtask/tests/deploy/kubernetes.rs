//! Manifests against the types of Kubernetes' own API description, as the crate `k8s-openapi` has
//! them.
//!
//! Those types leave out what they do not know. A manifest is therefore read into its type and
//! written again: what is missing then is a key that Kubernetes does not know, and what is new is a
//! key that it needs.
//!
//! The images that manifests name are those that `docker/Dockerfile` builds, by the commands in its
//! header and in the guide. Nothing is built here.

use super::{names, read};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Service;
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned};
use serde_json::{Value, json};

/// Values that are plain texts in the API description, and of which the API server takes these.
const WORDS: &[(&str, &[&str])] = &[
    ("/spec/strategy/type", &["Recreate", "RollingUpdate"]),
    ("/spec/podManagementPolicy", &["OrderedReady", "Parallel"]),
    ("/emptyDir/medium", &["", "Memory"]),
    ("/spec/clusterIP", &["None"]),
    ("/fieldRef/fieldPath", &["metadata.name", "metadata.namespace", "spec.nodeName"]),
];

/// Resources that every node has. Others have names with a domain: `nvidia.com/gpu`.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What is wrong with a manifest, with the path of each place.
fn faults(manifest: &Value) -> Vec<String> {
    let named = (manifest["apiVersion"].as_str(), manifest["kind"].as_str());
    let mut faults = match named {
        (Some("apps/v1"), Some("Deployment")) => misfits::<Deployment>(manifest),
        (Some("apps/v1"), Some("StatefulSet")) => misfits::<StatefulSet>(manifest),
        (Some("v1"), Some("Service")) => misfits::<Service>(manifest),
        _ => vec![format!("no type for {named:?}; add it to this test")],
    };
    walk("", manifest, &mut |place, value| faults.extend(bad_word(place, value)));
    faults
}

/// The differences between a manifest and what its type keeps of it.
fn misfits<T: DeserializeOwned + Serialize>(manifest: &Value) -> Vec<String> {
    let kept = serde_json::from_value::<T>(manifest.clone()).and_then(serde_json::to_value);
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => return vec![error.to_string()],
    };
    let mut faults = Vec::new();
    walk("", manifest, &mut |place, _| {
        if kept.pointer(place).is_none() {
            faults.push(format!("{place}: Kubernetes does not know it"));
        }
    });
    walk("", &kept, &mut |place, value| match manifest.pointer(place) {
        None => faults.push(format!("{place}: Kubernetes needs it")),
        Some(own) if !own.is_object() && !own.is_array() && own != value => {
            faults.push(format!("{place}: {own} is read as {value}"));
        }
        Some(_) => {}
    });
    faults
}

/// Words and quantities that only the API server checks.
fn bad_word(place: &str, value: &Value) -> Option<String> {
    let of_place = WORDS.iter().find(|(end, _)| place.ends_with(end));
    if let (Some((_, words)), Some(word)) = (of_place, value.as_str()) {
        return (!words.contains(&word)).then(|| format!("{place}: {word} is none of {words:?}"));
    }
    let (parent, key) = place.rsplit_once('/')?;
    if !parent.ends_with("/requests") && !parent.ends_with("/limits") {
        return None;
    }
    // `~1` is a slash within a key.
    let is_known = RESOURCES.contains(&key) || key.contains(".com~1");
    let is_good = is_known && value.as_str().is_some_and(is_quantity);
    (!is_good).then(|| format!("{place}: {value} is no quantity of a resource"))
}

/// Whether a text is a number with a unit of Kubernetes: `512Mi`.
fn is_quantity(text: &str) -> bool {
    const UNITS: [&str; 10] = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"];
    let n_digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(n_digits);
    number.parse::<f64>().is_ok() && UNITS.contains(&unit)
}

/// Visits every value with its path, as `Value::pointer` takes it.
fn walk(place: &str, value: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(place, value);
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            walk(&format!("{place}/{key}"), value, visit);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(n, value)| {
            walk(&format!("{place}/{n}"), value, visit);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// All documents of all manifests.
fn manifests() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for name in names("kubernetes", ".yaml") {
        for document in serde_yaml::Deserializer::from_str(&read(&name)) {
            let document = Value::deserialize(document);
            all.push((name.clone(), document.unwrap_or_else(|error| panic!("{name}: {error}"))));
        }
    }
    all
}

#[test]
fn manifests_are_what_kubernetes_reads() {
    let all = manifests();
    assert_eq!(all.len(), 4);
    for (name, manifest) in &all {
        let faults = faults(manifest);
        assert!(faults.is_empty(), "{name}:\n  {}", faults.join("\n  "));
    }
}

/// Maps whose keys are the user's own words.
const FREE: [&str; 4] = ["labels", "matchLabels", "annotations", "selector"];

/// Replaces the key at a place by a wrong one.
fn with_wrong_key(manifest: &Value, place: &str) -> Option<Value> {
    let (parent, key) = place.rsplit_once('/')?;
    let is_own = FREE.iter().any(|free| parent.ends_with(&format!("/{free}")));
    // The selector of a Deployment has keys of Kubernetes, that of a Service has not.
    let is_own = is_own && !(manifest["kind"] != "Service" && parent == "/spec/selector");
    if is_own {
        return None;
    }
    let mut changed = manifest.clone();
    let entries = changed.pointer_mut(parent)?.as_object_mut()?;
    let key = key.replace("~1", "/").replace("~0", "~");
    let value = entries.remove(&key)?;
    entries.insert(key.replace(".com/", ".cm/") + "e", value);
    Some(changed)
}

#[test]
fn every_key_that_is_written_wrong_is_found() {
    let mut n = 0;
    for (name, manifest) in &manifests() {
        walk("", manifest, &mut |place, _| {
            let Some(wrong) = with_wrong_key(manifest, place) else { return };
            assert!(!faults(&wrong).is_empty(), "{name}: {place}");
            n += 1;
        });
    }
    assert!(n > 150, "{n}");
}

#[test]
fn values_of_another_form_are_found() {
    let (_, server) = manifests().remove(0);
    let container = "/spec/template/spec/containers/0";
    for (place, value) in [
        ("/kind".to_owned(), json!("Deploiment")),
        ("/spec/replicas".to_owned(), json!("one")),
        ("/spec/strategy/type".to_owned(), json!("Recreated")),
        (format!("{container}/args"), json!("server")),
        (format!("{container}/args/0"), json!(1)),
        (format!("{container}/ports/0/containerPort"), json!("gt")),
        (format!("{container}/resources/requests/cpu"), json!("one")),
        (format!("{container}/resources/limits/memory"), json!("4Gb")),
        (format!("{container}/env/0/value"), json!(true)),
    ] {
        let mut wrong = server.clone();
        *wrong.pointer_mut(&place).unwrap() = value;
        assert!(!faults(&wrong).is_empty(), "{place}");
    }
}

/// The image and the stage of each `docker build` in a text.
fn builds(text: &str) -> Vec<(&str, &str)> {
    let after = |line, flag| {
        let mut words = str::split_whitespace(line).skip_while(|word| *word != flag);
        words.nth(1).unwrap_or_else(|| panic!("no {flag}: {line}"))
    };
    let lines = text.lines().filter(|line| line.contains("docker build "));
    let builds = lines.map(|line| {
        assert_eq!(after(line, "--file"), "deploy/docker/Dockerfile");
        (after(line, "--tag"), after(line, "--target"))
    });
    builds.collect()
}

#[test]
fn images_are_those_that_the_dockerfile_builds() {
    let (dockerfile, guide) = (read("docker/Dockerfile"), read("../docs/guide/src/operating.md"));
    let builds = builds(&dockerfile);
    assert_eq!(builds, self::builds(&guide));
    for (image, stage) in &builds {
        assert!(dockerfile.contains(&format!(" AS {stage}\n")), "{image} has no stage {stage}");
    }
    let mut n = 0;
    for (name, manifest) in &manifests() {
        walk("", manifest, &mut |place, value| {
            if place.ends_with("/image") {
                assert!(builds.iter().any(|(image, _)| value == image), "{name}: {value}");
                n += 1;
            }
        });
    }
    assert_eq!(n, 4);
}

#[test]
fn the_dockerfile_has_the_versions_of_the_workspace() {
    let dockerfile = read("docker/Dockerfile");
    for line in [
        concat!("\nARG RUST=", env!("CARGO_PKG_RUST_VERSION"), "\n"),
        concat!("org.opencontainers.image.version=\"", env!("CARGO_PKG_VERSION"), "\" "),
    ] {
        assert!(dockerfile.contains(line), "no {line}");
    }
}
