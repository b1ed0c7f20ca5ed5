//! Models and their layers.
//!
//! A model is a plain struct with `#[derive(Module)]` and a `forward` method of its own; its fields
//! are layers, tensors, lists of either, or other models. The derive gives parameters with dotted
//! names, `Model::new()` with PyTorch's default initialization, train and eval, and a summary with
//! parameter counts.

mod attention;
mod buffer;
mod conv;
mod dropout;
mod forward;
mod functional_call;
mod init;
mod layers;
mod module;
mod norm;
mod recurrent;
mod state;

pub use attention::{AttentionMask, MultiheadAttention, NormOrder, TransformerEncoderLayer};
pub use buffer::Buffer;
pub use conv::{AvgPool2d, Conv1d, Conv2d, ConvTranspose2d, MaxPool2d};
pub use dropout::Dropout;
pub use forward::{
    Elu, Flatten, Forward, Gelu, Hardswish, Identity, LeakyRelu, LogSoftmax, Mish, Relu, Sigmoid,
    Silu, Softmax, Softplus, Tanh,
};
pub use functional_call::functional_call;
pub use init::{Init, repeat};
pub use layers::{Embedding, LayerNorm, Linear};
pub use module::{Event, Mode, Module, Visitor, walk};
pub use norm::{BatchNorm, GroupNorm, RmsNorm};
pub use recurrent::{Gru, GruState, Layers, Lstm, LstmState};
pub use state::{Unmatched, load_matching};
