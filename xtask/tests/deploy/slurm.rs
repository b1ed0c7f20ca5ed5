//! The scripts for Slurm: the options of the batch script by a table, and what both do by running
//! them.
//!
//! A folder with programs in place of Slurm's and of `gt-cli` comes first in the `PATH` then. They
//! record how they are called. `srun` starts as many tasks as it is asked for, all on this machine,
//! hands SIGUSR1 on to all their processes, and dies at SIGTERM.

use super::{names, path, read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use tempfile::TempDir;

const SCRIPTS: [&str; 2] = ["slurm/gt-interactive.sh", "slurm/gt.sbatch"];

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
    assert_eq!(names("slurm", ""), SCRIPTS);
    for name in SCRIPTS.iter().filter(|name| name.ends_with(".sbatch")) {
        let script = read(name);
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
fn bash_can_read_the_scripts() {
    let check = |file: &Path| Command::new("bash").arg("-n").arg(file).output();
    for name in SCRIPTS {
        let Ok(output) = check(&path(name)) else {
            println!("skipped: this machine has no bash");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.sbatch");
    std::fs::write(&wrong, read("slurm/gt.sbatch").replace("done\n", "\n")).unwrap();
    assert!(!check(&wrong).unwrap().status.success());
}

/// Programs that a script starts in the background ignore SIGINT. This srun does not, as that of
/// Slurm.
const SRUN: &str = r#"#!/usr/bin/env -S env --default-signal=INT bash
call="srun $*"
echo "${call%% bash -c *}" >>"$RECORD"
# A session of its own, where Ctrl-C does not come.
[ "$(cut -d ' ' -f 6 "/proc/$$/stat")" = $$ ] || echo "srun may get Ctrl-C" >>"$RECORD"
n=1
tasks=()
trap 'kill -USR1 "${tasks[@]}"' USR1
trap 'kill "${tasks[@]}"; exit 137' INT TERM
while [[ $1 == --* ]]; do
    case $1 in
        --ntasks=*) n=${1#*=} ;;
        --label) label=1 ;;
    esac
    shift
done
for task in $(seq 0 $((n - 1))); do
    setsid "$@" 2> >(sed -u "s/^/${label:+$task: }/" >&2) &
    tasks+=("-$!")
done
# The trap ends the first wait.
wait
wait
"#;
const SCONTROL: &str = r#"#!/bin/bash
echo "scontrol $*" >>"$RECORD"
printf 'node1\nnode2\n'
"#;
const GT_CLI: &str = r#"#!/bin/bash
echo "gt-cli $*" >>"$RECORD"
if [ "$1" = "${FAULT:-}" ]; then
    echo "a fault" >&2
    exit 1
fi
sleep 60 &
trap 'kill $!; echo "$1 ended" | tee -a "$RECORD" >&2; exit 0' TERM
case $1 in
    server) echo '{"event":"listening","address":"node1:4711"}' ;;
    worker) echo "registered with the server at $3 as w1" >&2 ;;
esac
wait
"#;
const HOSTNAME: &str = "#!/bin/sh\necho node\n";
const SHELL: &str = "#!/bin/sh\necho \"a shell with $GT_CONNECT\"\n";

/// How a run of a script ended.
struct Ran {
    status: ExitStatus,
    output: String,
    errors: String,
    /// The calls of other programs, in any order.
    record: Vec<String>,
}

/// Programs in place of those that the scripts call, or none on a machine without what they need.
fn programs() -> Option<TempDir> {
    let tools = Command::new("env").args(["--default-signal", "setsid", "bash", "-c", ""]).output();
    if !tools.is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine has no bash, setsid, or env with --default-signal");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("srun", SRUN),
        ("scontrol", SCONTROL),
        ("gt-cli", GT_CLI),
        ("hostname", HOSTNAME),
        ("shell", SHELL),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    Some(folder)
}

/// Runs a script with these variables only, beside those of this process that are not Slurm's.
fn run(programs: &TempDir, script: &str, program: &[&str], variables: &[(&str, &str)]) -> Ran {
    let folder = programs.path();
    let record = folder.join("record");
    std::fs::write(&record, "").unwrap();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&paths));
    let mut command = Command::new("env");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SLURM_") {
            command.env_remove(name);
        }
    }
    command
        .args(["--default-signal", "bash"])
        .arg(path(script))
        .args(program)
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("SHELL", folder.join("shell"))
        .env("RECORD", &record)
        .env("TMPDIR", folder)
        .env_remove("FAULT")
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    // So that a program can send a signal to all processes that a terminal would send it to.
    let output = command.process_group(0).output().unwrap();
    let mut record: Vec<String> =
        std::fs::read_to_string(&record).unwrap().lines().map(str::to_owned).collect();
    record.sort();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        status: output.status,
        output: text(&output.stdout),
        errors: text(&output.stderr),
        record,
    }
}

/// What salloc and sbatch set.
const ALLOCATION: [(&str, &str); 2] =
    [("SLURM_JOB_NUM_NODES", "2"), ("SLURM_JOB_NODELIST", "node[1-2]")];

#[test]
fn a_program_has_a_server_and_a_worker_on_each_node() {
    const PROGRAM: [&str; 3] = ["sh", "-c", "echo with $GT_CONNECT; exit 7"];
    let Some(programs) = programs() else { return };
    for script in SCRIPTS {
        let ran = run(&programs, script, &PROGRAM, &ALLOCATION);
        assert_eq!(ran.status.code(), Some(7), "{script}: {}", ran.errors);
        assert_eq!(ran.output, "with node1:4711\n");
        assert!(
            ran.errors.contains("\n0: registered ") || ran.errors.starts_with("0: registered ")
        );
        let worker = "gt-cli worker --connect node1:4711 --name node --listen node:0";
        let each = "srun --overlap --cpu-bind=none";
        let server = format!("{each} --nodes=1 --ntasks=1 --nodelist=node1");
        let workers = format!(
            "{each} --nodes=2 --ntasks=2 --ntasks-per-node=1 --label --kill-on-bad-exit=0 --wait=0"
        );
        let expected = [
            "gt-cli server --host node -p 0 --json",
            worker,
            worker,
            "scontrol show hostnames node[1-2]",
            "server ended",
            &server,
            &workers,
            "worker ended",
            "worker ended",
        ];
        assert_eq!(ran.record, expected, "{script}");
        // Nothing is left in the folder for temporary files.
        assert_eq!(std::fs::read_dir(programs.path()).unwrap().count(), 6);
    }
}

#[test]
fn a_terminal_gets_a_shell() {
    let Some(programs) = programs() else { return };
    let ran = run(&programs, "slurm/gt-interactive.sh", &[], &ALLOCATION);
    assert_eq!((ran.output.as_str(), ran.status.code()), ("a shell with node1:4711\n", Some(0)));
    let ran = run(&programs, "slurm/gt.sbatch", &[], &ALLOCATION);
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(ran.errors, "usage: sbatch gt.sbatch PROGRAM [ARGS..]\n");
}

#[test]
fn what_is_wrong_is_said_and_nothing_stays() {
    let Some(programs) = programs() else { return };
    let [nodes, list] = ALLOCATION;
    for (variables, said, ended) in [
        (vec![], "no allocation: use sbatch gt.sbatch, or salloc and then gt-interactive.sh", 0),
        (
            vec![nodes, list, ("SLURM_STEP_NUM_TASKS", "2")],
            "this step has several tasks: use srun --ntasks=1",
            0,
        ),
        (vec![nodes, list, ("FAULT", "server")], "the server did not start", 0),
        (vec![nodes, list, ("FAULT", "worker")], "not all 2 workers joined", 1),
    ] {
        let ran = run(&programs, "slurm/gt-interactive.sh", &["echo", "began"], &variables);
        assert_eq!((ran.output.as_str(), ran.status.code()), ("", Some(1)), "{variables:?}");
        assert!(ran.errors.contains(&format!("gt: {said}\n")), "{}", ran.errors);
        let n_ended = ran.record.iter().filter(|line| line.ends_with(" ended")).count();
        assert_eq!(n_ended, ended, "{:?}", ran.record);
    }
}

#[test]
fn signals_end_server_and_workers_after_the_program() {
    let Some(programs) = programs() else { return };
    // A program may be so fast that the script does not wait for it yet.
    let later = "until grep -q '^State:.S' /proc/$PPID/status; do :; done";
    // Ctrl-C is for all processes of the terminal, and Slurm ends the script.
    for (program, signal) in [("kill -INT 0; exit 3", 2), ("kill -TERM $PPID; exit 3", 15)] {
        let program = format!("{later}; {program}");
        let ran = run(&programs, "slurm/gt.sbatch", &["sh", "-c", &program], &ALLOCATION);
        assert_eq!(ran.status.signal(), Some(signal), "{program}: {}", ran.errors);
        let ended = ran.record.iter().filter(|line| line.ends_with(" ended"));
        assert_eq!(ended.collect::<Vec<_>>(), ["server ended", "worker ended", "worker ended"]);
    }
    // A program that uses Ctrl-C itself has its server and its workers until it ends.
    let program = format!("trap '' INT; {later}; kill -INT 0; grep -c ended $RECORD; exit 3");
    let ran = run(&programs, "slurm/gt.sbatch", &["bash", "-c", &program], &ALLOCATION);
    assert_eq!((ran.output.as_str(), ran.status.code()), ("0\n", Some(3)), "{}", ran.errors);
    assert!(ran.errors.contains("1: worker ended\n"), "{}", ran.errors);
}

#[test]
fn the_script_waits_for_what_server_and_workers_say() {
    let script = read("slurm/gt.sbatch");
    for (source, said) in [
        ("gt-runtime/src/worker/serve.rs", "registered with the server at"),
        ("gt-cli/src/serve.rs", "\"address\":"),
    ] {
        let source = read(&format!("../{source}"));
        assert!(script.contains(said) && source.contains(said), "{said}");
    }
}
