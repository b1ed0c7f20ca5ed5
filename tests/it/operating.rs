//! A server in the hands of its operators: `clients`, `kill`, `top`, metrics, the end by SIGTERM,
//! `launch` and `config`.

use crate::process::{Cluster, Finished, Folder, Process, run};
use crate::terminal::{Screen, abandoned};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const DIGITS: &str = "examples/digits";

/// A program that trains for ever on a cluster, once it trains.
fn trains(cluster: &Cluster) -> Process {
    let words = ["--json", "--epochs", "100000", "--connect", &cluster.address];
    let mut program = Process::start(DIGITS, &words);
    program.until("\"epoch\":1");
    program
}

fn cli(cluster: &Cluster, words: &[&str]) -> Finished {
    run("gt-cli", &[words, &["--connect", &cluster.address]].concat())
}

fn object(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn a_program_is_listed_and_ended_and_told_by_whom() {
    let cluster = Cluster::start(1);
    let program = trains(&cluster);
    let listed = cli(&cluster, &["clients"]).good();
    assert!(
        listed.starts_with("SESSION  PROGRAM") && listed.contains("s1       digits ("),
        "{listed}"
    );
    let session = object(&cli(&cluster, &["clients", "--json"]).good());
    assert_eq!((&session["id"], &session["program"]), (&"s1".into(), &"digits".into()));
    assert!(session["state"].as_str().is_some_and(|state| !state.is_empty()), "{session}");
    let (status, said) = cli(&cluster, &["kill", "s7"]).bad();
    assert!(status == Some(1) && said.contains("the server has no session s7"), "{said}");
    assert_eq!(cli(&cluster, &["kill", "s1"]).good(), "s1 was ended\n");
    let (_, said) = program.finish().bad();
    assert!(said.contains("session s1 was ended by "), "{said}");
    assert_eq!(cli(&cluster, &["clients"]).good(), "no programs of yours use the server\n");
    assert_eq!(cli(&cluster, &["kill", "s1"]).good(), "s1 had ended before\n");
}

#[test]
fn top_says_once_what_runs_with_rates() {
    let cluster = Cluster::start(2);
    let _program = trains(&cluster);
    let view = object(&cli(&cluster, &["top", "--once", "--json", "--interval", "2"]).good());
    let sum = |rows: &Value, field: &str| -> f64 {
        rows.as_array().unwrap().iter().map(|row| row[field].as_f64().unwrap()).sum()
    };
    assert_eq!(view["workers"].as_array().unwrap().len(), 2);
    assert_eq!(view["sessions"][0]["program"], "digits");
    for (rows, field) in
        [("workers", "launches"), ("workers", "used"), ("sessions", "instructions")]
    {
        assert!(sum(&view[rows], field) > 0.0, "{field}: {view:#}");
    }
    assert!(sum(&view["links"], "there_total") > 0.0, "{view:#}");
    let busy = sum(&view["workers"], "busy");
    assert!(busy > 0.0 && busy <= 2.0, "{view:#}");
    let text = cli(&cluster, &["top", "--once"]).good();
    assert!(text.starts_with("gt top localhost:") && text.contains("digits"), "{text}");
    // Without a terminal there is nothing to draw on.
    let (_, said) = cli(&cluster, &["top"]).bad();
    assert!(said.contains("draws on a terminal") && said.contains("--once"), "{said}");
}

#[test]
fn top_draws_on_a_terminal_and_ends_a_session_after_a_yes() {
    let cluster = Cluster::start(1);
    let program = trains(&cluster);
    let words = ["top", "--connect", &*cluster.address, "--interval", "0.2"];
    let mut screen = Screen::start("gt-cli", &words, 80, 24);
    screen.until("digits");
    let text = screen.text();
    for words in ["gt top localhost:", "BUSY", "PROGRAM", "THERE/S", "q quit"] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    screen.press("2k");
    screen.until("End the work of s1 digits");
    screen.press("y");
    screen.until("s1 was ended");
    assert!(program.finish().bad().1.contains("session s1 was ended by "));
    screen.until("no sessions");
    screen.press("\u{3}");
    assert!(screen.finish().success());
}

#[test]
fn top_ends_with_its_terminal() {
    let cluster = Cluster::start(0);
    let ended = abandoned("gt-cli", &["top", "--connect", &*cluster.address]);
    assert_eq!(ended.and_then(|status| status.code()), Some(129), "as after SIGHUP");
}

#[test]
fn top_waits_for_a_server_that_goes_away() {
    let mut cluster = Cluster::start(0);
    let (address, port) =
        (cluster.address.clone(), cluster.address.split(':').nth(1).unwrap().to_owned());
    let words = ["top", "--connect", &*address, "--interval", "0.2"];
    let mut screen = Screen::start("gt-cli", &words, 80, 24);
    screen.until("0 workers");
    cluster.server.interrupt();
    cluster.server.ended();
    screen.until("no answer, trying again");
    let mut again = Process::start("gt-cli", &["server", "-p", &port]);
    again.until("listening at");
    screen.until_gone("no answer");
    screen.press("q");
    assert!(screen.finish().success());
    // Nobody listens: an error, and no screen that stays empty.
    let mut screen = Screen::start("gt-cli", &["top", "--connect", "localhost:1"], 80, 24);
    screen.until("no server at localhost:1");
    assert!(!screen.finish().success());
}

/// The status line and the body of an answer over HTTP.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn metrics_and_health_are_served_and_hostile_peers_are_bounded() {
    let words = ["server", "-p", "0", "--metrics", "127.0.0.1:0", "--json"];
    let mut server = Process::start("gt-cli", &words);
    let event = object(&server.until("listening"));
    let metrics = event["metrics"].as_str().unwrap();
    let metrics = metrics.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    assert_eq!(get(metrics, "/healthz").1, "ok\n");
    let (code, why) = get(metrics, "/readyz");
    assert!(code.contains("503") && why == "the server has no worker\n", "{code} {why}");
    // More connections than there are places, which say nothing.
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(metrics).unwrap()).collect();
    let mut worker =
        Process::start("gt-cli", &["worker", "--connect", event["address"].as_str().unwrap()]);
    worker.until("registered");
    // An answer of the server is given again for a moment.
    std::thread::sleep(Duration::from_millis(400));
    let (code, text) = get(metrics, "/metrics");
    assert!(code.contains("200") && text.contains("\ngt_workers 1\n"), "{text}");
    drop(silent);
    let mut noise = TcpStream::connect(metrics).unwrap();
    noise.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The peer may be gone before all is written.
    let _ = noise.write_all(&vec![b'x'; 1 << 20]);
    let _ = noise.read_to_end(&mut Vec::new());
    assert_eq!(get(metrics, "/readyz").1, "ok\n");
    assert!(get(metrics, "/else").0.contains("404"));
    let taken = ["server", "-p", "0", "--metrics", metrics];
    let (status, said) = run("gt-cli", &taken).bad();
    let why = format!("cannot serve metrics at {metrics}");
    assert!(status == Some(1) && said.contains(&why) && said.contains("in use"), "{said}");
}

#[test]
fn a_server_that_gets_sigterm_waits_for_its_programs_and_takes_no_new_ones() {
    let cluster = Cluster::start(1);
    let mut program = trains(&cluster);
    let Cluster { mut server, workers: _workers, address } = cluster;
    server.signal("-TERM");
    server.until("the server ends when its session has ended, within 30 s");
    let words = ["--epochs", "1", "--connect", &address];
    let (_, said) = run(DIGITS, &words).bad();
    assert!(said.contains("the server ends soon and takes no new programs"), "{said}");
    program.until("\"epoch\"");
    program.interrupt();
    program.finish();
    server.finish().good();
}

#[test]
fn a_server_that_cuts_programs_off_says_so_by_its_status_and_in_its_log() {
    let folder = Folder::new("cut-off");
    let log = folder.path("server.log");
    let words = ["server", "-p", "0", "--drain", "1", "--log-file", &log];
    let mut server = Process::start("gt-cli", &words);
    let address = server.until("listening at").replace("listening at ", "");
    let mut worker = Process::start("gt-cli", &["worker", "--connect", address.trim()]);
    server.until("worker w1 (");
    let words = ["--json", "--epochs", "100000", "--connect", address.trim()];
    let mut program = Process::start(DIGITS, &words);
    program.until("\"epoch\":1");
    server.signal("-TERM");
    server.until("session s1 of digits");
    let (status, said) = server.finish().bad();
    assert!(status == Some(1) && said.contains("1 program had not ended within"), "{said}");
    drop((worker.until("the server at"), program.finish().bad()));
    let log = std::fs::read_to_string(log).unwrap();
    for (event, what) in [("CONNECT", "session s1"), ("CONNECT", "worker w1")] {
        for event in [format!("| {event} "), format!("| DIS{event} ")] {
            let has = |line: &str| line.contains(&event) && line.contains(what);
            assert_eq!(log.lines().filter(|line| has(line)).count(), 1, "{event} {what}: {log}");
        }
    }
}

#[test]
fn a_worker_that_is_stopped_as_a_service_is_ends_well_and_leaves_its_profile() {
    let folder = Folder::new("service");
    let file = folder.path("worker.json");
    let cluster = Cluster::start(0);
    let words = ["worker", "--connect", &cluster.address];
    let mut worker = Process::start_with("gt-cli", &words, &[("GT_PROFILE", &file)]);
    worker.until("registered");
    let _program = trains(&cluster);
    worker.signal("-TERM");
    let said = worker.finish();
    assert!(said.status.success() && said.stderr.contains("the profile is in"), "{said:#?}");
    let lines = run("gt-cli", &["profile", &file]).good();
    assert!(lines.contains("examples/digits"), "{lines}");
}

#[test]
fn a_second_signal_ends_a_server_at_once() {
    let cluster = Cluster::start(1);
    let _program = trains(&cluster);
    let Cluster { mut server, workers: _workers, .. } = cluster;
    server.signal("-TERM");
    server.until("the server ends when");
    server.signal("-TERM");
    assert_eq!(server.finish().status.code(), Some(130));
}

#[test]
fn a_launch_runs_server_workers_and_program_and_ends_with_the_program() {
    let digits = crate::process::program(DIGITS);
    let digits = digits.to_str().unwrap();
    let words = ["launch", "--workers", "2", digits, "--json", "--seed", "7", "--epochs", "1"];
    let finished = run("gt-cli", &words);
    let embedded = run(DIGITS, &["--json", "--seed", "7", "--epochs", "1"]);
    for said in ["[server] listening at", "[cpu] ", "[cpu#2] "] {
        assert!(finished.stderr.contains(said), "{}", finished.stderr);
    }
    assert_eq!(crate::cluster::losses(finished), crate::cluster::losses(embedded));
    let (status, said) = run("gt-cli", &["launch", "sh", "-c", "exit 7"]).bad();
    assert_eq!(status, Some(7), "{said}");
    let (status, _) = run("gt-cli", &["launch", "sh", "-c", "kill -KILL $$"]).bad();
    assert_eq!(status, Some(137));
    let (_, said) = run("gt-cli", &["launch", "/no/such/program"]).bad();
    assert!(said.contains("cannot start /no/such/program"), "{said}");
}

#[test]
fn a_launch_without_a_program_runs_until_ctrl_c() {
    let mut launch = Process::start("gt-cli", &["launch", "--workers", "2"]);
    let line = launch.until("ready: GT_CONNECT=");
    let address = line.split("GT_CONNECT=").nth(1).unwrap().split_whitespace().next().unwrap();
    run(DIGITS, &["--epochs", "1", "--connect", address]).good();
    launch.interrupt();
    assert_eq!(launch.finish().status.code(), Some(130));
}

#[test]
fn a_launch_starts_workers_on_other_machines_by_a_remote_shell() {
    // The shell drops the name of the machine and of the program, and runs this build here.
    let folder = Folder::new("launch");
    let gt = crate::process::program("gt-cli");
    let shell = folder.write("shell", format!("shift 2; exec {} \"$@\"\n", gt.display()));
    let ssh = format!("sh {shell}");
    let words =
        ["launch", "--insecure", "--host", "0.0.0.0", "--hosts", "a,b", "--ssh", &ssh, "true"];
    let finished = run("gt-cli", &words);
    let said = finished.stderr.clone();
    finished.good();
    assert!(said.contains("[a] ") && said.contains("[b] "), "{said}");
    // A remote shell that reaches nobody, and one that finds no gt-cli there.
    for (status, cure) in [(255, "c true` has to succeed without a password"), (127, "on c")] {
        let shell = folder.write("shell", format!("exit {status}\n"));
        let ssh = format!("sh {shell}");
        let words = ["launch", "--host", "0.0.0.0", "--hosts", "c", "--ssh", &ssh, "true"];
        let (_, said) = run("gt-cli", &words).bad();
        assert!(
            said.contains("not started again: the worker on c") && said.contains(cure),
            "{said}"
        );
    }
    let (_, said) = run("gt-cli", &["launch", "--hosts", "a", "true"]).bad();
    assert!(said.contains("other machines cannot reach a server at localhost"), "{said}");
}

#[test]
fn settings_come_from_variables_before_the_file_before_defaults() {
    let folder = Folder::new("config");
    folder.write("gt.toml", "threads = 3\ntier = 0\n[server]\nport = 4711\n");
    let keys = folder.path("");
    let config = |words: &[&str], env: &[(&str, &str)]| {
        let env = [&[("GT_KEYS", &*keys)], env].concat();
        Process::start_with("gt-cli", &[&["config"], words].concat(), &env).finish()
    };
    let names = ["GT_THREADS", "GT_TIER", "GT_SIMD", "server.port", "--json"];
    let said = config(&names, &[("GT_TIER", "1")]).good();
    let objects: Vec<Value> = said.lines().map(object).collect();
    let found = objects.iter().map(|o| (o["value"].as_str().unwrap(), o["from"].as_str().unwrap()));
    let expected = [
        ("3", "gt.toml"),
        ("1", "variable"),
        ("the widest of the processor", "default"),
        ("4711", "gt.toml"),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    // A variable that is set to nothing hides the file.
    let said = config(&["GT_THREADS"], &[("GT_THREADS", "")]).good();
    assert!(said.contains("default"), "{said}");
    let said = config(&["--explain"], &[]).good();
    assert!(
        said.contains("flag --connect") && said.contains("gt.toml: [server] port = 12345"),
        "{said}"
    );
    folder.write("gt.toml", "thread = 3\n");
    let (_, said) = config(&[], &[]).bad();
    assert!(said.contains("there is no setting `thread`; did you mean `threads`?"), "{said}");
    let env = [("GT_KEYS", &*keys)];
    let (_, said) = Process::start_with(DIGITS, &["--epochs", "1"], &env).finish().bad();
    assert!(said.contains("there is no setting `thread`"), "{said}");
}

#[test]
fn variables_without_effect_are_told_of_once_with_what_was_meant() {
    let env = [("GT_CONECT", "pi:1"), ("GT_AUTO_COMPILE", "1")];
    let finished = Process::start_with(DIGITS, &["--epochs", "1"], &env).finish();
    let said = &finished.stderr;
    let meant = "gt: GT has no variable GT_CONECT: did you mean GT_CONNECT?";
    assert_eq!(said.matches(meant).count(), 1, "{said}");
    assert_eq!(
        said.matches("gt: GT_AUTO_COMPILE has no effect any more: steps that repeat").count(),
        1,
        "{said}"
    );
    finished.good();
    let doctor = Process::start_with("gt-cli", &["doctor"], &env).finish();
    assert!(doctor.stdout.contains("did you mean GT_CONNECT?"), "{}", doctor.stdout);
    let config = Process::start_with("gt-cli", &["config", "GT_TIER"], &env).finish();
    assert!(config.stderr.contains(meant), "{}", config.stderr);
}

#[test]
fn values_that_a_setting_cannot_have_end_every_command_and_program() {
    let wrong = [
        ("GT_VERBOSE", "banana", "it is 0 or 1"),
        ("GT_THREADS", "0", "it is a number from 1 to 1024"),
        ("GT_NUMERICS", "zzz", "it is exact, reassociate or approximate"),
        ("GT_LOG_SIZE", "12Q", "it is a size from 64K on"),
        ("GT_WORKERS", "0", "it is a number from 1 to 256"),
    ];
    for (name, value, possible) in wrong {
        let env = [(name, value)];
        let meant = format!("{name}={value} has no meaning: {possible}");
        let (_, said) = Process::start_with(DIGITS, &["--epochs", "1"], &env).finish().bad();
        assert!(said.contains(&meant), "{said}");
        let (_, said) = Process::start_with("gt-cli", &["schema"], &env).finish().bad();
        assert!(said.contains(&meant), "{said}");
        let shown = Process::start_with("gt-cli", &["config", name], &env).finish();
        assert!(shown.stdout.contains(&meant), "{}", shown.stdout);
        assert_eq!(shown.bad().0, Some(1));
        let doctor = Process::start_with("gt-cli", &["doctor"], &env).finish();
        assert!(doctor.stdout.contains(&meant), "{}", doctor.stdout);
    }
}
