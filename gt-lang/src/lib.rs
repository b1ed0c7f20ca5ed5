//! The front end of GT: sessions, tensors, autograd, layers, losses and optimizers. Records
//! instructions; runs none.
//!
//! [`typed`] tensors carry their shape in the type; [`DynTensor`] is what they wrap, and as
//! complete. Start with the [`prelude`].
//!
//! ```no_run
#![doc = include_str!("../tests/it/tour.rs")]
//! # extern crate gt_lang as gt;
//! ```

pub mod autocast;
pub mod autograd;
pub mod complex;
pub mod config;
pub mod control;
pub mod core;
pub mod data;
pub mod debug;
pub mod distributions;
pub mod error;
pub mod fft;
pub mod functional;
pub mod init;
pub mod io;
pub mod linalg;
pub mod logger;
pub mod metrics;
pub mod nn;
mod no_grad;
pub mod optim;
pub mod prelude;
pub mod quantized;
pub mod reference;
mod scope;
pub mod session;
pub mod signal;
pub mod state;
pub mod trainer;
pub mod typed;

// The name macros use for this crate, here as elsewhere.
extern crate self as gt;

pub use crate::core::{DynTensor, keepdim, range, step};
pub use autocast::{Autocast, autocast, autocast_dtype, no_autocast};
pub use complex::ComplexTensor;
pub use config::{
    ShardConfig, SignalConfig, get_config, get_signal_config, load_config, register_config,
};
pub use error::{Error, ErrorKind, Result};
pub use gt_ir::{DType, HostTensor};
pub use no_grad::{NoGrad, enable_grad, is_grad_enabled, no_grad};
pub use session::{Options, Session, connect, disconnect, manual_seed, workers};
pub use typed::{Bool, Dim, Dyn, Float, Int, N, One, Shape, Tensor};
