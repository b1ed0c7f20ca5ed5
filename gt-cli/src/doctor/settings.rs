//! The settings that are made, and checks of their values.

use super::report::{Finding, Section};
use super::system;
use gt_ir::signal::Signals;
use gt_runtime::log::{SIZE, Size};
use gt_runtime::worker::wanted::Wanted;
use gt_settings::{Odd, Origin, SETTINGS};
use std::path::Path;

/// A check of a variable's value.
type Check = fn(&str) -> Option<Finding>;

/// The variables whose values are judged here and not by the table of settings.
const CHECKS: &[(&str, Check)] = &[
    (gt_runtime::embedded::CONNECT, system::reach),
    (gt_runtime::doors::VARIABLE, keys),
    (gt_runtime::doors::INSECURE, insecure),
    (gt_runtime::worker::wanted::ROAD, road),
    (gt_runtime::embedded::WORKERS, workers),
    (gt_lang::config::CONFIG, config),
    (gt_runtime::log::VARIABLE, log_file),
    (gt_runtime::log::SIZE, log_size),
    ("GT_OTEL", otel),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", otel),
];

/// A variable of the dynamic linker, which decides which libraries an engine finds.
const LINKER: &str = "LD_LIBRARY_PATH";

pub(super) fn section() -> Section {
    let mut section = Section::new("settings");
    for setting in SETTINGS {
        let Some((value, origin)) = setting.value() else { continue };
        let value = value.to_string_lossy();
        let check = CHECKS.iter().find(|(name, _)| *name == setting.variable);
        let finding = match setting.mistake() {
            Some(what) => {
                Some(Finding::trouble(what, format!("unset {}", crate::config::name(setting))))
            }
            None if value.trim().is_empty() => None,
            None => check.and_then(|(_, check)| check(&value)),
        };
        let (name, text) = match origin {
            Origin::Variable => (setting.variable, value.to_string()),
            Origin::File => (setting.key, format!("{value} (gt.toml)")),
        };
        section.line(name, text, value.as_ref().into(), finding);
    }
    if let Some(value) = std::env::var_os(LINKER) {
        section.say(LINKER, value.to_string_lossy());
    }
    for Odd { name, what, cure } in gt_settings::odd_variables() {
        section.line(name, "unknown", serde_json::Value::Null, Some(Finding::advice(what, cure)));
    }
    if let Some(why) = gt_settings::fault() {
        let finding = Finding::trouble(why, "`gt-cli config --explain` shows all settings");
        section.line("gt.toml", "not read", serde_json::Value::Null, Some(finding));
    }
    section
}

fn workers(value: &str) -> Option<Finding> {
    let n: Option<usize> = value.trim().parse().ok();
    let what = format!("GT_WORKERS={value} is not a number of workers");
    n.is_none_or(|n| n == 0).then(|| Finding::trouble(what, "GT_WORKERS=1, or unset it"))
}

fn road(_: &str) -> Option<Finding> {
    Wanted::from_environment().err().map(|error| Finding::of("GT_ROAD", &error))
}

fn config(_: &str) -> Option<Finding> {
    match gt_lang::get_config() {
        Err(error) => Some(Finding::trouble(error.to_string(), "fix the file, or unset GT_CONFIG")),
        Ok(signals) => too_few(&signals, workers_here()?),
    }
}

/// The number of workers inside a process; none if it is not known here.
fn workers_here() -> Option<usize> {
    let of = |name| gt_settings::var(name).filter(|value| !value.trim().is_empty());
    match of(gt_runtime::embedded::WORKERS) {
        _ if of("GT_CONNECT").is_some() => None,
        Some(n) => n.trim().parse().ok(),
        None => {
            let asked = gt_lang::config::get_session_config().ok().and_then(|asked| asked.workers);
            asked.or(of(gt_runtime::choice::DEVICE).is_none().then_some(1))
        }
    }
}

/// The workers that signals name and that are not there.
fn too_few(signals: &Signals, there: usize) -> Option<Finding> {
    let wanted = signals.last_worker()? as usize + 1;
    let what = format!("the signals of GT_CONFIG name {wanted} workers, but there are {there}");
    (wanted > there).then(|| Finding::advice(what, format!("GT_WORKERS={wanted}")))
}

#[cfg(feature = "otel")]
fn otel(_: &str) -> Option<Finding> {
    let wrong = gt_runtime::spans::endpoint().err();
    wrong.map(|why| Finding::trouble(why, "GT_OTEL=http://localhost:4318, or unset it"))
}

#[cfg(not(feature = "otel"))]
fn otel(_: &str) -> Option<Finding> {
    let what = "this build sends no spans to OpenTelemetry";
    Some(Finding::advice(what, "build with the feature: cargo build --features otel"))
}

fn keys(_: &str) -> Option<Finding> {
    let found = gt_runtime::doors::KeyFolder::of_user().and_then(|folder| folder.members());
    found.err().map(|error| Finding::of("GT_KEYS", &error))
}

fn insecure(value: &str) -> Option<Finding> {
    let open = "with GT_INSECURE=1, programs connect over tcp without encryption";
    let cure = "unset GT_INSECURE outside of closed networks";
    (value.trim() == "1").then(|| Finding::advice(open, cure))
}

fn log_file(value: &str) -> Option<Finding> {
    let folder = Path::new(value).parent().filter(|folder| !folder.as_os_str().is_empty());
    let there = folder.is_none_or(Path::is_dir);
    let what = format!("GT_INSTRUCTION_LOG={value}: the folder does not exist");
    (!there).then(|| Finding::trouble(what, "make the folder, or name a file in another folder"))
}

fn log_size(value: &str) -> Option<Finding> {
    let what = |why: String| Finding::trouble(format!("{SIZE}: {why}"), "GT_LOG_SIZE=64M");
    value.parse::<Size>().err().map(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_settings::Setting;

    #[test]
    fn values_that_cannot_be_done_are_found() {
        assert!(workers("3").is_none() && workers("0").is_some());
        let absent = "/no/such/folder/gt.log";
        assert!(log_file("gt.log").is_none() && log_file(absent).is_some());
    }

    #[test]
    fn workers_that_signals_name_and_that_are_not_there_are_found() {
        let shard = gt_ir::signal::ShardConfig { workers: Some(vec![0, 3]), ..Default::default() };
        let config = gt_ir::signal::SignalConfig { shard: Some(shard), ..Default::default() };
        let mut signals = Signals::new();
        assert_eq!(too_few(&signals, 1), None);
        signals.set("batch", config).unwrap();
        assert!(too_few(&signals, 3).is_some() && too_few(&signals, 4).is_none());
    }

    #[test]
    fn checks_are_of_settings() {
        for (variable, _) in CHECKS {
            assert!(Setting::of_variable(variable).is_some(), "{variable}");
        }
    }
}
