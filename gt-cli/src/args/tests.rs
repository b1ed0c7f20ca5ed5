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

/// The words of a text that begin as variables of GT do, without those of secrets and of labels.
fn variables(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_word(c)).filter(|word| word.starts_with("GT_"));
    words.map(str::to_owned).collect()
}

#[test]
fn files_of_deployment_set_variables_that_there_are() {
    let mut n = 0;
    for text in [
        include_str!("../../../deploy/systemd/gt-server.service"),
        include_str!("../../../deploy/systemd/gt-worker@.service"),
        include_str!("../../../deploy/kubernetes/server.yaml"),
        include_str!("../../../deploy/kubernetes/workers.yaml"),
        include_str!("../../../deploy/slurm/gt.sbatch"),
    ] {
        for name in variables(text) {
            assert!(gt_settings::Setting::of_variable(&name).is_some(), "{name} in {text}");
            n += 1;
        }
    }
    assert!(n > 6, "{n}");
}

#[test]
fn units_of_systemd_have_sections_and_keys_with_values() {
    for unit in [
        include_str!("../../../deploy/systemd/gt-server.service"),
        include_str!("../../../deploy/systemd/gt-worker@.service"),
    ] {
        let lines = unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (sections, keys): (Vec<&str>, Vec<&str>) = lines.partition(|l| l.starts_with('['));
        assert_eq!(sections, ["[Unit]", "[Service]", "[Install]"]);
        for line in keys {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
            let is_key = key.chars().all(|c| c.is_ascii_alphanumeric());
            assert!(is_key && !value.is_empty() && !value.ends_with(' '), "{line}");
        }
    }
}

#[test]
fn the_batch_script_starts_commands_that_there_are() {
    let script = include_str!("../../../deploy/slurm/gt.sbatch");
    let host = script.replace("\"$host\"", "head").replace("\"$(hostname)\"", "node");
    let host = host.replace("\"$(hostname):0\"", "node:0").replace("\"$0\"", "head:12345");
    let starts = host.lines().filter_map(|line| Some(&line[line.find("gt-cli ")?..]));
    let mut n = 0;
    for start in starts {
        let end = start
            .find([' ', '\''])
            .map(|_| start.find(" >").or_else(|| start.find('\'')).unwrap_or(start.len()));
        parses(&start[..end.unwrap_or(start.len())].split(' ').collect::<Vec<_>>(), start);
        n += 1;
    }
    assert_eq!(n, 2);
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
        // Probes and services name ports that containers open, and the server listens there.
        let ports = container["ports"].as_sequence().cloned().unwrap_or_default();
        let is_open = |name: &Value| ports.iter().any(|port| port["name"] == *name);
        for port in &ports {
            let number = port["containerPort"].as_u64().unwrap().to_string();
            let listens = number == "12345" || words.iter().any(|w| w.ends_with(&number));
            assert!(listens, "nothing listens at port {number}");
        }
        for port in service["spec"]["ports"].as_sequence().unwrap() {
            assert!(port["targetPort"].is_null() || is_open(&port["targetPort"]), "{port:?}");
        }
        let names = container["volumeMounts"].as_sequence().unwrap().iter();
        let volumes = set["spec"]["template"]["spec"]["volumes"].as_sequence().unwrap();
        for mount in names {
            assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount:?}");
        }
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            if let Some(path) = container[probe]["httpGet"]["path"].as_str() {
                assert!(["/healthz", "/readyz"].contains(&path));
                assert!(is_open(&container[probe]["httpGet"]["port"]));
                n_probes += 1;
            }
        }
    }
    assert_eq!(n_probes, 3);
}

/// The lines of a help text that are command lines of `gt-cli`, without remarks and other programs.
fn examples(help: &str) -> Vec<Vec<String>> {
    let (_, examples) = help.split_once("Examples:\n").unwrap_or_default();
    let commands = examples.lines().filter_map(|line| line.find("gt-cli ").map(|at| &line[at..]));
    let first = |line: &str| {
        let ends = ["    ", " | ", " > ", " && "].iter().filter_map(|end| line.find(end));
        line[..ends.min().unwrap_or(line.len())].trim().to_owned()
    };
    let key = PublicKey([7; 32]).to_string();
    let words = |line: &str| {
        // A text in quotes is one word.
        let parts: Vec<&str> = line.split('"').collect();
        let plain: Vec<String> = parts
            .iter()
            .enumerate()
            .map(|(n, part)| if n % 2 == 1 { part.replace(' ', "_") } else { (*part).to_owned() })
            .collect();
        let real = |word: &str| match word {
            "KEY" => key.clone(),
            "HOST:PORT" => "head:12345".to_owned(),
            word => word.to_owned(),
        };
        plain.concat().split_whitespace().map(real).collect()
    };
    commands.map(|line| words(&first(line))).collect()
}

#[test]
fn every_command_has_examples_which_are_command_lines_that_there_are() {
    fn check(command: &Clap, n: &mut usize) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = examples(&help);
        let is_hidden = command.is_hide_set();
        assert!(is_hidden || !examples.is_empty(), "{} has no examples", command.get_name());
        for words in examples {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            parses(&words, command.get_name());
            *n += 1;
        }
        command.get_subcommands().for_each(|inner| check(inner, n));
    }
    let mut n = 0;
    check(&Cli::definition(), &mut n);
    assert!(n > 70, "{n}");
}

#[test]
fn the_exit_status_is_in_the_help_and_in_the_guide() {
    let help = Cli::definition().get_after_help().unwrap().to_string();
    let guide = include_str!("../../../docs/guide/src/operating.md");
    for status in ["0", "1", "2", "130"] {
        assert!(help.contains(&format!("{status} ")), "{status}");
        assert!(guide.contains(&format!("| {status} | ")), "{status}");
    }
}
