//! Attention with several heads (Vaswani et al. 2017), with PyTorch's names and layout. Layers
//! around it are in `transformer`.

use gt_ir::DType;

use super::dropout::Dropout;
use super::hooks::{entering, hooked};
use super::init::{divisors, fault, other_sizes, parameter, unless};
use super::layers::Linear;
use super::module::{Mode, Module, Visitor};
use crate::core::DynTensor;
use crate::functional::precision::biased;
use crate::functional::{Attention, attention_weights, scaled_dot_product_attention_with};
use crate::typed::{Dim, Dyn, SameDim, Sealed as _, Sequences, StaticDim};

/// Which positions attention is paid to.
#[derive(Clone, Copy, Default)]
pub struct AttentionMask<'a> {
    /// True where it is; broadcasts to `[batch, heads, length, positions]`.
    pub mask: Option<&'a DynTensor>,
    /// Not to later positions.
    pub causal: bool,
}

impl<'a> AttentionMask<'a> {
    /// What the function of this mask is told.
    fn attention(self) -> Attention<'a> {
        Attention { mask: self.mask, causal: self.causal, scale: None }
    }
}

/// Attention with several heads, over `[batch, length, D]`. PyTorch's
/// `MultiheadAttention(batch_first=True)`.
///
/// The weights of attention are computed where something asks for them:
/// [`forward_with_weights`](Self::forward_with_weights), and [dropout](Self::with_dropout) in
/// training. They take `length * positions` numbers for each head; without them attention takes
/// none of that.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Seq }
/// let layer: MultiheadAttention<N<64>> = MultiheadAttention::with_heads(4);
/// let x: T![Batch, Seq, 64] = Tensor::randn_with([8, 16]);
/// let y = layer.forward(&x, AttentionMask { causal: true, ..Default::default() });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MultiheadAttention<D: Dim = Dyn> {
    /// The projections of query, key and value, one below the other: `[3 D, D]`.
    pub in_proj_weight: DynTensor,
    /// Their biases: `[3 D]`.
    pub in_proj_bias: DynTensor,
    /// The projection of the result.
    pub out_proj: Linear<D, D>,
    heads: usize,
    dropout: Dropout,
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
            dropout: Dropout::new(0.0),
        }
    }

    /// This layer with weights of attention that are dropped in training with a probability, in a
    /// new layer 0.
    #[must_use]
    pub fn with_dropout(self, p: f64) -> Self {
        MultiheadAttention { dropout: Dropout::new(p), ..self }
    }

    /// Attention of `x` to itself.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Sequences<D, D>>(&self, x: &X, mask: AttentionMask<'_>) -> X::Out {
        let x = &*entering(self, x.inner());
        hooked(self, X::Out::like(self.attend(x, &self.of_itself(x), mask)))
    }

    /// [`Self::forward`] and the weights it gave to positions: `[batch, heads, length, positions]`,
    /// PyTorch's `need_weights=True, average_attn_weights=False`. Their `.mean(1)` is PyTorch's
    /// default.
    #[must_use]
    #[track_caller]
    pub fn forward_with_weights<X: Sequences<D, D>>(
        &self,
        x: &X,
        mask: AttentionMask<'_>,
    ) -> (X::Out, DynTensor) {
        let x = &*entering(self, x.inner());
        let (y, weights) = self.weigh(x, &self.of_itself(x), mask);
        (hooked(self, X::Out::like(y)), weights)
    }

    /// Attention of `query` to the positions of `memory`, which it may differ from in length.
    #[must_use]
    #[track_caller]
    pub fn cross<X, M>(&self, query: &X, memory: &M, mask: AttentionMask<'_>) -> X::Out
    where
        X: Sequences<D, D>,
        M: Sequences<D, D, Batch: SameDim<X::Batch>>,
    {
        let query = &*entering(self, query.inner());
        let y = self.attend(query, &self.of_both(query, memory.inner()), mask);
        hooked(self, X::Out::like(y))
    }

    /// [`Self::cross`] and the weights it gave to positions: `[batch, heads, length, positions]`.
    #[must_use]
    #[track_caller]
    pub fn cross_with_weights<X, M>(
        &self,
        query: &X,
        memory: &M,
        mask: AttentionMask<'_>,
    ) -> (X::Out, DynTensor)
    where
        X: Sequences<D, D>,
        M: Sequences<D, D, Batch: SameDim<X::Batch>>,
    {
        let query = &*entering(self, query.inner());
        let (y, weights) = self.weigh(query, &self.of_both(query, memory.inner()), mask);
        (hooked(self, X::Out::like(y)), weights)
    }

    /// Query, key and value of `x`, by one product.
    #[track_caller]
    fn of_itself(&self, x: &DynTensor) -> [DynTensor; 3] {
        let all = biased(&x.matmul(&self.in_proj_weight.t()), &self.in_proj_bias);
        let parts: Result<[DynTensor; 3], _> = all.chunk(3, -1).try_into();
        // No three parts: an error, or no width at all.
        let [q, k, v] = parts.unwrap_or_else(|_| [all.clone(), all.clone(), all]);
        [self.in_heads(&q), self.in_heads(&k), self.in_heads(&v)]
    }

    /// The query of one and key and value of another.
    #[track_caller]
    fn of_both(&self, query: &DynTensor, memory: &DynTensor) -> [DynTensor; 3] {
        let (q, k) = (self.project(query, 0), self.project(memory, 1));
        let v = self.project(memory, 2);
        [self.in_heads(&q), self.in_heads(&k), self.in_heads(&v)]
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

    /// The result for `x`, without the weights where nothing needs them.
    #[track_caller]
    fn attend(&self, x: &DynTensor, heads: &[DynTensor; 3], mask: AttentionMask<'_>) -> DynTensor {
        if self.dropout.is_dropping() {
            return self.weigh(x, heads, mask).0;
        }
        let [q, k, v] = heads;
        self.joined(x, &scaled_dot_product_attention_with(q, k, v, mask.attention()))
    }

    /// The result for `x`, and the weights of attention.
    #[track_caller]
    fn weigh(
        &self,
        x: &DynTensor,
        [q, k, v]: &[DynTensor; 3],
        mask: AttentionMask<'_>,
    ) -> (DynTensor, DynTensor) {
        let weights = self.dropout.forward(&attention_weights(q, k, mask.attention()));
        (self.joined(x, &weights.matmul(v)), weights)
    }

    /// The heads beside each other, in the shape of `x`, projected.
    #[track_caller]
    fn joined(&self, x: &DynTensor, heads: &DynTensor) -> DynTensor {
        let joined = heads.transpose(1, 2).reshape(x.shape());
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
    fn set_mode(&mut self, mode: Mode) {
        self.dropout.set_mode(mode);
    }
}
