//! Faults at random while programs train, with an oracle.
//!
//! Users train again and again on one server. Meanwhile workers and clients are killed, stopped
//! and started again, the server is restarted, and strangers send noise. A training that ends well
//! has the losses of the same training in one process, to the bit. A training that fails names a
//! worker or the server. The server never ends by itself, and no program hangs.
//!
//! `GT_CHAOS_SECONDS` sets the time, and `GT_CHAOS_SEED` repeats a sequence of faults
//! (`cargo xtask chaos`).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gt::ir::testing::Source;

use crate::cluster::losses;
use crate::process::{Cluster, Process, run};

const DIGITS: &str = "examples/digits";
const N_USERS: usize = 3;
const N_WORKERS: usize = 3;
/// How long after the last fault a training succeeds.
const MEND: Duration = Duration::from_secs(90);
/// The seeds of the trainings.
const N_SEEDS: u64 = 3;

/// What all threads of a run share.
struct World {
    address: String,
    over: AtomicBool,
    oracle: BTreeMap<u64, Vec<String>>,
    tally: Mutex<Tally>,
}

/// How trainings ended.
#[derive(Clone, Default, Debug)]
struct Tally {
    right: usize,
    killed: usize,
    /// How often each reason was given.
    failed: BTreeMap<&'static str, usize>,
    /// The last reason, whole.
    last: String,
}

/// Somebody who trains again and again.
struct User {
    /// The process of the training, or 0 between two trainings.
    pid: Arc<AtomicU32>,
    killed: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl User {
    fn start(world: &Arc<World>, number: u64) -> User {
        let (pid, killed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (world, of, fell) = (Arc::clone(world), Arc::clone(&pid), Arc::clone(&killed));
        let thread = thread::spawn(move || {
            for round in number.. {
                if world.over.load(Ordering::SeqCst) {
                    return;
                }
                world.train(round % N_SEEDS, &of, &fell);
            }
        });
        User { pid, killed, thread }
    }

    /// Sends a signal to the training, if one is running.
    fn signal(&self, signal: &str) {
        let pid = self.pid.load(Ordering::SeqCst);
        if pid != 0 {
            // It may have ended by itself.
            let pid = pid.to_string();
            let _ = std::process::Command::new("kill").args([signal, &pid]).output().unwrap();
        }
    }
}

impl World {
    /// Trains once, and judges how that ends.
    fn train(&self, seed: u64, pid: &AtomicU32, killed: &AtomicBool) {
        let words = words(seed);
        let words = words.iter().map(String::as_str).chain(["--connect", &self.address]);
        let training = Process::start(DIGITS, &words.collect::<Vec<_>>());
        killed.store(false, Ordering::SeqCst);
        pid.store(training.id(), Ordering::SeqCst);
        let finished = training.finish();
        pid.store(0, Ordering::SeqCst);
        let mut tally = self.tally.lock().unwrap();
        if finished.status.success() {
            assert_eq!(losses(finished), self.oracle[&seed], "seed {seed}");
            tally.right += 1;
        } else if killed.load(Ordering::SeqCst) {
            tally.killed += 1;
        } else {
            let reasons = ["worker w", "no server at", "the server at", "server"];
            let given = reasons.into_iter().find(|reason| finished.stderr.contains(reason));
            let given = given.unwrap_or_else(|| panic!("no reason is given: {finished:#?}"));
            *tally.failed.entry(given).or_default() += 1;
            tally.last = finished.stderr;
            drop(tally);
            // A server that is restarted refuses for a moment.
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn words(seed: u64) -> Vec<String> {
    ["--json", "--epochs", "1", "--seed"]
        .map(str::to_owned)
        .into_iter()
        .chain([seed.to_string()])
        .collect()
}

/// The faults, which happen one after the other.
struct Faults<'a> {
    source: Source<'static>,
    cluster: &'a mut Cluster,
    users: &'a [User],
    /// Connections of strangers that stay open.
    strangers: Vec<TcpStream>,
}

impl Faults<'_> {
    fn one(&mut self) {
        match self.source.below(12) {
            0 | 1 => self.worker_dies(),
            2 | 3 => self.worker_stands_still(),
            4..6 => self.client_dies(),
            6 | 7 => self.client_stands_still(),
            8 => self.server_restarts(),
            9 => self.noise(),
            10 => self.half_a_message(),
            _ => self.server_stands_still(),
        }
        revive(self.cluster);
        let pause = 20 + self.source.below(400) as u64;
        thread::sleep(Duration::from_millis(pause));
    }

    fn pause(&mut self) {
        thread::sleep(Duration::from_millis(20 + self.source.below(1_500) as u64));
    }

    fn user(&mut self) -> &User {
        &self.users[self.source.below(N_USERS)]
    }

    fn worker_dies(&mut self) {
        let at = self.source.below(N_WORKERS);
        self.cluster.workers[at].kill();
        self.cluster.workers[at].ended();
    }

    fn worker_stands_still(&mut self) {
        let at = self.source.below(N_WORKERS);
        self.cluster.workers[at].signal("-STOP");
        self.pause();
        self.cluster.workers[at].signal("-CONT");
    }

    fn client_dies(&mut self) {
        let user = self.user();
        user.killed.store(true, Ordering::SeqCst);
        user.signal("-KILL");
    }

    fn client_stands_still(&mut self) {
        let at = self.source.below(N_USERS);
        self.users[at].signal("-STOP");
        self.pause();
        self.users[at].signal("-CONT");
    }

    fn server_stands_still(&mut self) {
        self.cluster.server.signal("-STOP");
        self.pause();
        self.cluster.server.signal("-CONT");
    }

    /// The server is killed and another one takes its address. Workers come back to it.
    fn server_restarts(&mut self) {
        self.cluster.server.kill();
        self.cluster.server.ended();
        let port = self.cluster.address.rsplit(':').next().unwrap();
        let mut server = Process::start("gt-cli", &["server", "-p", port]);
        server.until("listening at ");
        self.cluster.server = server;
    }

    fn stranger(&self) -> Option<TcpStream> {
        TcpStream::connect(&self.cluster.address).ok()
    }

    fn noise(&mut self) {
        let bytes: Vec<u8> = (0..1_000).map(|_| self.source.bits() as u8).collect();
        if let Some(mut stranger) = self.stranger() {
            // The server may close the connection at any byte.
            let _ = stranger.write_all(&bytes);
        }
    }

    /// A peer that greets as ZeroMQ does, announces a frame of 32 MiB, and sends none of it.
    fn half_a_message(&mut self) {
        let mut greeting = [0; 64];
        (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
        greeting[12..16].copy_from_slice(b"NULL");
        let ready = b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER";
        let frame = [2, 0, 0, 0, 0, 2, 0, 0, 0];
        if let Some(mut stranger) = self.stranger() {
            let _ = stranger.write_all(&[&greeting[..], ready, &frame].concat());
            self.strangers.push(stranger);
        }
        if self.strangers.len() > 50 {
            self.strangers.clear();
        }
    }
}

/// Starts workers in the place of those that have ended, as a supervisor does. A worker also ends
/// if it finds no server at its start.
fn revive(cluster: &mut Cluster) {
    for worker in &mut cluster.workers {
        if !worker.is_running() {
            *worker = Process::start("gt-cli", &["worker", "--connect", &cluster.address]);
        }
    }
}

/// A number in a variable of the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn whatever_fails_no_result_is_wrong_and_nothing_hangs() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("GT_CHAOS_SEED").unwrap_or_else(|| now().as_secs());
    let mut cluster = Cluster::start(N_WORKERS);
    let alone = |seed| {
        let words = words(seed);
        (seed, losses(run(DIGITS, &words.iter().map(String::as_str).collect::<Vec<_>>())))
    };
    let world = Arc::new(World {
        address: cluster.address.clone(),
        over: AtomicBool::new(false),
        oracle: (0..N_SEEDS).map(alone).collect(),
        tally: Mutex::default(),
    });
    let end = now() + Duration::from_secs(setting("GT_CHAOS_SECONDS").unwrap_or(10));
    let users: Vec<User> = (0..N_USERS as u64).map(|n| User::start(&world, n)).collect();
    let source = Source::from_seed(seed);
    let mut faults = Faults { source, cluster: &mut cluster, users: &users, strangers: Vec::new() };
    while now() < end {
        assert!(faults.cluster.server.is_running(), "GT_CHAOS_SEED={seed}: the server ended");
        faults.one();
    }
    world.over.store(true, Ordering::SeqCst);
    for user in users {
        assert!(user.thread.join().is_ok(), "GT_CHAOS_SEED={seed}: see above");
    }
    // Everything is well again.
    let (pid, killed) = Default::default();
    let mended = now() + MEND;
    let n_right = world.tally.lock().unwrap().right;
    while world.tally.lock().unwrap().right == n_right {
        let tally = world.tally.lock().unwrap().clone();
        assert!(now() < mended, "GT_CHAOS_SEED={seed}: nothing works again: {tally:?}");
        revive(&mut cluster);
        world.train(0, &pid, &killed);
    }
    println!("GT_CHAOS_SEED={seed}: {:?}", world.tally.lock().unwrap());
    cluster.server.interrupt();
    let server = cluster.server.finish();
    assert_eq!(server.status.code(), Some(130), "GT_CHAOS_SEED={seed}: {server:#?}");
}
