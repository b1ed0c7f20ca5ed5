//! The settings that are made, and checks of their values.

use super::report::{Finding, Section};
use super::system;
use gt_ir::signal::Signals;
use gt_runtime::choice::{Devices, EngineKind};
use gt_runtime::worker::wanted::Wanted;
use gt_runtime::zmq::Address;
use gt_settings::{Odd, Origin, SETTINGS, Setting};
use std::path::Path;

/// A check of a variable's value.
type Check = fn(&str) -> Option<Finding>;

/// The variables whose values are judged here as well as by the table of settings. No check takes
/// time.
const CHECKS: &[(&str, Check)] = &[
    (gt_runtime::embedded::CONNECT, address),
    (gt_runtime::choice::ENGINE, engine),
    (gt_runtime::choice::DEVICE, devices),
    (gt_runtime::doors::VARIABLE, keys),
    (gt_runtime::doors::INSECURE, insecure),
    (gt_runtime::worker::wanted::ROAD, road),
    (gt_lang::config::CONFIG, config),
    (gt_runtime::log::VARIABLE, log_file),
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
        let is_server = setting.variable == gt_runtime::embedded::CONNECT;
        let finding = judge(setting).or_else(|| system::reach(&value).filter(|_| is_server));
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

/// The problem with a setting's value, if there is one.
fn judge(setting: &Setting) -> Option<Finding> {
    let (value, origin) = setting.value()?;
    let value = value.to_string_lossy();
    let check = CHECKS.iter().find(|(name, _)| *name == setting.variable);
    match setting.mistake() {
        Some(what) => Some(Finding::trouble(what, cure(setting, origin))),
        None if value.trim().is_empty() => None,
        None => check.and_then(|(_, check)| check(&value)),
    }
}

/// Why no program can use a setting's value, if none can.
pub(crate) fn mistake(setting: &Setting) -> Option<String> {
    judge(setting).filter(Finding::is_trouble).map(|finding| finding.what)
}

fn cure(setting: &Setting, origin: Origin) -> String {
    match (origin, gt_settings::path()) {
        (Origin::File, Some(path)) => format!("correct {} in {}", setting.key, path.display()),
        _ => format!("unset {}", setting.name()),
    }
}

fn address(value: &str) -> Option<Finding> {
    value.parse::<Address>().err().map(|error| Finding::of("GT_CONNECT", &error))
}

fn engine(value: &str) -> Option<Finding> {
    value.parse::<EngineKind>().err().map(|error| Finding::of("GT_ENGINE", &error))
}

fn devices(value: &str) -> Option<Finding> {
    value.parse::<Devices>().err().map(|error| Finding::of("GT_DEVICE", &error))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_be_done_are_found() {
        assert!(devices("cpu").is_none() && devices("gpu").is_some_and(|found| found.is_trouble()));
        assert!(address("pi:1").is_none() && address("pi:x").is_some());
        assert!(address("nonsense").is_some());
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
