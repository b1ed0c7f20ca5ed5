//! A simulation of the whole system in one thread and virtual time: real clients' and workers'
//! connections, the real dispatcher and the real worker core, over a network that loses, repeats,
//! delays and reorders, with crashes, restarts and partitions.
//!
//! The seed alone decides a run and is printed when one fails; `GT_SIM_SEED=n` runs just that one,
//! `GT_SIM_SEEDS=n` so many. What is checked:
//! 1. No segment runs twice, and those of a session run in order; without losses of workers, every
//!    accepted one runs.
//! 2. What is read is bitwise what the reference interpreter computes from the client's own tape,
//!    also where it arrives long after the session has gone on and freed it; reads of a session are
//!    answered in order. A worker is never sent a value it does not have.
//! 3. A client sees an error only where the faults of the run can be to blame; other clients' ends
//!    and nonsense never are.
//! 4. When the faults stop every read is answered in bounded time, and fresh work succeeds.
//! 5. When the clients are gone, nothing of them is left in the dispatcher or on a worker.

mod client;
mod network;
mod profile;
mod rogue;
mod worker;
mod world;

use gt_ir::testing::Source;
use profile::Profile;
use world::World;

/// A small generator: equal seeds give equal runs.
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

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }
}

/// Names the seed when its run panics.
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
    let (mut launches, mut evictions, many) = (0, 0, seeds.end - seeds.start >= 40);
    for seed in seeds {
        let named = Named(seed);
        let sent = World::new(seed, profile(seed)).run();
        (launches, evictions) = (launches + sent.launches, evictions + sent.evictions);
        drop(named);
    }
    // What is not exercised is not tested.
    assert!(
        !many || (launches > 100 && evictions > 10),
        "{launches} launches, {evictions} evictions"
    );
}

/// Packets get lost, repeated and reordered; nobody crashes, so nobody may see an error.
#[test]
fn a_bad_network_is_invisible() {
    run_seeds(60, Profile::network);
}

/// Clients come and go and talk nonsense; the others never notice.
#[test]
fn clients_do_not_harm_each_other() {
    run_seeds(60, Profile::clients);
}

/// Everything goes wrong.
#[test]
fn everything_recovers() {
    run_seeds(100, Profile::everything);
}

/// The same within one process: a transport that is reliable, and peers that vanish.
#[test]
fn embedded_peers_come_and_go() {
    run_seeds(40, Profile::embedded);
}
