//! The layers of transformers (Vaswani et al. 2017) and stacks of them, with PyTorch's names and
//! layout: attention, and two linear layers, each with dropout, a sum and a normalization.

use super::attention::{AttentionMask, MultiheadAttention};
use super::dropout::Dropout;
use super::hooks::{entering, hooked};
use super::layers::{LayerNorm, Linear};
use super::module::{Mode, Module, Visitor};
use crate::core::DynTensor;
use crate::typed::{Dim, Dyn, SameDim, Sealed as _, Sequences, StaticDim};

/// Where a block's normalizations stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormOrder {
    /// After the sums, as in the paper: PyTorch's default.
    #[default]
    After,
    /// Before attention and feed-forward, as in GPT-2: `norm_first=True`.
    First,
}

/// What a feed-forward part applies between its layers.
#[derive(Clone, Copy, Debug, Default)]
pub enum Activation {
    /// `max(x, 0)`: PyTorch's default.
    #[default]
    Relu,
    /// The Gaussian error linear unit.
    Gelu,
    /// Any other function: `Activation::Of(|x| x.silu())`.
    Of(fn(&DynTensor) -> DynTensor),
}

impl Activation {
    #[track_caller]
    fn of(self, x: &DynTensor) -> DynTensor {
        match self {
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::Of(function) => function(x),
        }
    }
}

/// `x` and what a part makes of it, with the normalization where it belongs. The part is an
/// expression, because a closure would hide where the layer is called.
macro_rules! sum {
    ($layer:ident, $x:expr, $norm:ident, |$of:ident| $part:expr) => {{
        let whole: &DynTensor = $x;
        match $layer.order {
            NormOrder::After => {
                let $of = whole;
                $layer.$norm.forward(&whole.add(&$part))
            }
            NormOrder::First => {
                let $of = &$layer.$norm.forward(whole);
                whole.add(&$part)
            }
        }
    }};
}

/// The feed-forward part of a layer: `linear2(dropout(activation(linear1(x))))`, dropped out.
macro_rules! feed_forward {
    ($layer:ident, $x:expr) => {{
        let inner = $layer.activation.of(&$layer.linear1.forward($x));
        let inner = $layer.dropout.forward(&inner);
        $layer.dropout.forward(&$layer.linear2.forward(&inner))
    }};
}

/// Attention and two linear layers, each with dropout, a sum and a normalization: PyTorch's
/// `TransformerEncoderLayer`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransformerEncoderLayer<D: Dim = Dyn, F: Dim = Dyn> {
    /// Attention.
    pub self_attn: MultiheadAttention<D>,
    /// Into the feed-forward width.
    pub linear1: Linear<D, F>,
    /// Back.
    pub linear2: Linear<F, D>,
    /// The normalization of the attention.
    pub norm1: LayerNorm<D>,
    /// The normalization of the feed-forward.
    pub norm2: LayerNorm<D>,
    /// Applied after attention, inside and after the feed-forward; the weights of attention are
    /// dropped with the same probability.
    pub dropout: Dropout,
    /// Where the normalizations stand.
    pub order: NormOrder,
    /// What the feed-forward applies between its layers.
    pub activation: Activation,
}

impl<D: Dim, F: Dim> TransformerEncoderLayer<D, F> {
    /// A layer of a width and a feed-forward width that the types do not know.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(
        width: usize,
        feed_forward: usize,
        heads: usize,
        dropout: f64,
        order: NormOrder,
    ) -> Self {
        TransformerEncoderLayer {
            self_attn: MultiheadAttention::with_sizes(width, heads).with_dropout(dropout),
            linear1: Linear::with_sizes(width, feed_forward),
            linear2: Linear::with_sizes(feed_forward, width),
            norm1: LayerNorm::with_sizes(width),
            norm2: LayerNorm::with_sizes(width),
            dropout: Dropout::new(dropout),
            order,
            activation: Activation::Relu,
        }
    }

    /// The layer applied to `[batch, length, D]`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Sequences<D, D>>(&self, x: &X, mask: AttentionMask<'_>) -> X::Out {
        let x = &*entering(self, x.inner());
        let x = sum!(self, x, norm1, |x| self.dropout.forward(&self.self_attn.forward(x, mask)));
        hooked(self, X::Out::like(sum!(self, &x, norm2, |x| feed_forward!(self, x))))
    }
}

/// Attention to itself, attention to a memory, and two linear layers, each with dropout, a sum and
/// a normalization: PyTorch's `TransformerDecoderLayer`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransformerDecoderLayer<D: Dim = Dyn, F: Dim = Dyn> {
    /// Attention to itself.
    pub self_attn: MultiheadAttention<D>,
    /// Attention to the memory.
    pub multihead_attn: MultiheadAttention<D>,
    /// Into the feed-forward width.
    pub linear1: Linear<D, F>,
    /// Back.
    pub linear2: Linear<F, D>,
    /// The normalization of the attention to itself.
    pub norm1: LayerNorm<D>,
    /// The normalization of the attention to the memory.
    pub norm2: LayerNorm<D>,
    /// The normalization of the feed-forward.
    pub norm3: LayerNorm<D>,
    /// Applied after each attention, inside and after the feed-forward; the weights of attention
    /// are dropped with the same probability.
    pub dropout: Dropout,
    /// Where the normalizations stand.
    pub order: NormOrder,
    /// What the feed-forward applies between its layers.
    pub activation: Activation,
}

impl<D: Dim, F: Dim> TransformerDecoderLayer<D, F> {
    /// A layer of a width and a feed-forward width that the types do not know.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(
        width: usize,
        feed_forward: usize,
        heads: usize,
        dropout: f64,
        order: NormOrder,
    ) -> Self {
        TransformerDecoderLayer {
            self_attn: MultiheadAttention::with_sizes(width, heads).with_dropout(dropout),
            multihead_attn: MultiheadAttention::with_sizes(width, heads).with_dropout(dropout),
            linear1: Linear::with_sizes(width, feed_forward),
            linear2: Linear::with_sizes(feed_forward, width),
            norm1: LayerNorm::with_sizes(width),
            norm2: LayerNorm::with_sizes(width),
            norm3: LayerNorm::with_sizes(width),
            dropout: Dropout::new(dropout),
            order,
            activation: Activation::Relu,
        }
    }

    /// The layer applied to `[batch, length, D]`, with attention to the positions of `memory`,
    /// `[batch, positions, D]`. `mask` is of the attention to itself.
    #[must_use]
    #[track_caller]
    pub fn forward<X, M>(
        &self,
        x: &X,
        memory: &M,
        mask: AttentionMask<'_>,
        memory_mask: AttentionMask<'_>,
    ) -> X::Out
    where
        X: Sequences<D, D>,
        M: Sequences<D, D, Batch: SameDim<X::Batch>>,
    {
        let (x, memory) = (&*entering(self, x.inner()), memory.inner());
        let x = sum!(self, x, norm1, |x| self.dropout.forward(&self.self_attn.forward(x, mask)));
        let x = sum!(self, &x, norm2, |x| self.dropout.forward(&self.multihead_attn.cross(
            x,
            memory,
            memory_mask
        )));
        hooked(self, X::Out::like(sum!(self, &x, norm3, |x| feed_forward!(self, x))))
    }
}

macro_rules! layers {
    ($($name:ident: $($part:ident)+;)+) => { $(
        impl<D: StaticDim, F: StaticDim> $name<D, F> {
            /// A layer with so many heads and this dropout (PyTorch's is 0.1).
            #[must_use]
            #[track_caller]
            pub fn with_heads(heads: usize, dropout: f64, order: NormOrder) -> Self {
                $name::with_sizes(D::SIZE, F::SIZE, heads, dropout, order)
            }
        }

        impl<D: Dim, F: Dim> $name<D, F> {
            /// This layer with another function inside its feed-forward.
            #[must_use]
            pub fn with_activation(self, activation: Activation) -> Self {
                $name { activation, ..self }
            }
        }

        #[diagnostic::do_not_recommend]
        impl<D: Dim, F: Dim> Module for $name<D, F> {
            fn describe(&self) -> String {
                stringify!($name).to_owned()
            }
            fn visit(&self, visitor: &mut Visitor<'_>) {
                $( visitor.child(stringify!($part), &self.$part); )+
            }
            fn set_mode(&mut self, mode: Mode) {
                $( self.$part.set_mode(mode); )+
                self.dropout.set_mode(mode);
            }
        }
    )+ };
}

layers! {
    TransformerEncoderLayer: self_attn linear1 linear2 norm1 norm2;
    TransformerDecoderLayer: self_attn multihead_attn linear1 linear2 norm1 norm2 norm3;
}

/// Encoder layers on top of each other, and perhaps a normalization behind them: PyTorch's
/// `TransformerEncoder`, whose layers begin as copies of one; these may differ.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Seq }
/// let layer = || TransformerEncoderLayer::with_heads(4, 0.1, NormOrder::First);
/// let layers = (0..6).map(|_| layer()).collect();
/// let net: TransformerEncoder<N<64>, N<256>> =
///     TransformerEncoder::from_layers(layers, Some(LayerNorm::new()));
/// let x: T![Batch, Seq, 64] = Tensor::randn_with([8, 16]);
/// let y: T![Batch, Seq, 64] = net.forward(&x, AttentionMask::default());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransformerEncoder<D: Dim = Dyn, F: Dim = Dyn> {
    /// The layers, the first below.
    pub layers: Vec<TransformerEncoderLayer<D, F>>,
    /// The normalization of the last layer's result.
    pub norm: Option<LayerNorm<D>>,
}

impl<D: Dim, F: Dim> TransformerEncoder<D, F> {
    /// The layers applied to `[batch, length, D]`, all with the same mask.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Sequences<D, D>>(&self, x: &X, mask: AttentionMask<'_>) -> X::Out {
        let mut x = entering(self, x.inner()).into_owned();
        for layer in &self.layers {
            x = layer.forward(&x, mask);
        }
        hooked(self, X::Out::conforming("transformer_encoder", normalized(self.norm.as_ref(), x)))
    }
}

/// Decoder layers on top of each other, and perhaps a normalization behind them: PyTorch's
/// `TransformerDecoder`, whose layers begin as copies of one; these may differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransformerDecoder<D: Dim = Dyn, F: Dim = Dyn> {
    /// The layers, the first below.
    pub layers: Vec<TransformerDecoderLayer<D, F>>,
    /// The normalization of the last layer's result.
    pub norm: Option<LayerNorm<D>>,
}

impl<D: Dim, F: Dim> TransformerDecoder<D, F> {
    /// The layers applied to `[batch, length, D]`, all with the same memory, `[batch, positions,
    /// D]`, and the same masks.
    #[must_use]
    #[track_caller]
    pub fn forward<X, M>(
        &self,
        x: &X,
        memory: &M,
        mask: AttentionMask<'_>,
        memory_mask: AttentionMask<'_>,
    ) -> X::Out
    where
        X: Sequences<D, D>,
        M: Sequences<D, D, Batch: SameDim<X::Batch>>,
    {
        let (mut x, memory) = (entering(self, x.inner()).into_owned(), memory.inner());
        for layer in &self.layers {
            x = layer.forward(&x, memory, mask, memory_mask);
        }
        hooked(self, X::Out::conforming("transformer_decoder", normalized(self.norm.as_ref(), x)))
    }
}

/// `x` normalized, if there is a normalization.
#[track_caller]
fn normalized<D: Dim>(norm: Option<&LayerNorm<D>>, x: DynTensor) -> DynTensor {
    match norm {
        Some(norm) => norm.forward(&x),
        None => x,
    }
}

macro_rules! stacks {
    ($($name:ident of $layer:ident;)+) => { $(
        impl<D: Dim, F: Dim> $name<D, F> {
            /// These layers, and perhaps a normalization behind them.
            #[must_use]
            pub fn from_layers(layers: Vec<$layer<D, F>>, norm: Option<LayerNorm<D>>) -> Self {
                $name { layers, norm }
            }
        }

        #[diagnostic::do_not_recommend]
        impl<D: Dim, F: Dim> Module for $name<D, F> {
            fn describe(&self) -> String {
                format!("{}({} layers)", stringify!($name), self.layers.len())
            }
            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.child("layers", &self.layers);
                visitor.child("norm", &self.norm);
            }
            fn set_mode(&mut self, mode: Mode) {
                self.layers.set_mode(mode);
            }
        }
    )+ };
}

stacks! {
    TransformerEncoder of TransformerEncoderLayer;
    TransformerDecoder of TransformerDecoderLayer;
}
