//! A simulation of the whole system in one thread and virtual time. It runs the real connections of
//! clients and workers, the real dispatcher and the real worker core. The network loses, repeats,
//! delays and reorders packets, and drops those above a mark, as libzmq does. Nodes crash, restart
//! and are cut off. Some clients take late what they get. Rogues send what they like as clients and
//! as workers; among it are acknowledgements of what they never took.
//!
//! The seed alone decides a run, and is printed if the run fails. `GT_SIM_SEED=n` runs only this
//! seed, and `GT_SIM_SEEDS=n` runs n seeds. The checks:
//! 1. No segment runs twice, and the segments of a session run in order. If no worker is lost,
//!    every accepted segment runs.
//! 2. A value that is read has the bits that the reference interpreter computes from the client's
//!    tape, also if it arrives long after the session has freed the value. If a session lives on
//!    one worker, its reads are answered in order. A worker gets no order that uses a value that it
//!    does not have.
//! 3. A client sees an error only if a fault of the run or a failed instruction can cause it. Ends
//!    and invalid messages of other clients never cause one.
//! 4. After the faults every read is answered in bounded time, and new work succeeds.
//! 5. After a quiet time a worker holds the live values of its sessions, or its parts of them, and
//!    the templates that are launched on it.
//! 6. Sessions that have work on a worker get time in proportion to their weights.
//! 7. What the dispatcher keeps for a session is bounded (`dispatcher::check`).
//! 8. After the clients have ended, nothing of them is left in the dispatcher or on a worker.

mod client;
mod network;
mod profile;
mod rogue;
mod worker;
mod world;

use gt_ir::testing::Source;
use profile::Profile;
use std::time::Duration;
use world::{Counts, World};

/// A small random generator. Equal seeds give equal runs.
#[derive(Clone, Debug)]
pub(crate) struct Random(Source<'static>);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Source::from_seed(seed))
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.bits() % n.max(1)
    }

    /// True with this probability, in percent.
    pub(crate) fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }
}

/// Prints the seed if its run panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run of seed {0} failed: GT_SIM_SEED={0} repeats it", self.0);
        }
    }
}

fn run_seeds(n: u64, profile: impl Fn(u64) -> Profile) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds: std::ops::Range<u64> = match number("GT_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("GT_SIM_SEEDS").unwrap_or(n),
    };
    let (mut launches, mut evictions, mut gangs, mut poisoned) = (0, 0, 0, 0);
    let (mut parcels, mut closed, mut made) = (0, 0, 0);
    let (mut full, mut shared) = (0, Duration::ZERO);
    let many = seeds.end - seeds.start >= 40;
    for seed in seeds {
        let named = Named(seed);
        let counts = World::new(seed, profile(seed)).run();
        let Counts { sent, n_gangs, n_poisoned, n_parcels, n_closed, .. } = counts;
        let Counts { n_made, n_full, shared: longest, .. } = counts;
        made += n_made;
        (full, shared) = (full + n_full, shared.max(longest));
        (parcels, closed) = (parcels + n_parcels, closed + n_closed);
        (gangs, poisoned) = (gangs + n_gangs, poisoned + n_poisoned);
        (launches, evictions) = (launches + sent.launches, evictions + sent.evictions);
        drop(named);
    }
    // Every fault must occur, or it is not tested.
    let Profile { greedy, weather, .. } = profile(0);
    assert!(
        !many || (launches > 100 && evictions > 10 || greedy),
        "{launches} launches, {evictions} evictions"
    );
    assert!(!greedy || shared.as_secs() > 2, "sessions shared a worker for {shared:?}");
    assert!(!many || weather.reliable || greedy || full > 1_000, "{full} packets above a mark");
    let spread = profile(0).spread > 0;
    assert!(
        !many || !spread || (gangs > 40 && poisoned > 5),
        "{gangs} sessions on several workers, {poisoned} reads of failed instructions"
    );
    assert!(
        !many || !spread || (parcels > 1_000 && closed > 20),
        "{parcels} pieces came directly, {closed} roads were closed"
    );
    assert!(!many || !spread || made > 100, "{made} partitions were made beside other work");
}

/// Packets are lost, repeated and reordered. No node crashes, so no client may see an error.
#[test]
fn a_bad_network_is_invisible() {
    run_seeds(60, Profile::network);
}

/// Clients come and go and send invalid messages, and the others see no error.
#[test]
fn clients_do_not_harm_each_other() {
    run_seeds(60, Profile::clients);
}

/// All faults occur.
#[test]
fn everything_recovers() {
    run_seeds(100, Profile::everything);
}

/// Sessions that have work share their worker by their weights, whatever others do.
#[test]
fn time_is_shared_by_weight() {
    run_seeds(12, Profile::shares);
}

/// The same within one process: the transport is reliable, and peers vanish.
#[test]
fn embedded_peers_come_and_go() {
    run_seeds(40, Profile::embedded);
}

/// Sessions live on several workers, in all kinds of weather.
#[test]
fn members_of_gangs_need_each_other() {
    run_seeds(120, Profile::gangs);
}
