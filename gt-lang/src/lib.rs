//! The front end of GT: sessions, tensors, autograd, layers, losses and optimizers. Records instructions; runs none.

pub mod autograd;
pub mod core;
pub mod error;
pub mod functional;
mod no_grad;
pub mod optim;
pub mod session;
pub mod signal;

pub use crate::core::{DynTensor, keepdim, step};
pub use error::{Error, ErrorKind, Result};
pub use no_grad::{NoGrad, is_grad_enabled, no_grad};
pub use session::Session;
