//! Programs over machines with addresses of their own: the bits of workers in one process, over
//! links that are fast, slow, cut or unplugged. Values travel from worker to worker, encrypted,
//! wherever that is possible.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::processes::{GPT, embedded, endless, folder, run};
use crate::cluster::losses;
use crate::network::{Links, Network};
use crate::process::{Cluster, Finished, Folder, Process};

const DIGITS: &str = "examples/digits";
const SPREAD: &str = "examples/data_parallel";
/// The silence after which the server gives up a worker, and after which a worker gives up the road
/// to another.
const LEASE: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(5);
/// More than enough time for messages and for a busy system.
const SLACK: Duration = Duration::from_secs(10);

/// A server and two workers on machines of their own, and a machine for programs.
struct World {
    network: Network,
    cluster: Cluster,
    folder: Folder,
    /// Asks that members share out updates, so that a small network is spread, too.
    shared: String,
}

/// The machine of programs.
const OWN: usize = 3;

impl World {
    fn new(test: &str, links: Links) -> Option<World> {
        let network = Network::new(4, links)?;
        let folder = Folder::new(test);
        let shared = folder.write("shared.yaml", "session: {auto: true, zero: 1, workers: 2}\n");
        let cluster = network.cluster(2, &folder);
        Some(World { network, cluster, folder, shared })
    }

    /// Starts a program on the machine of programs.
    fn start(&self, program: (&str, &[&str]), env: &[(&str, &str)]) -> Process {
        let env = [env, &[("GT_CONNECT", &*self.cluster.address)]].concat();
        self.network.start(OWN, program, &self.folder, &env)
    }

    fn digits(&self, epochs: &str) -> Process {
        self.start((DIGITS, &["--json", "--epochs", epochs]), &[("GT_CONFIG", &self.shared)])
    }

    /// What workers have sent each other without the server: the messages from the first to the
    /// second and back.
    fn direct(&self) -> [u64; 2] {
        let words = ["status", "--connect", &self.cluster.address, "--json"];
        let status = self.network.start(0, ("gt-cli", &words), &self.folder, &[]);
        let status: Value = serde_json::from_str(&status.finish().good()).unwrap();
        let links = status["links"].as_array().unwrap();
        let road = links.iter().find(|link| link["from"] == "w1" && link["to"] == "w2");
        ["there", "back"]
            .map(|way| road.and_then(|road| road[way]["messages"].as_u64()).unwrap_or_default())
    }

    /// What `data_parallel` prints for both of its files, a part of the batch for each worker and a
    /// layer for each, is what it prints for workers in one process.
    fn check_losses(&self) {
        for words in [&[][..], &["examples/data_parallel/pipeline.yaml"]] {
            let here = Process::start(SPREAD, words).finish().good();
            assert_eq!(self.start((SPREAD, words), &[]).finish().good(), here, "{words:?}");
        }
    }
}

/// Runs something, and says how long it took.
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = SystemTime::now();
    let result = run();
    (result, start.elapsed().unwrap_or_default())
}

#[test]
fn trainings_on_machines_have_the_losses_of_one_process_and_values_take_direct_roads() {
    let Some(world) = World::new("direct", Links::Fast) else { return };
    world.check_losses();
    let mut long = world.digits("100000");
    long.until("epoch");
    let before = world.direct();
    (0..3).for_each(|_| drop(long.until("epoch")));
    let after = world.direct();
    assert!(before[0] < after[0] && before[1] < after[1], "{before:?} and {after:?} messages");
}

#[test]
fn trainings_over_slow_links_that_lose_packets_have_the_same_losses() {
    let Some(world) = World::new("slow", Links::Slow) else { return };
    world.check_losses();
}

#[test]
fn a_gpt_has_the_same_bits_on_machines_with_addresses_of_their_own() {
    let Some(network) = Network::new(3, Links::Fast) else { return };
    let folder = folder("machines");
    let cluster = network.cluster(2, &folder);
    let there = ("GT_CONNECT", &*cluster.address);
    for form in ["data_parallel", "tensor_parallel"] {
        let here = embedded(&folder, form, "2");
        let run = run(&folder, form, there, 0);
        let mut command = network.on(0, GPT);
        command.env("HOME", folder.path(""));
        assert!(run.finish(run.start_by(command)) == here, "{form} has other bits there");
    }
}

/// Lanes are not encrypted, so they leave a machine only where nothing else is either.
#[test]
#[cfg(all(feature = "torch", target_os = "linux"))]
fn a_gpt_has_the_same_bits_over_lanes_from_machine_to_machine() {
    let Some(network) = Network::new(3, Links::Fast) else { return };
    let folder = folder("machines-lanes");
    let env = [("GT_ROAD", "gloo"), ("GT_VERBOSE", "1")];
    let mut cluster = network.cluster_with(2, &folder, &["--insecure"], &env);
    let here = embedded(&folder, "data_parallel", "2");
    let run = run(&folder, "data_parallel", ("GT_CONNECT", &*cluster.address), 0);
    let mut command = network.on(0, GPT);
    command.envs([("HOME", &*folder.path("")), ("GT_INSECURE", "1")]);
    assert!(run.finish(run.start_by(command)) == here, "other bits over lanes");
    let opened = cluster.workers[0].until(" is open");
    assert!(opened.contains("a lane "), "{opened}");
}

#[test]
fn values_pass_through_the_server_where_two_workers_cannot_reach_each_other() {
    let Some(world) = World::new("cut", Links::Fast) else { return };
    let losses = |program: Process| losses(program.finish());
    let whole = losses(world.digits("6"));
    let mut cut = world.digits("6");
    cut.until("epoch");
    world.network.cut(1, 2);
    let (cut, time) = timed(|| losses(cut));
    assert_eq!(cut, whole, "the road was cut meanwhile");
    assert!(time < SILENCE + SLACK, "{time:?} after the road was cut");
    let direct = world.direct();
    let (without, time) = timed(|| losses(world.digits("6")));
    assert_eq!(without, whole, "without a road");
    assert!(time < SLACK, "{time:?} without a road");
    assert_eq!(world.direct(), direct, "values on a road that was cut");
    world.check_losses();
}

#[test]
fn a_machine_that_disappears_is_named_within_the_lease_and_the_rest_lives_on() {
    let Some(mut world) = World::new("cable", Links::Fast) else { return };
    let folder = folder("cable-gpt");
    let long = endless(&folder, ("GT_CONNECT", &world.cluster.address));
    let mut command = world.network.on(OWN, GPT);
    command.env("HOME", world.folder.path(""));
    let mut long = long.start_by(command);
    let mut other = world.digits("100000");
    long.until("step     4");
    other.until("epoch");
    world.network.unplug(2);
    let (ends, time) = timed(|| [long, other].map(|program| program.finish().bad()));
    for (_, said) in ends {
        assert!(said.contains("worker w2 (") && said.contains("was lost"), "{said}");
    }
    assert!(time < LEASE + SLACK, "{time:?}");
    world.cluster.server.until("worker w2 (");
    let Finished { status, .. } = world.start((DIGITS, &["--epochs", "1"]), &[]).finish();
    assert!(status.success());
}
