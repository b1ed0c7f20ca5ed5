//! The choices of a session: its server, and the workers it asks for.

use std::panic::Location;

use gt_ir::backend::{Demand, possible_level, possible_workers};

use super::Session;
use crate::error::{Error, Result};

/// The system and the workers that a session asks for. What is left open follows the
/// environment, and then the configuration ([`config`](crate::config)).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let session = gt::Options::new().workers(4).engine("torch").device("cuda:0").open()?;
/// let _current = session.enter(); // this thread records there until the guard is dropped
/// # Ok::<(), gt::Error>(())
/// ```
///
/// A process without a server starts workers of this kind. A server places the session on such a
/// worker. While it has only other workers, the session waits, and a read that has waited for 10 s
/// is an error that lists them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[must_use = "options do nothing until a session is opened with them"]
pub struct Options {
    pub(super) server: Option<String>,
    pub(super) demand: Demand,
}

impl Options {
    /// Nothing is chosen.
    pub const fn new() -> Options {
        Options { server: None, demand: Demand::new() }
    }

    /// The server at `HOST:PORT`, in place of the one that `GT_CONNECT` names.
    pub fn server(self, address: impl Into<String>) -> Options {
        Options { server: Some(address.into()), ..self }
    }

    /// The number of workers. A process starts so many. A session with a server is spread over so
    /// many at most, if its signals ask for several.
    pub fn workers(mut self, n: usize) -> Options {
        self.demand.workers = Some(n);
        self
    }

    /// The engine by its name: `native` or `torch`.
    pub fn engine(mut self, name: impl Into<String>) -> Options {
        self.demand.engine = Some(name.into());
        self
    }

    /// The device by its name: `cpu`, `cuda:0`. Several devices are separated by commas, and
    /// workers take turns with them. `all` means every CUDA device, and `cuda` the first one of
    /// this machine or any one of a server.
    pub fn device(mut self, name: impl Into<String>) -> Options {
        self.demand.device = Some(name.into());
        self
    }

    /// Spreads the work over the workers without signals, as its cost says. Signals that are
    /// configured are constraints.
    pub fn auto_shard(mut self, auto: bool) -> Options {
        self.demand.auto = Some(auto);
        self
    }

    /// What workers share out instead of repeating it (ZeRO, Rajbhandari et al. 2020): with 1 and 2
    /// the state of optimizers and their updates, with 3 the parameters too. 0 is none of it.
    pub fn zero(mut self, level: u8) -> Options {
        self.demand.zero = Some(level);
        self
    }

    /// One more session, beside the process's own: [`Session::open`] with these options.
    ///
    /// # Errors
    /// The engine or the device is not available, the process's own system runs with other workers,
    /// or the server does not answer within two seconds, or ten on another machine.
    #[track_caller]
    pub fn open(&self) -> Result<Session> {
        let at = Location::caller();
        self.check(at)?;
        Session::with(self, at)
    }

    /// Whether there can be so many workers, and this level of ZeRO.
    pub(super) fn check(&self, at: &'static Location<'static>) -> Result<()> {
        let level = self.demand.zero.map_or(Ok(()), possible_level);
        let possible = self.demand.workers.map_or(Ok(()), possible_workers).and(level);
        possible.map_err(|error| Error::from_run(error, at))
    }
}
