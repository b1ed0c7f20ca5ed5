//! GT: eager-looking tensor programs in Rust that run through compiled kernels, in this process or
//! on a cluster.
//!
//! ```
//! use gt::prelude::*;
//!
//! dims! { Batch } // a dimension that has a name, and a size at run time only
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
//! let mut optimizer = AdamW::new(net.parameters(), AdamWConfig { lr: 0.05, ..Default::default() });
//! for _ in 0..200 {
//!     let loss = net.forward(&x).mse_loss(&y);
//!     optimizer.zero_grad();
//!     loss.backward()?; // records the gradients
//!     optimizer.step()?; // records the update; nothing has been waited for
//! }
//! assert!(net.forward(&x).mse_loss(&y).item()? < 0.01); // reads wait
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | what a program imports | [`prelude`] |
//! | tensors of any shape, and every operation | [`DynTensor`] |
//! | tensors with shapes in their types | [`Tensor`], [`T!`], [`dims!`], [`typed`] |
//! | losses, attention, convolutions, `einsum` | [`functional`] |
//! | gradients of any order, functions with gradients of your own | [`autograd`], [`no_grad()`] |
//! | models and layers | [`nn`], [`Module`](nn::Module) |
//! | optimizers, schedules, clipping, averages of weights | [`optim`] |
//! | batches, and curves of a run | [`data`], [`logger`] |
//! | safetensors, npy, csv, `.pth`, checkpoints of whole runs | [`io`], [`state`] |
//! | where it runs | [`Session`], [`connect`], [`workers`], [`embedded`] |
//! | what went wrong | [`Error`], [`ErrorKind`] |
//!
//! The user guide (`cargo xtask guide`) tells all of this in order, with a table for those who come
//! from PyTorch.
//!
//! The first operation starts a dispatcher and a worker inside the process. With
//! `GT_CONNECT=HOST:PORT` in the environment, or with [`connect`], the same program runs on a
//! server's workers. This crate re-exports the others; it has no logic of its own.

/// The code of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
mod guide;

pub use gt_ir as ir;
pub use gt_lang::*;

/// A session with a new system inside this process, with this many workers, apart from the
/// process's own system. Make it current with [`Session::enter`]. For sessions that share one
/// system see [`workers`] and [`Session::open`].
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
