//! The profile of a run of the simulation: its nodes, the frequency of its faults, and the settings
//! that follow.

use super::Random;
use super::client::Habits;
use super::network::Weather;
use crate::connection::ConnectionConfig;
use crate::dispatcher::Config;
use crate::link::{LinkConfig, Timing, Transport};
use crate::tier::TemplateConfig;
use std::time::Duration;

/// The profile of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    pub(super) weather: Weather,
    pub(super) window: u64,
    pub(super) n_clients: usize,
    pub(super) n_workers: usize,
    pub(super) n_rogues: usize,
    /// The percentage of clients whose signals ask for several workers.
    pub(super) spread: u64,
    /// The percentage of clients that take what they get late.
    pub(super) slow: u64,
    /// Whether clients record as much as they can, with weights, and workers share their time.
    pub(super) greedy: bool,
    /// Chances in ten thousand, at each step of a node.
    pub(super) client_crash: u64,
    pub(super) client_move: u64,
    pub(super) worker_crash: u64,
    pub(super) partition: u64,
    pub(super) restart: u64,
    /// The chance that the road between two workers is closed.
    pub(super) impassable: u64,
    /// How long faults occur.
    pub(super) until: Duration,
}

impl Profile {
    fn base(seed: u64) -> Profile {
        let mut random = Random::new(!seed);
        let weather = Weather {
            lost: random.below(30),
            repeated: random.below(30),
            delay: [100, 2_000, 50_000][random.below(3) as usize],
            reliable: false,
            mark: [8, 100, usize::MAX][random.below(3) as usize],
        };
        Profile {
            weather,
            window: if random.percent(50) { 1 << 12 } else { 1 << 20 },
            n_clients: 1 + random.below(4) as usize,
            n_workers: 1 + random.below(3) as usize,
            n_rogues: 0,
            spread: 0,
            slow: 20,
            greedy: false,
            client_crash: 0,
            client_move: 0,
            worker_crash: 0,
            partition: 0,
            restart: 0,
            impassable: 0,
            until: Duration::from_secs(8),
        }
    }

    pub(super) fn network(seed: u64) -> Profile {
        Profile { client_move: 20, ..Profile::base(seed) }
    }

    pub(super) fn clients(seed: u64) -> Profile {
        let base = Profile::base(seed);
        Profile {
            client_crash: 80,
            client_move: 20,
            n_clients: base.n_clients + 1,
            n_rogues: (seed % 3) as usize,
            ..base
        }
    }

    pub(super) fn everything(seed: u64) -> Profile {
        let mut random = Random::new(seed + 17);
        let restart = if random.percent(20) { 5 } else { 0 };
        Profile {
            worker_crash: random.below(60),
            partition: random.below(20),
            restart,
            until: Duration::from_secs(30),
            ..Profile::clients(seed)
        }
    }

    pub(super) fn embedded(seed: u64) -> Profile {
        let base = Profile::clients(seed);
        let weather = Weather { lost: 0, repeated: 0, reliable: true, ..base.weather };
        Profile { weather, client_move: 0, n_rogues: 0, worker_crash: (seed % 2) * 40, ..base }
    }

    /// Busy clients on a worker whose network is good.
    pub(super) fn shares(seed: u64) -> Profile {
        let base = Profile::clients(seed);
        let mark = usize::MAX;
        let weather = Weather { lost: 0, repeated: 0, delay: 10, reliable: false, mark };
        Profile {
            weather,
            window: 1 << 20,
            greedy: true,
            n_workers: 1,
            client_crash: 10,
            until: Duration::from_secs(4),
            ..base
        }
    }

    /// One of the other profiles, with sessions on several workers.
    pub(super) fn gangs(seed: u64) -> Profile {
        let base = match seed % 4 {
            0 => Profile::network(seed),
            1 => Profile::clients(seed),
            2 => Profile::everything(seed),
            _ => Profile::embedded(seed),
        };
        let impassable = [0, 0, 30, 10_000][(seed / 4 % 4) as usize];
        Profile { spread: 70, n_workers: base.n_workers + 1, impassable, ..base }
    }

    pub(super) fn values_may_be_lost(&self) -> bool {
        self.worker_crash + self.partition + self.restart > 0
    }

    pub(super) fn connections_may_end(&self) -> bool {
        self.partition + self.restart > 0
    }

    pub(super) fn connection(&self) -> ConnectionConfig {
        let transport = if self.weather.reliable {
            Transport::Reliable
        } else {
            Transport::Lossy(Timing::default())
        };
        let link = LinkConfig { transport, window: self.window };
        let grace = Duration::from_secs(4);
        ConnectionConfig {
            control: link,
            bulk: link,
            answer: None,
            grace,
            ..ConnectionConfig::remote()
        }
    }

    /// What a client does.
    pub(super) fn habits(&self, random: &mut Random) -> Habits {
        let most = if self.spread > 0 { 13 } else { 7 };
        let slow = if random.percent(self.slow) { random.below(3_000) } else { 0 };
        Habits {
            n_elements: random.below(most) as usize,
            templates: self.templates(random),
            spread: self.spread > 0 && random.percent(self.spread),
            greedy: self.greedy,
            slow: Duration::from_millis(slow),
            weight: if self.greedy { [10, 10, 1, 40][random.below(4) as usize] } else { 10 },
        }
    }

    /// Few templates, so that they are dropped often, or as many as the limit allows.
    fn templates(&self, random: &mut Random) -> TemplateConfig {
        let most = [0, 1, 2, 3, 64][random.below(5) as usize];
        let entries = if random.percent(50) { 12 } else { 1 << 10 };
        TemplateConfig { most, entries, least: 1 + random.below(3) as usize }
    }

    pub(super) fn dispatcher(&self) -> Config {
        let connection = self.connection();
        let lease = Duration::from_secs(20);
        Config {
            client: ConnectionConfig { lease, patience: Some(lease), ..connection },
            worker: connection,
            relay: self.window / 2,
            large_upload: 16,
            small_partition: 24,
            ..Config::remote()
        }
    }
}
