//! `gt-cli worker`: names, engines and devices, and several devices under one supervisor.

use crate::process::{Cluster, Folder, Process, run};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// A supervisor of two workers of the cluster's server, and the processes of the workers.
fn supervised(cluster: &mut Cluster, words: &[&str]) -> (Process, [u64; 2]) {
    let start = ["worker", "--connect", &cluster.address, "--device", "cpu,cpu", "--json"];
    let mut supervisor = Process::start("gt-cli", &[&start[..], words].concat());
    let pids = [0, 1].map(|_| object(&supervisor.until("\"started\""))["pid"].as_u64().unwrap());
    for _ in pids {
        cluster.server.until("joined");
    }
    (supervisor, pids)
}

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))
}

/// Waits until all these processes have ended.
#[track_caller]
fn gone(pids: &[u64]) {
    let there = |pid: &u64| PathBuf::from(format!("/proc/{pid}")).exists();
    for _ in 0..1_000 {
        if !pids.iter().any(there) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("of {pids:?} some still run");
}

fn kill(pid: u64) {
    let killed = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn a_worker_that_dies_is_started_again_and_all_end_together() {
    let mut cluster = Cluster::start(0);
    let (mut supervisor, pids) = supervised(&mut cluster, &["--name", "pi"]);
    kill(pids[0]);
    let ended = object(&supervisor.until("again_in_s"));
    assert_eq!((&ended["device"], &ended["again_in_s"]), (&"cpu".into(), &0.5.into()));
    let again = object(&supervisor.until("\"started\""));
    assert_eq!(again["device"], "cpu");
    let joined = cluster.server.until("joined");
    assert!(joined.contains("worker w3 pi cpu (") && joined.contains("native on cpu"), "{joined}");
    supervisor.interrupt();
    let finished = supervisor.finish();
    assert_eq!(finished.status.code(), Some(130), "{finished:#?}");
    gone(&[pids[0], pids[1], again["pid"].as_u64().unwrap()]);
    let lost = cluster.server.until("worker w3 pi cpu (");
    assert!(lost.contains("its supervisor ended it"), "{lost}");
}

#[test]
fn workers_end_with_a_supervisor_that_is_killed_and_with_their_server() {
    let mut cluster = Cluster::start(0);
    let (mut supervisor, pids) = supervised(&mut cluster, &[]);
    supervisor.kill();
    gone(&pids);
    let (supervisor, pids) = supervised(&mut cluster, &[]);
    cluster.server.interrupt();
    let finished = supervisor.finish();
    assert!(finished.status.success(), "{finished:#?}");
    assert_eq!(finished.stdout.matches("\"status\":0").count(), 2, "{finished:#?}");
    gone(&pids);
}

#[test]
fn workers_that_cannot_begin_are_given_up_at_once() {
    let words = ["worker", "--connect", "localhost:1", "--device", "cpu,cpu"];
    let (status, said) = run("gt-cli", &words).bad();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("[cpu#2] error: no server at localhost:1"), "{said}");
    assert!(said.ends_with("error: not started again: the worker on cpu, on cpu#2\n"), "{said}");
}

#[test]
fn a_worker_has_the_name_it_is_given() {
    let mut cluster = Cluster::start(0);
    let words = ["worker", "--connect", &cluster.address, "--name", "alpha"];
    let _worker = Process::start("gt-cli", &words);
    let joined = cluster.server.until("joined");
    assert!(joined.starts_with("worker w1 alpha ("), "{joined}");
    let (status, said) = run("gt-cli", &["worker", "--connect", "localhost:1", "--name", ""]).bad();
    assert!(status == Some(2) && said.contains("1 to 64 characters"), "{said}");
}

#[test]
fn engines_and_devices_that_are_not_here_are_named_with_the_cure() {
    let folder = Folder::new("engines");
    let tape = folder.write("one.gt", "gt tape 1\n%0 = full[f32[2]] 1.0\noutput %0\n");
    let worker = ["worker", "--connect", "localhost:1"];
    let commands = [&worker[..], &["run", &tape], &["bench", &tape, "--steps", "2"]];
    let mut cases = vec![
        (2, ["--engine", "jax"], "unknown engine `jax`\nhint: the engines are native and torch"),
        (2, ["--device", "gpu"], "unknown device `gpu`\nhint: the devices are cpu, cuda"),
    ];
    if !cfg!(feature = "torch") {
        cases.push((
            1,
            ["--engine", "torch"],
            "built without libtorch\nhint: `cargo xtask libtorch`",
        ));
    }
    if !cfg!(feature = "cuda") {
        let cure = "built without CUDA\nhint: `cargo xtask libtorch --cuda`, then ";
        cases.push((1, ["--device", "cuda:1"], cure));
        cases.push((1, ["--device", "all"], cure));
    }
    for command in commands {
        for (status, flag, expected) in &cases {
            let (code, said) = run("gt-cli", &[command, flag].concat()).bad();
            assert!(
                code == Some(*status) && said.contains(expected),
                "{command:?} {flag:?}: {said}"
            );
        }
    }
}

#[test]
fn flags_come_before_the_environment_and_its_mistakes_are_named() {
    let folder = Folder::new("environment");
    let tape = folder.write("one.gt", "gt tape 1\n%0 = full[f32[2]] 1.0\noutput %0\n");
    let with = |words: &[&str], env| {
        Process::start_with("gt-cli", &[&["run", &tape], words].concat(), &[env]).finish()
    };
    let native = ["--engine", "native"];
    assert_eq!(with(&native, ("GT_DEVICE", "cuda:7")).good(), "%0 : f32[2]\n  1 1\n");
    for (env, expected) in [
        (("GT_ENGINE", "jax"), "error: GT_ENGINE=jax has no meaning: it is native or torch"),
        (("GT_DEVICE", "tpu"), "error: GT_DEVICE: unknown device `tpu`"),
        (("GT_TF32", "yes"), "error: GT_TF32=yes has no meaning: it is 0 or 1"),
        (("GT_DETERMINISTIC", "2"), "error: GT_DETERMINISTIC=2 has no meaning: it is 0 or 1"),
    ] {
        let (status, said) = with(&[], env).bad();
        assert!(status == Some(1) && said.starts_with(expected), "{env:?}: {said}");
    }
}

#[test]
fn what_is_measured_says_on_what() {
    let engines = if cfg!(feature = "torch") { &["native", "torch"][..] } else { &["native"] };
    for engine in engines {
        let words = ["bench", "mlp_small", "--steps", "3", "--json", "--engine", engine];
        let row = object(&run("gt-cli", &[&words[..], &["--device", "cpu"]].concat()).good());
        assert_eq!((&row["engine"], &row["device"]), (&(*engine).into(), &"cpu".into()));
        assert!(
            row["ms"].as_f64().unwrap() > 0.0 && row["planned"].as_f64().unwrap() > 0.9,
            "{row}"
        );
    }
}

#[test]
fn a_worker_that_lost_its_server_looks_for_it_and_registers_again() {
    let mut cluster = Cluster::start(1);
    let port = cluster.address.rsplit(':').next().unwrap().to_owned();
    let words = ["worker", "--connect", &cluster.address, "--reconnect", "0"];
    let mut hasty = Process::start("gt-cli", &words);
    hasty.until("registered with the server at");
    cluster.server.kill();
    cluster.server.ended();
    let worker = &mut cluster.workers[0];
    worker.until("is lost: ");
    worker.until("no server at ");
    let (status, said) = hasty.finish().bad();
    assert!(status == Some(1) && said.contains("is lost: "), "{said}");
    let mut server = Process::start("gt-cli", &["server", "-p", &port]);
    server.until("listening at ");
    let line = worker.until("registered with the server at");
    assert!(line.ends_with(" as w1"), "{line}");
    server.until("joined");
    let trained = run("examples/digits", &["--epochs", "1", "--connect", &cluster.address]);
    trained.good();
}

#[test]
fn a_worker_gives_its_server_up_after_the_time_that_it_was_told() {
    let mut cluster = Cluster::start(0);
    let words = ["worker", "--connect", &cluster.address, "--reconnect", "1"];
    let mut worker = Process::start("gt-cli", &words);
    worker.until("registered with the server at");
    cluster.server.kill();
    worker.until("looking for it for 1 s");
    let (status, said) = worker.finish().bad();
    assert!(status == Some(1) && said.contains("is lost: "), "{said}");
}
