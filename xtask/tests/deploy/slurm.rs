//! The batch script of Slurm: its options by a table, and its commands by `bash -n`.

use super::{names, path, read};
use std::process::Command;

/// The form of an option's value.
#[derive(Clone, Copy)]
enum Form {
    Name,
    Number,
    /// `HOURS:MINUTES:SECONDS`.
    Time,
}

/// The options of sbatch that the script uses. A new one needs a row.
const OPTIONS: &[(&str, Form)] = &[
    ("job-name", Form::Name),
    ("nodes", Form::Number),
    ("ntasks-per-node", Form::Number),
    ("time", Form::Time),
];

impl Form {
    fn fits(self, value: &str) -> bool {
        let number = |text: &str| text.parse::<u32>().ok();
        match self {
            Form::Name => value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
            Form::Number => number(value).is_some_and(|n| n > 0),
            Form::Time => {
                let parts: Vec<_> = value.split(':').map(number).collect();
                matches!(parts[..], [Some(_), Some(0..60), Some(0..60)])
            }
        }
    }
}

/// What is wrong with the options of a script, line by line.
fn faults(script: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !script.starts_with("#!/bin/bash\n") {
        faults.push("line 1: Slurm runs scripts that begin with #!".to_owned());
    }
    let mut is_late = false;
    for (n, line) in script.lines().enumerate().skip(1) {
        let mut fault = |what: &str| faults.push(format!("line {}: {what}: {line}", n + 1));
        match line.strip_prefix("#SBATCH ") {
            Some(_) if is_late => fault("Slurm reads no options behind the first command"),
            Some(option) if !is_option(option) => fault("no option in the table of this test"),
            Some(_) => {}
            // A comment has a space, so that a wrong `#SBATCH` is none.
            None if line.starts_with('#') && !line.starts_with("# ") => {
                fault("neither a comment nor an option");
            }
            None if line.starts_with("# SBATCH") => fault("an option that Slurm does not read"),
            None => is_late |= !line.is_empty() && !line.starts_with('#'),
        }
    }
    faults
}

fn is_option(text: &str) -> bool {
    let parts = text.strip_prefix("--").and_then(|option| option.split_once('='));
    let Some((name, value)) = parts else { return false };
    OPTIONS.iter().any(|(known, form)| *known == name && !value.is_empty() && form.fits(value))
}

#[test]
fn scripts_have_options_of_sbatch() {
    let names = names("slurm", ".sbatch");
    assert_eq!(names, ["slurm/gt.sbatch"]);
    for name in names {
        let script = read(&name);
        let faults = faults(&script);
        assert!(faults.is_empty(), "{name}:\n  {}", faults.join("\n  "));
        assert_eq!(script.matches("\n#SBATCH ").count(), OPTIONS.len(), "{name}");
    }
}

#[test]
fn every_option_that_is_written_wrong_is_found() {
    let script = read("slurm/gt.sbatch");
    for (name, _) in OPTIONS {
        for wrong in [&name[1..], &format!("{name}s"), &name.to_uppercase()] {
            let changed = script.replace(&format!("--{name}="), &format!("--{wrong}="));
            assert!(changed != script && !faults(&changed).is_empty(), "{wrong}");
        }
    }
    for (right, wrong) in [
        ("#SBATCH --time", "#SBTACH --time"),
        ("#SBATCH --time", "# SBATCH --time"),
        ("--time=01:00:00", "--time=01:00:60"),
        ("--nodes=2", "--nodes=two"),
        ("--nodes=2", "-nodes=2"),
        ("set -euo pipefail\n", "set -euo pipefail\n#SBATCH --nodes=3\n"),
        ("#!/bin/bash", "# a script"),
    ] {
        let changed = script.replace(right, wrong);
        assert!(changed != script && !faults(&changed).is_empty(), "{wrong}");
    }
}

#[test]
fn bash_can_read_the_script() {
    let check = |file: &std::path::Path| Command::new("bash").arg("-n").arg(file).output();
    let Ok(output) = check(&path("slurm/gt.sbatch")) else {
        println!("skipped: this machine has no bash");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.sbatch");
    std::fs::write(&wrong, read("slurm/gt.sbatch").replace("done\n", "\n")).unwrap();
    assert!(!check(&wrong).unwrap().status.success());
}
