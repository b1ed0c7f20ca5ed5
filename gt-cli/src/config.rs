//! `gt-cli config`: every setting, its value, and where the value comes from.
//!
//! A value that no program can use is told of beside it, and makes the exit status 1. Values are
//! judged as `gt-cli doctor` judges them, except that no server is called.

use crate::args::ConfigArgs;
use crate::doctor::mistake;
use crate::fault::{Silent, advised};
use crate::news::print;
use anyhow::{Result, bail};
use gt_settings::{FILE, Origin, SETTINGS, SUCCESSORS, Setting, fault, nearest};
use serde_json::json;

/// A setting, and why no program can use its value, if none can.
type Judged = (&'static Setting, Option<String>);

pub(crate) fn config(args: &ConfigArgs, json: bool) -> Result<()> {
    let chosen = chosen(&args.settings)?;
    if let Some(why) = fault() {
        bail!(why);
    }
    crate::tell_odd_variables();
    let judged: Vec<Judged> = chosen.into_iter().map(|s| (s, mistake(s))).collect();
    match json {
        true => judged.iter().for_each(|judged| print(&object(judged).to_string())),
        false => show(&judged, args),
    }
    if judged.iter().any(|(_, mistake)| mistake.is_some()) {
        bail!(Silent(1))
    }
    Ok(())
}

fn show(judged: &[Judged], args: &ConfigArgs) {
    print(&text(judged, args.explain));
    if args.settings.is_empty()
        && let Some(path) = gt_settings::path()
    {
        let there = if path.exists() { "" } else { " (there is none)" };
        print(&format!("\nthe file is {}{there}", path.display()));
    }
}

/// The settings that are named, or all.
fn chosen(names: &[String]) -> Result<Vec<&'static Setting>> {
    if names.is_empty() {
        return Ok(SETTINGS.iter().collect());
    }
    let find = |name: &String| {
        let found = Setting::of_variable(name).or_else(|| Setting::of_key(name));
        let all = SETTINGS.iter().flat_map(|setting| [setting.variable, setting.key]);
        let successor = SUCCESSORS.iter().find(|(old, _)| old == name);
        found.ok_or_else(|| match (successor, nearest(name, all)) {
            (Some((_, cure)), _) => advised(format!("{name} has no effect any more"), *cure),
            (None, Some(meant)) => {
                advised(format!("there is no setting {name}"), format!("did you mean {meant}?"))
            }
            (None, None) => {
                advised(format!("there is no setting {name}"), "`gt-cli config` shows all")
            }
        })
    };
    names.iter().map(find).collect()
}

/// A value, and where it comes from.
fn value(setting: &Setting) -> (String, &'static str) {
    match setting.value() {
        None => (setting.default.replace('`', ""), "default"),
        Some((value, Origin::Variable)) => (value.to_string_lossy().into_owned(), "variable"),
        Some((value, Origin::File)) => (value.to_string_lossy().into_owned(), FILE),
    }
}

fn object((setting, mistake): &Judged) -> serde_json::Value {
    let (value, from) = value(setting);
    let given = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    json!({
        "setting": setting.name(),
        "value": value,
        "from": from,
        "default": setting.default.replace('`', ""),
        "variable": given(setting.variable),
        "key": given(setting.key),
        "flag": given(setting.flag),
        "help": setting.help,
        "mistake": mistake,
    })
}

/// The settings as lines in columns, with an explanation under each if it is wished for.
fn text(judged: &[Judged], explain: bool) -> String {
    let names = judged.iter().map(|(setting, _)| setting.name().len()).max().unwrap_or(0);
    let lines = judged.iter().map(|(setting, mistake)| {
        let (value, from) = value(setting);
        let why = mistake.as_ref().map(|why| format!("  ({why})")).unwrap_or_default();
        let head = format!("{:<names$}  {from:<8}  {value}{why}", setting.name());
        let head = head.trim_end();
        match explain {
            true => format!("{head}\n{}", explanation(setting)),
            false => head.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn explanation(setting: &Setting) -> String {
    let ways = [
        (!setting.flag.is_empty()).then(|| format!("flag {}", setting.flag)),
        (!setting.key.is_empty()).then(|| match setting.key.split_once('.') {
            Some((table, key)) => format!("{FILE}: [{table}] {key} = {}", quoted(setting.example)),
            None => format!("{FILE}: {} = {}", setting.key, quoted(setting.example)),
        }),
    ];
    let ways: Vec<String> = ways.into_iter().flatten().collect();
    format!("    {}\n    {}\n", setting.help, ways.join(", "))
}

/// A value as it is written in the file.
fn quoted(example: &str) -> String {
    if example.parse::<f64>().is_ok() { example.to_owned() } else { format!("\"{example}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_by_both_names_and_misspelled_ones_are_not() {
        let names = |names: &[&str]| {
            chosen(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        let found = names(&["GT_THREADS", "server.port"]).unwrap();
        assert_eq!(
            found.iter().map(|setting| setting.key).collect::<Vec<_>>(),
            ["threads", "server.port"]
        );
        let said = names(&["GT_THREAD"]).unwrap_err().to_string();
        assert!(said.contains("did you mean GT_THREADS?"), "{said}");
        assert!(names(&["x"]).is_err());
        let said = names(&["GT_BACKEND"]).unwrap_err().to_string();
        assert!(said.contains("hint: GT_ENGINE=native or torch"), "{said}");
    }

    #[test]
    fn what_the_file_would_say_can_be_read() {
        for setting in SETTINGS.iter().filter(|setting| !setting.key.is_empty()) {
            let line = match setting.key.split_once('.') {
                Some((table, key)) => format!("[{table}]\n{key} = {}", quoted(setting.example)),
                None => format!("{} = {}", setting.key, quoted(setting.example)),
            };
            let file = gt_settings::File::parse(&line).unwrap();
            assert_eq!(file.get(setting.key), Some(setting.example));
        }
    }
}
