//! GT: eager-looking tensor programs in Rust that run through compiled kernels, in this process or on a cluster.
//!
//! The first operation starts a dispatcher and a worker inside the process. With `GT_CONNECT=HOST:PORT` in the environment, or with
//! [`connect`], the same program runs on a server's workers. This crate re-exports the others; it has no logic of its own.

/// The code of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use gt_ir as ir;
pub use gt_lang::*;

use std::sync::Arc;

/// A session with the server at `HOST:PORT`. Make it current with [`Session::enter`].
///
/// # Errors
/// Nobody answers at the address within two seconds, or the server refuses.
pub fn connect(address: &str) -> Result<Session> {
    opened(gt_runtime::client::connect(address))
}

/// A session with a new system inside this process, with this many workers. Make it current with [`Session::enter`]; a program
/// that needs no more than one worker need not call this.
///
/// # Errors
/// No thread can be started.
pub fn embedded(n_workers: usize) -> Result<Session> {
    let system =
        gt_runtime::embedded::System::start(n_workers, gt_runtime::log::Log::from_environment());
    opened(system.map(|system| system.session()))
}

fn opened(
    backend: std::result::Result<Arc<dyn ir::backend::Backend>, ir::backend::RunError>,
) -> Result<Session> {
    backend.map(Session::with_backend).map_err(|error| Error::from_run(error, ir::Loc::NONE))
}
