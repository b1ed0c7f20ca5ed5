//! The command lines in `deploy/` and in the guide are command lines that there are.

use super::*;
use serde::Deserialize as _;
use serde_yaml::Value;

fn parses(words: &[&str], place: &str) {
    if let Err(error) = Cli::try_parse_from(words) {
        panic!("{place}: {}: {error}", words.join(" "));
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn units_of_systemd_start_commands_that_there_are() {
    for unit in [
        include_str!("../../../deploy/systemd/gt-server.service"),
        include_str!("../../../deploy/systemd/gt-worker@.service"),
    ] {
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let line = start.replace("%i", "head:12345");
        parses(&line.split(' ').collect::<Vec<_>>(), unit);
    }
}

#[test]
fn manifests_of_kubernetes_have_probes_and_start_commands_that_there_are() {
    let mut n_probes = 0;
    for manifest in [
        include_str!("../../../deploy/kubernetes/server.yaml"),
        include_str!("../../../deploy/kubernetes/workers.yaml"),
    ] {
        let documents = serde_yaml::Deserializer::from_str(manifest);
        let documents: Vec<Value> = documents.map(|d| Value::deserialize(d).unwrap()).collect();
        let service = documents.iter().find(|d| d["kind"] == "Service").unwrap();
        let set = documents.iter().find(|d| d["kind"] != "Service").unwrap();
        let labels = &set["spec"]["template"]["metadata"]["labels"];
        assert_eq!(set["spec"]["selector"]["matchLabels"], *labels);
        assert_eq!(service["spec"]["selector"], *labels);
        let container = &set["spec"]["template"]["spec"]["containers"][0];
        let words = container["args"].as_sequence().unwrap().iter().map(|w| w.as_str().unwrap());
        let words: Vec<String> = words.map(|word| word.replace("$(POD)", "gt-worker-0")).collect();
        let words: Vec<&str> = ["gt-cli"].into_iter().chain(words.iter().map(|w| &**w)).collect();
        parses(&words, manifest);
        let names = container["volumeMounts"].as_sequence().unwrap().iter();
        let volumes = set["spec"]["template"]["spec"]["volumes"].as_sequence().unwrap();
        for mount in names {
            assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount:?}");
        }
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            if let Some(path) = container[probe]["httpGet"]["path"].as_str() {
                assert!(["/healthz", "/readyz"].contains(&path));
                n_probes += 1;
            }
        }
    }
    assert_eq!(n_probes, 3);
}
