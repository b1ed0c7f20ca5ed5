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
mod embedding;
mod forward;
mod functional_call;
mod hooks;
mod init;
mod instance_norm;
mod layers;
mod lora;
mod module;
mod norm;
mod quantized;
mod recurrent;
mod resize;
mod state;
mod transformer;

pub use attention::{AttentionMask, MultiheadAttention};
pub use buffer::Buffer;
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d};
pub use dropout::{Dropout, Dropout1d, Dropout2d, Dropout3d};
pub use embedding::{BagMode, Embedding, EmbeddingBag};
pub use forward::{
    Elu, Flatten, Forward, Gelu, Hardswish, Identity, LeakyRelu, LogSoftmax, Mish, Relu, Sigmoid,
    Silu, Softmax, Softplus, Tanh,
};
pub use functional_call::functional_call;
pub use hooks::{
    ForwardHook, entered, features, hooked, register_forward_hook, register_forward_pre_hook,
};
pub use init::{Init, repeat};
pub use instance_norm::InstanceNorm;
pub use layers::{LayerNorm, Linear};
pub use lora::{Lora, LoraConfig};
pub use module::{Event, Mode, Module, Place, Visitor, walk};
pub use norm::{BatchNorm, GroupNorm, RmsNorm};
pub use quantized::QuantizedLinear;
pub use recurrent::{
    Gru, GruCell, GruState, Layers, Lstm, LstmCell, LstmState, Rnn, RnnCell, RnnNonlinearity,
    RnnState,
};
pub use resize::{
    AdaptiveAvgPool2d, AvgPool2d, AvgPool3d, MaxPool2d, MaxPool3d, PixelShuffle, PixelUnshuffle,
    Upsample,
};
pub use state::{Unmatched, load_matching};
pub use transformer::{
    Activation, NormOrder, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer,
};
