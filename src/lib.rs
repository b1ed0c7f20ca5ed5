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

/// A session with a new system inside this process, with this many workers, apart from the process's own system. Make it current with
/// [`Session::enter`]. For sessions that share one system see [`workers`] and [`Session::open`].
///
/// # Errors
/// No thread can be started.
pub fn embedded(n_workers: usize) -> Result<Session> {
    let system =
        gt_runtime::embedded::System::start(n_workers, gt_runtime::log::Log::from_environment());
    system
        .map(|system| Session::with_backend(system.session()))
        .map_err(|error| Error::from_run(error, ir::Loc::NONE))
}
