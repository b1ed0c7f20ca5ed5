//! GT runs tensor programs in Rust that look eager as compiled kernels, in this process or on a
//! cluster.
//!
//! ```
//! use gt::prelude::*;
//!
//! dims! { Batch } // a named dimension, whose size is known at run time
//!
//! #[derive(Module)]
//! struct Net {
//!     fc1: Linear<N<2>, N<16>>,
//!     fc2: Linear<N<16>, One>,
//! }
//!
//! impl Net {
//!     fn forward(&self, x: &T![Batch, 2]) -> T![Batch, 1] {
//!         seq!(x => self.fc1, Tanh, self.fc2)
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! manual_seed(0);
//! let x: T![Batch, 2] = Tensor::from_vec(vec![0.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
//! let y: T![Batch, 1] = Tensor::from_vec(vec![0.0f32, 1.0, 1.0, 0.0]);
//! let net = Net::new();
//! let config = AdamWConfig { lr: 0.05, ..Default::default() };
//! let mut optimizer = AdamW::new(net.parameters(), config);
//! for _ in 0..200 {
//!     let loss = net.forward(&x).mse_loss(&y);
//!     optimizer.zero_grad();
//!     loss.backward()?; // records the gradients
//!     optimizer.step()?; // records the update, without waiting
//! }
//! assert!(net.forward(&x).mse_loss(&y).item()? < 0.01); // a read waits for its value
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | topic | items |
//! |---|---|
//! | the names that a program imports | [`prelude`] |
//! | tensors of any shape, and every operation | [`DynTensor`] |
//! | tensors with shapes in their types | [`Tensor`], [`T!`], [`dims!`], [`typed`] |
//! | losses, attention, convolutions, `einsum` | [`functional`] |
//! | complex numbers, and Fourier transforms | [`ComplexTensor`], [`complex`], [`fft`] |
//! | solutions, decompositions and functions of matrices | [`linalg`] |
//! | gradients of any order, functions with gradients of your own | [`autograd`], [`no_grad()`] |
//! | loops that are recorded once | [`control`] |
//! | models and layers | [`nn`], [`Module`](nn::Module) |
//! | optimizers, schedules, clipping, averages of weights | [`optim`] |
//! | batches, curves of a run, and a trainer | [`data`], [`logger`], [`trainer`] |
//! | safetensors, npy, csv, `.pth`, checkpoints of whole runs | [`io`], [`state`] |
//! | sessions and servers | [`Session`], [`Options`], [`connect`], [`workers`], [`embedded`] |
//! | a server or a worker in a program of your own, stream modifiers | `cluster`, [`modifier`] |
//! | errors | [`Error`], [`ErrorKind`] |
//!
//! The user guide (`cargo xtask guide`) explains all of this in order, with a table of equivalents
//! for PyTorch users. `cargo doc --open` shows this documentation of a package that depends on GT.
//!
//! The first operation starts a dispatcher and a worker inside the process. With
//! `GT_CONNECT=HOST:PORT` in the environment, or with [`connect`], the same program runs on a
//! server's workers. This crate re-exports the other crates and adds little.

/// The code of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The program of AGENTS.md, as a test.
#[cfg(doctest)]
#[doc = include_str!("../AGENTS.md")]
struct Agents;

#[cfg(doctest)]
mod guide;

#[cfg(feature = "cluster")]
pub mod cluster;

pub use gt_ir as ir;
pub use gt_lang::*;

pub use gt_runtime::modifier;
pub use gt_runtime::profile::Profile;

/// Does some work with a profile, and returns its result and where the time went. The profile
/// prints as tables: time by phase, line, op, signal and kernel, and memory over time.
///
/// The work of the current session is finished before the profile ends. A profile is of the whole
/// process, so one within another is a part of the other. `GT_PROFILE=run.json` profiles a program
/// without a change.
///
/// ```
/// # use gt::prelude::*;
/// let x: T![N<64>, N<64>] = Tensor::ones();
/// let (sum, profile) = gt::profile(|| x.matmul(&x).sum().item());
/// assert_eq!(sum?, 64.0 * 64.0 * 64.0);
/// assert!(profile.ops.iter().any(|row| row.name == "matmul"));
/// println!("{profile}");
/// # Ok::<(), gt::Error>(())
/// ```
pub fn profile<R>(work: impl FnOnce() -> R) -> (R, Profile) {
    let profiler = gt_runtime::profile::Profiler::start();
    let result = work();
    // An answer comes after all work before it. A session that is over has none left.
    let _ = Session::current().and_then(|session| session.stats());
    let profile = match profiler {
        Some(profiler) => profiler.finish(),
        None => gt_runtime::profile::Profiler::look().unwrap_or_default().measured(),
    };
    (result, profile)
}

/// Opens a session with a new system of `n_workers` inside this process, separate from the
/// process's default system. Make the session current with [`Session::enter`]. For sessions that
/// share one system, see [`workers`] and [`Session::open`].
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
