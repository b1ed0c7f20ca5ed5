//! Attention with several heads and the encoder layer around it (Vaswani et al. 2017), with
//! PyTorch's names and layout.

use gt_ir::DType;

use super::dropout::Dropout;
use super::init::{divisors, fault, other_sizes, parameter, unless};
use super::layers::{LayerNorm, Linear};
use super::module::{Mode, Module, Visitor};
use crate::core::DynTensor;
use crate::functional::precision::biased;
use crate::functional::{Attention, scaled_dot_product_attention_with};
use crate::typed::{Dim, Dyn, SameDim, Sealed as _, Sequences, StaticDim};

/// Which positions attention is paid to.
#[derive(Clone, Copy, Default)]
pub struct AttentionMask<'a> {
    /// True where it is; broadcasts to `[batch, heads, length, positions]`.
    pub mask: Option<&'a DynTensor>,
    /// Not to later positions.
    pub causal: bool,
}

/// Attention with several heads, over `[batch, length, D]`. PyTorch's
/// `MultiheadAttention(batch_first=True)`, without its weights of attention.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Seq }
/// let layer: MultiheadAttention<N<64>> = MultiheadAttention::with_heads(4);
/// let x: T![Batch, Seq, 64] = Tensor::randn_with([8, 16]);
/// let y = layer.forward(&x, AttentionMask { causal: true, ..Default::default() });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct MultiheadAttention<D: Dim = Dyn> {
    /// The projections of query, key and value, one below the other: `[3 D, D]`.
    pub in_proj_weight: DynTensor,
    /// Their biases: `[3 D]`.
    pub in_proj_bias: DynTensor,
    /// The projection of the result.
    pub out_proj: Linear<D, D>,
    heads: usize,
}

impl<D: StaticDim> MultiheadAttention<D> {
    /// A layer with so many heads, which must divide `D`; if they do not, that is the error of
    /// everything computed with it.
    #[must_use]
    #[track_caller]
    pub fn with_heads(heads: usize) -> Self {
        MultiheadAttention::with_sizes(D::SIZE, heads)
    }
}

impl<D: Dim> MultiheadAttention<D> {
    /// A layer whose width the type does not know, with so many heads.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(width: usize, heads: usize) -> Self {
        let fault = if heads > 0 && width.is_multiple_of(heads) {
            other_sizes("MultiheadAttention", &[(D::SPEC, width)])
        } else {
            let message =
                format!("MultiheadAttention: width {width} cannot be divided by {heads} heads");
            fault(message, divisors(width))
        };
        // Xavier's uniform distribution (Glorot and Bengio 2010), zeros for biases: PyTorch's
        // defaults.
        let bound = (6.0 / (4 * width) as f64).sqrt();
        let weight = DynTensor::rand([3 * width, width], DType::F32);
        let bias = DynTensor::zeros([3 * width], DType::F32);
        let out = Linear::<D, D>::with_sizes_without_bias(width, width).weight;
        let weight = (weight * (2.0 * bound) - bound).detach().requires_grad();
        let out_bias = parameter("MultiheadAttention", DynTensor::zeros([width], DType::F32));
        MultiheadAttention {
            in_proj_weight: unless(fault.as_ref(), weight),
            in_proj_bias: unless(fault.as_ref(), bias.requires_grad()),
            out_proj: Linear::from_tensors(out, Some(out_bias)),
            heads,
        }
    }

    /// Attention of `x` to itself.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Sequences<D, D>>(&self, x: &X, mask: AttentionMask<'_>) -> X::Out {
        X::Out::like(self.to_itself(x.inner(), mask))
    }

    #[track_caller]
    fn to_itself(&self, x: &DynTensor, mask: AttentionMask<'_>) -> DynTensor {
        let all = biased(&x.matmul(&self.in_proj_weight.t()), &self.in_proj_bias);
        let parts = all.chunk(3, -1);
        match &parts[..] {
            [q, k, v] => self.attend(q, k, v, mask),
            // No three parts: an error, or no width at all.
            _ => all,
        }
    }

    /// Attention of `query` to the positions of `memory`, which it may differ from in length.
    #[must_use]
    #[track_caller]
    pub fn cross<X, M>(&self, query: &X, memory: &M, mask: AttentionMask<'_>) -> X::Out
    where
        X: Sequences<D, D>,
        M: Sequences<D, D, Batch: SameDim<X::Batch>>,
    {
        let (query, memory) = (query.inner(), memory.inner());
        let (q, k) = (self.project(query, 0), self.project(memory, 1));
        X::Out::like(self.attend(&q, &k, &self.project(memory, 2), mask))
    }

    /// One of the three projections of the input.
    #[track_caller]
    fn project(&self, x: &DynTensor, part: i64) -> DynTensor {
        let width = x.size(-1);
        let from = part * width as i64;
        let weight = self.in_proj_weight.narrow(0, from, width);
        biased(&x.matmul(&weight.t()), &self.in_proj_bias.narrow(0, from, width))
    }

    /// `[batch, length, width]` as `[batch, heads, length, width of a head]`.
    #[track_caller]
    fn in_heads(&self, x: &DynTensor) -> DynTensor {
        let (batch, length, width) = (x.size(0), x.size(1), x.size(-1));
        let each = width.checked_div(self.heads).unwrap_or(0);
        x.reshape([batch, length, self.heads, each]).transpose(1, 2)
    }

    #[track_caller]
    fn attend(
        &self,
        q: &DynTensor,
        k: &DynTensor,
        v: &DynTensor,
        AttentionMask { mask, causal }: AttentionMask<'_>,
    ) -> DynTensor {
        let how = Attention { mask, causal, scale: None };
        let (q_heads, k_heads, v_heads) = (self.in_heads(q), self.in_heads(k), self.in_heads(v));
        let out = scaled_dot_product_attention_with(&q_heads, &k_heads, &v_heads, how);
        let joined = out.transpose(1, 2).reshape(q.shape());
        let projected = joined.matmul(&self.out_proj.weight.as_dyn().t());
        match &self.out_proj.bias {
            Some(bias) => biased(&projected, bias.as_dyn()),
            None => projected,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<D: Dim> Module for MultiheadAttention<D> {
    fn describe(&self) -> String {
        format!("MultiheadAttention({}, {} heads)", self.in_proj_weight.size(-1), self.heads)
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("in_proj_weight", &self.in_proj_weight);
        visitor.child("in_proj_bias", &self.in_proj_bias);
        visitor.child("out_proj", &self.out_proj);
    }
}

impl<D: Dim> Clone for MultiheadAttention<D> {
    fn clone(&self) -> Self {
        MultiheadAttention {
            in_proj_weight: self.in_proj_weight.clone(),
            in_proj_bias: self.in_proj_bias.clone(),
            out_proj: self.out_proj.clone(),
            heads: self.heads,
        }
    }
}

/// Where a block's normalizations stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormOrder {
    /// After the sums, as in the paper: PyTorch's default.
    #[default]
    After,
    /// Before attention and feed-forward, as in GPT-2: `norm_first=True`.
    First,
}

/// Attention and two linear layers, each with dropout, a sum and a normalization: PyTorch's
/// `TransformerEncoderLayer`, with `relu`.
#[derive(Debug)]
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
    /// Applied after attention, inside and after the feed-forward.
    pub dropout: Dropout,
    /// Where the normalizations stand.
    pub order: NormOrder,
}

impl<D: StaticDim, F: StaticDim> TransformerEncoderLayer<D, F> {
    /// A layer with so many heads and this dropout (PyTorch's is 0.1).
    #[must_use]
    #[track_caller]
    pub fn with_heads(heads: usize, dropout: f64, order: NormOrder) -> Self {
        TransformerEncoderLayer::with_sizes(D::SIZE, F::SIZE, heads, dropout, order)
    }
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
            self_attn: MultiheadAttention::with_sizes(width, heads),
            linear1: Linear::with_sizes(width, feed_forward),
            linear2: Linear::with_sizes(feed_forward, width),
            norm1: LayerNorm::with_sizes(width),
            norm2: LayerNorm::with_sizes(width),
            dropout: Dropout::new(dropout),
            order,
        }
    }

    /// The layer applied to `[batch, length, D]`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Sequences<D, D>>(&self, x: &X, mask: AttentionMask<'_>) -> X::Out {
        let x = x.inner();
        X::Out::like(match self.order {
            NormOrder::After => {
                let x = self.norm1.forward(&(x + self.attention(x, mask)));
                self.norm2.forward(&(&x + self.feed_forward(&x)))
            }
            NormOrder::First => {
                let x = x + self.attention(&self.norm1.forward(x), mask);
                &x + self.feed_forward(&self.norm2.forward(&x))
            }
        })
    }

    #[track_caller]
    fn attention(&self, x: &DynTensor, mask: AttentionMask<'_>) -> DynTensor {
        self.dropout.forward(&self.self_attn.forward(x, mask))
    }

    #[track_caller]
    fn feed_forward(&self, x: &DynTensor) -> DynTensor {
        let inner = self.dropout.forward(&self.linear1.forward(x).relu());
        self.dropout.forward(&self.linear2.forward(&inner))
    }
}

#[diagnostic::do_not_recommend]
impl<D: Dim, F: Dim> Module for TransformerEncoderLayer<D, F> {
    fn describe(&self) -> String {
        "TransformerEncoderLayer".to_owned()
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("self_attn", &self.self_attn);
        visitor.child("linear1", &self.linear1);
        visitor.child("linear2", &self.linear2);
        visitor.child("norm1", &self.norm1);
        visitor.child("norm2", &self.norm2);
    }
    fn set_mode(&mut self, mode: Mode) {
        self.dropout.set_mode(mode);
    }
}

impl<D: Dim, F: Dim> Clone for TransformerEncoderLayer<D, F> {
    fn clone(&self) -> Self {
        TransformerEncoderLayer {
            self_attn: self.self_attn.clone(),
            linear1: self.linear1.clone(),
            linear2: self.linear2.clone(),
            norm1: self.norm1.clone(),
            norm2: self.norm2.clone(),
            dropout: self.dropout,
            order: self.order,
        }
    }
}
