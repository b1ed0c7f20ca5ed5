//! Everything a program needs: `use gt::prelude::*;`.
//!
//! Types and functions by their names; modules ([`functional`], [`linalg`], [`autograd`],
//! [`complex`], [`control`], [`debug`], [`io`], [`schedule`], [`signal`]) where PyTorch's users
//! would write the module's name too. Names of a program's own come before those of a prelude.

pub use crate::autocast::{autocast, no_autocast};
pub use crate::complex::{Complex, ComplexDType, ComplexTensor};
pub use crate::config::{ShardConfig, SignalConfig, load_config, register_config};
pub use crate::core::{DynTensor, Index, keepdim, range, step};
pub use crate::data::{DataLoader, Dataset, Last, LoaderConfig, Shuffle, TensorDataset};
pub use crate::error::{Error, Result};
pub use crate::functional::{Convolution, CrossEntropy, Pooling, Reduction};
pub use crate::logger::RunLogger;
pub use crate::nn::{
    AdaptiveAvgPool2d, AttentionMask, AvgPool2d, AvgPool3d, BatchNorm, Buffer, Conv1d, Conv2d,
    Conv3d, ConvTranspose1d, ConvTranspose2d, Dropout, Dropout1d, Dropout2d, Dropout3d, Elu,
    Embedding, EmbeddingBag, Flatten, Forward, Gelu, GroupNorm, Gru, GruCell, Hardswish, Identity,
    Init, InstanceNorm, LayerNorm, Layers, LeakyRelu, Linear, LogSoftmax, Lora, LoraConfig, Lstm,
    LstmCell, MaxPool2d, MaxPool3d, Mish, Mode, Module, MultiheadAttention, NormOrder,
    PixelShuffle, PixelUnshuffle, QuantizedLinear, Relu, RmsNorm, Rnn, RnnCell, RnnNonlinearity,
    Sigmoid, Silu, Softmax, Softplus, Tanh, TransformerDecoder, TransformerDecoderLayer,
    TransformerEncoder, TransformerEncoderLayer, Upsample, repeat,
};
pub use crate::no_grad::{enable_grad, no_grad};
pub use crate::optim::{
    Adafactor, AdafactorConfig, Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamWConfig, Ema,
    GradScaler, GradScalerConfig, Lbfgs, LbfgsConfig, LineSearch, Lion, LionConfig, Muon,
    MuonConfig, NAdam, NAdamConfig, Optimizer, RAdam, RAdamConfig, RmsProp, RmsPropConfig, Sgd,
    SgdConfig, clip_grad_norm, clip_grad_value, schedule,
};
pub use crate::session::{Session, manual_seed};
pub use crate::state::{StateDict, Stateful};
pub use crate::trainer::Trainer;
pub use crate::typed::{
    Bool, Create, Dim, Dyn, Float, Int, Kind, N, One, Random, Shape, StaticDim, StaticShape,
    Tensor, cat, stack,
};
pub use crate::{
    T, autograd, complex, control, debug, dims, distributions, fft, functional, init, io, linalg,
    shape, signal,
};
pub use gt_ir::{DType, HostTensor};
pub use gt_macros::{Module, seq};
