//! A server and workers inside programs of one's own. They speak with the programs and workers of
//! `gt-cli`, but have no flags: no quotas, metrics or drain of a server, and no name of a worker,
//! unless the caller configures [`Server`] and [`Worker`] so. This is how stream modifiers get into
//! a dispatcher or a worker of a cluster: insert them
//! ([`modifier::insert`](crate::modifier::insert)), then serve.

pub use gt_runtime::server::{Server, ServerConfig};
pub use gt_runtime::worker::{Worker, WorkerConfig};

use gt_ir::Loc;
use gt_ir::backend::{ErrorKind, RunError};
use gt_lang::{Error, Result};
use gt_runtime::choice::{Choice, Wish};
use gt_runtime::embedded::share_of_host;
use gt_runtime::zmq::Address;

/// Runs the dispatcher of a cluster at `HOST:PORT`, with keys for connections over tcp, until
/// the process ends. `news` receives a line for each event that concerns its user, the first with
/// the address. Port 0 takes a free port. [`Server::bind`] gives a handle to end it.
///
/// # Errors
/// The text is no address, the port is taken, or the sockets fail.
///
/// ```no_run
/// use gt::modifier::{Place, insert};
/// # use gt::ir::Tape;
/// # struct Rules;
/// # impl gt::modifier::Modifier for Rules {
/// #     fn name(&self) -> &str { "rules" }
/// #     fn process(&mut self, segment: Tape) -> Result<Tape, String> { Ok(segment) }
/// #     fn stats(&self) -> Vec<(String, u64)> { Vec::new() }
/// # }
///
/// insert(Place::Dispatcher, Rules);
/// gt::cluster::serve("localhost:12345", |line| println!("{line}"))?;
/// # Ok::<(), gt::Error>(())
/// ```
pub fn serve(address: &str, mut news: impl FnMut(&str)) -> Result<()> {
    let config = ServerConfig { address: parsed(address)?, ..ServerConfig::local(0) };
    let server = Server::bind(config).map_err(failed)?;
    news(&format!("listening at {}", server.address()));
    server.run(news).map(drop).map_err(failed)
}

/// Runs a worker for the server at `HOST:PORT`, on the engine and the device that the environment
/// names, else on the best that there are, until the server or the process ends. `news` receives a
/// line for each event that concerns its user.
///
/// # Errors
/// The text is no address, the engine cannot be started, the server cannot be reached or refuses,
/// or the device fails.
pub fn work(address: &str, mut news: impl FnMut(&str)) -> Result<()> {
    let address = parsed(address)?;
    let choice = Choice::make(&Wish::default()).map_err(failed)?;
    let begun = choice.begin(share_of_host(1)).map_err(failed)?;
    begun.news.iter().for_each(|line| news(line));
    let worker = Worker::new(WorkerConfig::new(address)).map_err(failed)?;
    worker.serve(begun.engine, news).map(drop).map_err(failed)
}

fn parsed(address: &str) -> Result<Address> {
    address.parse().map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::from_run(RunError::new(ErrorKind::Connection, error.to_string()), Loc::NONE)
}
