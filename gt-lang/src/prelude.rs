//! Everything a program needs: `use gt::prelude::*;`.

pub use crate::core::{DynTensor, keepdim, range, step};
pub use crate::data::{DataLoader, Dataset, LoaderConfig};
pub use crate::error::{Error, Result};
pub use crate::nn::{
    Buffer, Dropout, Embedding, Forward, Gelu, Init, LayerNorm, Linear, Mode, Module, Relu,
    Sigmoid, Tanh, repeat,
};
pub use crate::no_grad::{enable_grad, no_grad};
pub use crate::optim::{
    Adam, AdamConfig, AdamW, AdamWConfig, Optimizer, Sgd, SgdConfig, clip_grad_norm,
    clip_grad_value,
};
pub use crate::session::{Session, manual_seed};
pub use crate::state::{StateDict, Stateful};
pub use crate::typed::{
    Bool, Create, Dim, Dyn, Float, Int, Kind, N, One, Random, Shape, StaticDim, StaticShape,
    Tensor, cat, stack,
};
pub use crate::{T, dims, functional, shape};
pub use gt_ir::DType;
pub use gt_macros::{Module, seq};
