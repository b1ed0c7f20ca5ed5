//! `examples/gpt` on worker processes with lanes of libtorch between them: the bits of workers in
//! one process, and what is said when one of the processes dies.

use super::processes::{embedded, endless, folder, run};
use crate::process::{Cluster, Process};

/// A server, and workers that send each other large values over lanes.
fn cluster(n_workers: usize) -> Cluster {
    let server = Process::start("gt-cli", &["server", "-p", "0"]);
    Cluster::of(server, n_workers, |address, _| {
        let env = [("GT_ROAD", "gloo"), ("GT_VERBOSE", "1")];
        Process::start_with("gt-cli", &["worker", "--connect", address], &env)
    })
}

#[test]
fn a_gpt_has_the_same_bits_over_lanes_on_two_and_on_three_processes() {
    for n_workers in [2, 3] {
        let (folder, mut cluster) = (folder(&format!("lanes-{n_workers}")), cluster(n_workers));
        let here = embedded(&folder, "data_parallel", &n_workers.to_string());
        let there = run(&folder, "data_parallel", ("GT_CONNECT", &*cluster.address), n_workers);
        assert!(there.finish(there.start()) == here, "{n_workers} processes have other bits");
        let opened = cluster.workers[0].until(" is open");
        assert!(opened.contains("a lane "), "{opened}");
    }
}

#[test]
fn a_killed_process_is_named_although_there_was_a_lane_to_it() {
    let (folder, mut cluster) = (folder("lane-killed"), cluster(3));
    let address = cluster.address.clone();
    let place = ("GT_CONNECT", &*address);
    let long = endless(&folder, place);
    let mut spread = long.start();
    spread.until("step     4");
    cluster.workers[0].until(" is open");
    cluster.workers[1].kill();
    let (_, said) = spread.finish().bad();
    assert!(said.contains("worker w2 (") && said.contains("was lost"), "{said}");
    // A new run on the two that are left.
    let again = run(&folder, "data_parallel", place, 1);
    let alone = run(&folder, "data_parallel", ("GT_WORKERS", "2"), 1);
    assert!(again.finish(again.start()) == alone.finish(alone.start()));
}
