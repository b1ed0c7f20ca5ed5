//! Units of systemd: sections, keys and the forms of their values, by a table of the keys in use;
//! and by systemd itself where it is installed.

use super::{names, read};
use std::process::Command;

/// The form of a value.
#[derive(Clone, Copy)]
enum Form {
    /// A text for people.
    Text,
    /// Names of units, which end with their kind.
    Units,
    /// A name of a user, or of folders below the system's own.
    Name,
    /// `NAME=VALUE`.
    Variable,
    /// An absolute path and words.
    Command,
    /// Permissions in octal digits.
    Mode,
    Seconds,
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// The keys that GT's units use. A new key needs a row.
const KEYS: &[(&str, &[(&str, Form)])] = &[
    ("Unit", &[("Description", Form::Text), ("After", Form::Units), ("Wants", Form::Units)]),
    (
        "Service",
        &[
            ("User", Form::Name),
            ("Environment", Form::Variable),
            ("StateDirectory", Form::Name),
            ("StateDirectoryMode", Form::Mode),
            ("CacheDirectory", Form::Name),
            ("CacheDirectoryMode", Form::Mode),
            ("ExecStart", Form::Command),
            ("KillSignal", Form::Word(&["SIGTERM", "SIGINT"])),
            ("TimeoutStopSec", Form::Seconds),
            ("Restart", Form::Word(&["no", "always", "on-failure", "on-abnormal"])),
            ("RestartSec", Form::Seconds),
            ("NoNewPrivileges", Form::Bool),
            ("ProtectSystem", Form::Word(&["true", "full", "strict"])),
            ("ProtectHome", Form::Word(&["true", "read-only", "tmpfs"])),
            ("PrivateDevices", Form::Bool),
        ],
    ),
    ("Install", &[("WantedBy", Form::Units)]),
];

impl Form {
    fn fits(self, value: &str) -> bool {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        match self {
            Form::Text => !value.is_empty(),
            Form::Units => value.split(' ').all(|unit| {
                let ends = [".target", ".service"];
                ends.iter().any(|end| unit.strip_suffix(end).is_some_and(|n| !n.is_empty()))
            }),
            Form::Name => !value.is_empty() && value.chars().all(is_name),
            Form::Variable => value.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            }),
            Form::Command => value.starts_with('/'),
            Form::Mode => value.len() == 4 && value.chars().all(|c| c.is_digit(8)),
            Form::Seconds => value.parse::<u32>().is_ok(),
            Form::Bool => ["true", "false"].contains(&value),
            Form::Word(words) => words.contains(&value),
        }
    }
}

/// What is wrong with a unit, line by line.
fn faults(unit: &str) -> Vec<String> {
    let mut keys: Option<&[(&str, Form)]> = None;
    let mut faults = Vec::new();
    let lines = unit.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    for (n, line) in lines {
        let mut fault = |what: &str| faults.push(format!("line {}: {what}: {line}", n + 1));
        if line.starts_with('[') {
            let section = line.trim_matches(['[', ']']);
            keys = KEYS.iter().find(|(name, _)| *name == section).map(|(_, keys)| *keys);
            if keys.is_none() {
                fault("no section of a service");
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            fault("neither a section nor KEY=VALUE");
            continue;
        };
        let form = keys.and_then(|keys| keys.iter().find(|(name, _)| *name == key));
        match form {
            None => fault("no key of this section in the table of this test"),
            Some((_, form)) if !form.fits(value) => fault("a value of another form"),
            Some(_) => {}
        }
    }
    faults.extend(missing(unit));
    faults
}

/// What a service cannot be without.
fn missing(unit: &str) -> Option<String> {
    let needed = ["[Unit]\n", "[Service]\n", "[Install]\n", "\nExecStart=", "\nWantedBy="];
    let missing = needed.iter().find(|part| !unit.contains(**part))?;
    Some(format!("no {}", missing.trim()))
}

fn units() -> Vec<(String, String)> {
    names("systemd", ".service").into_iter().map(|name| (name.clone(), read(&name))).collect()
}

#[test]
fn units_have_keys_and_values_of_systemd() {
    let units = units();
    assert_eq!(units.len(), 2);
    for (name, unit) in &units {
        let faults = faults(unit);
        assert!(faults.is_empty(), "{name}:\n  {}", faults.join("\n  "));
    }
}

#[test]
fn every_line_that_is_written_wrong_is_found() {
    for (name, unit) in &units() {
        let lines: Vec<&str> = unit.lines().collect();
        let of_unit = |line: &str| !line.is_empty() && !line.starts_with('#');
        for n in (0..lines.len()).filter(|n| of_unit(lines[*n])) {
            // A letter less: `[Servic]`, `Restar=always`.
            let end = lines[n].find(['=', ']']).unwrap();
            let wrong = format!("{}{}", &lines[n][..end - 1], &lines[n][end..]);
            let mut changed = lines.clone();
            changed[n] = &wrong;
            assert!(!faults(&(changed.join("\n") + "\n")).is_empty(), "{name}: {wrong}");
        }
    }
    for (right, wrong) in [
        ("Restart=always", "Restart=allways"),
        ("RestartSec=2", "RestartSec=two"),
        ("NoNewPrivileges=true", "NoNewPrivileges=treu"),
        ("ExecStart=/usr", "ExecStart=usr"),
        ("network-online.target", "network-online.traget"),
        ("StateDirectoryMode=0700", "StateDirectoryMode=0800"),
        ("Environment=GT_KEYS=", "Environment=GT_KEYS "),
    ] {
        let (_, server) = &units()[0];
        assert!(server.contains(right), "{right}");
        assert!(!faults(&server.replace(right, wrong)).is_empty(), "{wrong}");
    }
}

/// The program of systemd that checks units, where it is installed.
fn analyzer() -> Option<Command> {
    let found = Command::new("systemd-analyze").arg("--version").output();
    if found.is_err() {
        println!("skipped: this machine has no systemd-analyze");
        return None;
    }
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]);
    Some(command)
}

/// What systemd says about a unit whose program is one that every machine has.
fn said_by_systemd(name: &str, unit: &str) -> Option<String> {
    let mut command = analyzer()?;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name.rsplit('/').next().unwrap().replace('@', "@head"));
    std::fs::write(&file, unit.replace("/usr/local/bin/gt-cli", "/bin/true")).unwrap();
    let output = command.arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // A container may lack other units; only lines about this file count.
    let own = said.lines().filter(|line| line.contains(&*file.to_string_lossy()));
    Some(own.collect::<Vec<_>>().join("\n"))
}

#[test]
fn systemd_itself_takes_the_units() {
    for (name, unit) in &units() {
        let Some(said) = said_by_systemd(name, unit) else { return };
        assert_eq!(said, "", "{name}");
        let wrong = unit.replace("Restart=", "Restrat=");
        let said = said_by_systemd(name, &wrong).unwrap();
        assert!(said.contains("Restrat"), "systemd-analyze finds no mistakes: {said}");
    }
}
