//! Tools in trouble: a taken port, a full disk, a server that goes away, a file that is no trace.
//! Each says what is wrong, soon, and what it does not concern goes on.

use crate::process::{Cluster, Folder, Process, run};

const DIGITS: &str = "examples/digits";

/// A file on a disk that is full: a link to the device that takes nothing.
fn on_a_full_disk(folder: &Folder, name: &str) -> String {
    let path = folder.path(name);
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    path
}

#[test]
fn a_taken_port_is_named() {
    let cluster = Cluster::start(1);
    let port = cluster.address.rsplit_once(':').unwrap().1;
    for words in [&["server", "-p", port][..], &["launch", "-p", port, "true"]] {
        let (status, said) = run("gt-cli", words).bad();
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(port) && said.contains("in use"), "{words:?}: {said}");
    }
    // The server that has the port is as it was.
    run(DIGITS, &["--epochs", "1", "--connect", &cluster.address]).good();
}

#[test]
fn a_full_disk_under_the_logs_of_server_and_worker_stops_neither() {
    let folder = Folder::new("full-logs");
    let log = on_a_full_disk(&folder, "gt.log");
    let words = ["server", "-p", "0", "--log-file", &log, "--log-format", "json"];
    let server = Process::start("gt-cli", &words);
    let mut cluster = Cluster::of(server, 1, |address, _| {
        Process::start("gt-cli", &["worker", "--connect", address, "--log-file", &log])
    });
    let end = format!("the instruction log {log} ends here: No space left on device");
    cluster.server.says(&end);
    cluster.workers[0].says(&end);
    run(DIGITS, &["--epochs", "1", "--connect", &cluster.address]).good();
    run(DIGITS, &["--epochs", "1", "--connect", &cluster.address]).good();
    assert!(cluster.server.is_running() && cluster.workers[0].is_running());
}

#[test]
fn a_full_disk_under_a_profile_a_trace_or_a_picture_is_an_error_that_names_the_file() {
    let folder = Folder::new("full-files");
    let profile = on_a_full_disk(&folder, "run.json");
    let finished =
        Process::start_with(DIGITS, &["--epochs", "2"], &[("GT_PROFILE", &profile)]).finish();
    assert!(finished.stderr.contains(&profile), "{}", finished.stderr);
    assert!(finished.stderr.contains("No space left"), "{}", finished.stderr);
    finished.good();
    let cluster = Cluster::start(1);
    let mut client = Process::start(DIGITS, &["--epochs", "100000", "--connect", &cluster.address]);
    client.until("epoch");
    let trace = |to: &str| {
        let words = ["trace", "--connect", &cluster.address, "-s", "60", "-n", "500", "-o", to];
        run("gt-cli", &words)
    };
    let full = on_a_full_disk(&folder, "run.jsonl");
    let (status, said) = trace(&full).bad();
    assert!(status == Some(1) && said.contains(&full), "{said}");
    assert!(said.contains("No space left"), "{said}");
    let whole = folder.path("whole.jsonl");
    trace(&whole).good();
    for end in ["svg", "html", "json", "png"] {
        let picture = on_a_full_disk(&folder, &format!("picture.{end}"));
        let (status, said) = run("gt-cli", &["visualize", &whole, "-o", &picture]).bad();
        assert!(status == Some(1) && said.contains(&picture), "{said}");
        assert!(said.contains("No space left"), "{said}");
    }
    assert!(client.is_running());
}

#[test]
fn a_trace_of_a_server_that_goes_away_ends_soon_and_keeps_what_it_has() {
    let mut cluster = Cluster::start(1);
    let folder = Folder::new("gone");
    let mut client = Process::start(DIGITS, &["--epochs", "100000", "--connect", &cluster.address]);
    client.until("epoch");
    let file = folder.path("run.jsonl");
    let words = ["trace", "--connect", &cluster.address, "-s", "600", "-o", &file];
    let tracer = Process::start("gt-cli", &words);
    let has_events = || std::fs::read_to_string(&file).is_ok_and(|text| text.lines().count() > 100);
    let turn = std::time::Duration::from_millis(10);
    assert!((0..6000).any(|_| has_events() || {
        std::thread::sleep(turn);
        false
    }));
    cluster.server.kill();
    cluster.server.ended();
    let (status, said) = tracer.finish().bad();
    assert!(status == Some(1), "{said}");
    assert!(said.contains(&format!("{file} has the events so far")), "{said}");
    run("gt-cli", &["visualize", &file, "-o", &folder.path("run.svg")]).good();
    for words in [&["status"][..], &["clients"], &["top", "--once"], &["trace", "-s", "1"]] {
        let words = [words, &["--connect", &cluster.address]].concat();
        let (status, said) = run("gt-cli", &words).bad();
        assert!(status == Some(1) && said.contains("no server at"), "{words:?}: {said}");
    }
}

#[test]
fn files_that_are_damaged_or_of_another_kind_are_errors_that_name_them() {
    let folder = Folder::new("damaged");
    let log = folder.path("gt.log");
    let env = [("GT_INSTRUCTION_LOG", log.as_str()), ("GT_LOG_FORMAT", "json")];
    Process::start_with(DIGITS, &["--epochs", "1"], &env).finish().good();
    let text = std::fs::read_to_string(&log).unwrap();
    let picture = folder.path("run.svg");
    let draw = |name: &str, content: &[u8]| {
        let file = folder.write(name, content);
        run("gt-cli", &["visualize", &file, "-o", &picture])
    };
    draw("whole.jsonl", text.as_bytes()).good();
    // A process that was killed while it wrote.
    let finished = draw("cut.jsonl", &text.as_bytes()[..text.len() - 7]);
    assert!(finished.stderr.contains("the last, is cut off"), "{}", finished.stderr);
    finished.good();
    let lines: Vec<&str> = text.lines().collect();
    let mixed = [&lines[..2], &["epoch 1: loss 0.3"], &lines[2..]].concat().join("\n");
    let cases: [(&str, &[u8], &str); 5] = [
        ("mixed.jsonl", mixed.as_bytes(), "line 3 is no event"),
        ("none.jsonl", b"", "this is no trace"),
        ("zeros.jsonl", &[0; 4096], "this is no trace"),
        ("profile.json", b"{\"gt_profile\":{}}", "this is a profile, which is no trace"),
        ("other.jsonl", b"{\"gt_log\":2,\"began_ns\":1}\n", "this is no trace"),
    ];
    for (name, content, why) in cases {
        let (status, said) = draw(name, content).bad();
        assert!(status == Some(1) && said.contains(name) && said.contains(why), "{name}: {said}");
    }
    let (status, said) = run("gt-cli", &["profile", &folder.path("zeros.jsonl")]).bad();
    assert!(status == Some(1) && said.contains("zeros.jsonl"), "{said}");
    let (status, said) = run("gt-cli", &["profile", &folder.path("profile.json")]).bad();
    assert!(status == Some(1) && said.contains("this is no profile of GT"), "{said}");
    let (status, said) = run("gt-cli", &["profile", &folder.path("missing.json")]).bad();
    assert!(status == Some(1) && said.contains("missing.json"), "{said}");
}
