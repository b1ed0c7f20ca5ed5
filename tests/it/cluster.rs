//! Server, workers and clients as separate processes: equal results, independent clients, clean and
//! unclean ends.

use crate::process::{Cluster, Finished, Folder, Process, run};

const DIGITS: &str = "examples/digits";

/// The lines of the epochs of `digits --json`, without their speed.
pub(crate) fn losses(finished: Finished) -> Vec<String> {
    let stdout = finished.good();
    let epochs = stdout.lines().filter(|line| line.contains("\"epoch\""));
    epochs.map(|line| line.split(",\"samples_per_second\"").next().unwrap().to_string()).collect()
}

#[test]
fn losses_are_the_same_to_the_last_bit_embedded_and_on_a_cluster() {
    let words = ["--json", "--seed", "7", "--epochs", "2"];
    let embedded = losses(run(DIGITS, &words));
    assert_eq!(embedded.len(), 2);
    let cluster = Cluster::start(1);
    let remote = |seed| {
        Process::start(
            DIGITS,
            &["--json", "--seed", seed, "--epochs", "2", "--connect", &cluster.address],
        )
    };
    assert_eq!(losses(remote("7").finish()), embedded);

    // Two clients at once have separate results.
    let (one, other) = (remote("7"), remote("8"));
    let other = losses(other.finish());
    assert_eq!(losses(one.finish()), embedded);
    assert_ne!(other, embedded);
    assert_eq!(other, losses(run(DIGITS, &["--json", "--seed", "8", "--epochs", "2"])));
}

#[test]
fn several_embedded_workers_give_the_same_losses() {
    let words = ["--json", "--epochs", "1"];
    assert_eq!(
        losses(run(DIGITS, &words)),
        losses(run(DIGITS, &[&words[..], &["--workers", "2"]].concat()))
    );
}

#[test]
fn a_program_that_signals_spread_over_processes_has_the_same_losses() {
    let cluster = Cluster::start(2);
    let spread = "examples/data_parallel";
    for words in [&[][..], &["examples/data_parallel/pipeline.yaml"]] {
        let here = run(spread, words).good();
        let env = [("GT_CONNECT", &*cluster.address)];
        let there = Process::start_with(spread, words, &env).finish().good();
        assert_eq!(there, here);
    }
    // Both workers compute.
    let folder = Folder::new("spread");
    let log = folder.path("log");
    Process::start_with(spread, &[], &[("GT_INSTRUCTION_LOG", &*log)]).finish().good();
    let log = std::fs::read_to_string(&log).unwrap();
    let computed = |worker: &str| {
        log.lines().filter(|line| line.contains("EXECUTE") && line.contains(worker)).count()
    };
    assert!(computed("WORKER w1") > 60 && computed("WORKER w2") > 60, "{log}");
}

#[test]
fn interrupting_the_client_ends_it_and_nobody_else() {
    let mut cluster = Cluster::start(1);
    let mut client = Process::start(DIGITS, &["--epochs", "100000", "--connect", &cluster.address]);
    client.until("epoch");
    client.interrupt();
    let finished = client.finish();
    assert_eq!(finished.status.code(), Some(130), "{finished:#?}");
    assert!(finished.stderr.contains("interrupted"), "{finished:#?}");
    cluster.server.until("closed");
    losses(run(DIGITS, &["--json", "--epochs", "1", "--connect", &cluster.address]));
}

#[test]
fn interrupting_the_server_ends_it_and_the_others_say_so() {
    let cluster = Cluster::start(1);
    let mut client = Process::start(DIGITS, &["--epochs", "100000", "--connect", &cluster.address]);
    client.until("epoch");
    cluster.server.interrupt();
    let server = cluster.server.finish();
    assert_eq!(server.status.code(), Some(130), "{server:#?}");
    let (_, said) = client.finish().bad();
    assert!(said.contains(&cluster.address), "{said}");
    for worker in cluster.workers {
        let worker = worker.finish();
        assert!(worker.stderr.contains("server"), "{worker:#?}");
    }
}

#[test]
fn interrupting_the_worker_ends_it_and_the_client_names_it() {
    let mut cluster = Cluster::start(1);
    let mut client = Process::start(DIGITS, &["--epochs", "100000", "--connect", &cluster.address]);
    client.until("epoch");
    let worker = cluster.workers.remove(0);
    worker.interrupt();
    let finished = worker.finish();
    assert_eq!(finished.status.code(), Some(130), "{finished:#?}");
    let (_, said) = client.finish().bad();
    assert!(said.contains("worker w1"), "{said}");
    cluster.server.until("lost");
}

#[test]
fn a_killed_worker_is_named_and_everything_else_lives_on() {
    let mut cluster = Cluster::start(2);
    let words = ["--json", "--epochs", "40", "--connect", &cluster.address];
    let mut clients = [Process::start(DIGITS, &words), Process::start(DIGITS, &words)];
    clients.iter_mut().for_each(|client| drop(client.until("epoch")));
    cluster.workers[0].kill();
    cluster.server.until("lost");
    // Each client has its own worker, so one of the two has lost its tensors.
    let (unharmed, harmed): (Vec<Finished>, Vec<Finished>) =
        clients.into_iter().map(Process::finish).partition(|finished| finished.status.success());
    assert_eq!((unharmed.len(), harmed.len()), (1, 1), "{unharmed:#?} {harmed:#?}");
    assert!(harmed[0].stderr.contains("worker w1"), "{harmed:#?}");
    assert_eq!(
        losses(run(DIGITS, &["--json", "--epochs", "1", "--connect", &cluster.address])).len(),
        1
    );
}

#[test]
fn a_killed_client_is_noticed_and_its_tensors_are_freed() {
    let mut cluster = Cluster::start(1);
    let mut client = Process::start(DIGITS, &["--epochs", "100000", "--connect", &cluster.address]);
    client.until("epoch");
    client.kill();
    cluster.server.until("closed");
    losses(run(DIGITS, &["--json", "--epochs", "1", "--connect", &cluster.address]));
}

#[test]
fn a_tape_runs_on_a_worker_of_the_kind_that_the_flags_ask_for() {
    let (cluster, folder) = (Cluster::start(1), Folder::new("kind"));
    let tape = "gt tape 1\n%0 = full[f32[2]] 2.0\noutput %0\n";
    let tape = folder.write("x.gt", tape);
    let words = |kind| [["run", &tape, "--connect", &cluster.address].as_slice(), kind].concat();
    let printed = run("gt-cli", &words(&["--engine", "native", "--device", "cpu"])).good();
    assert_eq!(printed, "%0 : f32[2]\n  2 2\n");
    let (status, said) = run("gt-cli", &words(&["--engine", "torch"])).bad();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("torch") && said.contains("w1"), "{said}");
}

#[test]
fn no_server_is_said_soon_and_by_address() {
    // No server listens on port 1, and the second address belongs to no host.
    let start = std::time::SystemTime::now();
    for (program, words) in [
        (DIGITS, vec!["--connect", "127.0.0.1:1"]),
        ("gt-cli", vec!["worker", "--connect", "127.0.0.1:1"]),
    ] {
        let (status, said) = run(program, &words).bad();
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("no server at 127.0.0.1:1"), "{said}");
    }
    assert!(start.elapsed().unwrap().as_secs() < 10);
}

/// Two folders of keys stand for two users.
#[test]
fn another_user_gets_in_by_two_commands_and_out_by_one() {
    let folder = Folder::new("keys");
    let [ann, bob] = ["ann", "bob"].map(|name| folder.path(name));
    let keys = |user: &str, words: &[&str]| {
        let words = [&["keys"], words].concat();
        Process::start_with("gt-cli", &words, &[("GT_KEYS", user)]).finish()
    };
    let env = [("GT_KEYS", &*bob)];
    let words = ["server", "-p", "0", "--host", "0.0.0.0"];
    let mut server = Process::start_with("gt-cli", &words, &env);
    let line = server.until("listening at 0.0.0.0:");
    let address = format!("127.0.0.1:{}", line.trim().rsplit(':').next().unwrap());
    let worker = |user: &str| {
        let words = ["worker", "--threads", "1", "--connect", &address];
        Process::start_with("gt-cli", &words, &[("GT_KEYS", user)])
    };
    let mut own = worker(&bob);
    own.until("registered");

    let (_, said) = worker(&ann).finish().bad();
    let server_key = keys(&bob, &["show"]).good();
    let command = format!("gt-cli keys trust {address} {}", server_key.trim());
    assert!(said.contains(&command), "{said}");
    keys(&ann, &["trust", &address, server_key.trim()]).good();
    let (_, said) = worker(&ann).finish().bad();
    assert!(said.contains("does not know this program's key"), "{said}");
    let key = keys(&ann, &["show"]).good();
    keys(&bob, &["add", "worker", key.trim(), "ann", "of", "pi"]).good();
    let listed = keys(&bob, &["--json"]).good();
    assert!(listed.contains("\"name\":\"ann of pi\"") && listed.contains(key.trim()), "{listed}");

    server.until("read again");
    let mut admitted = worker(&ann);
    admitted.until("registered");
    keys(&bob, &["revoke", "ann of pi"]).good();
    server.until("its key was revoked");
    let (_, said) = keys(&bob, &["revoke", "ann of pi"]).bad();
    assert!(said.contains("has no key `ann of pi`"), "{said}");
}

#[test]
fn a_server_says_who_is_there() {
    let cluster = Cluster::start(1);
    let env = [("GT_CONNECT", &*cluster.address)];
    let mut client = Process::start_with(DIGITS, &["--epochs", "100000"], &env);
    client.until("epoch");
    let words = ["status", "--connect", &cluster.address, "--json"];
    let status: serde_json::Value = serde_json::from_str(&run("gt-cli", &words).good()).unwrap();
    assert_eq!(status["n_sessions"], 1, "{status}");
    let (session, worker) = (&status["sessions"][0], &status["workers"][0]);
    assert!(session["name"].as_str().unwrap().contains("digits"), "{status}");
    assert_eq!((&session["workers"][0], &worker["sessions"]), (&"w1".into(), &1.into()));
    assert!(
        session["work"]["busy"].as_u64() > Some(0) && session["values"].as_u64() > Some(0),
        "{status}"
    );
    let said = run("gt-cli", &words[..3]).good();
    assert!(said.contains("workers: 1, sessions: 1"), "{said}");
}

#[test]
fn memory_stays_flat_over_many_steps() {
    let mut client = Process::start(DIGITS, &["--epochs", "100000"]);
    let wait =
        |client: &mut Process, n_epochs| (0..n_epochs).for_each(|_| drop(client.until("epoch")));
    wait(&mut client, 10);
    let before = client.resident_kib();
    wait(&mut client, 60);
    let after = client.resident_kib();
    assert!(after < before + 8 * 1024, "{before} KiB after 440 steps, {after} KiB after 3,080");
    client.interrupt();
    assert_eq!(client.finish().status.code(), Some(130));
}
