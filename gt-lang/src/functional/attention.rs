//! Attention, its weights, and the rotary position embedding of queries and keys.

use gt_ir::attr::Attention as Kind;
use gt_ir::{DType, Op, Shape, Type};

use crate::core::{Arg, DynTensor, keepdim};

/// What PyTorch's keyword arguments of `scaled_dot_product_attention` say.
#[derive(Clone, Copy, Default)]
pub struct Attention<'a> {
    /// Where attention is paid: `bool`, true where it is, or numbers added to the scores.
    /// Broadcasts to `[.., heads, length, positions]`.
    pub mask: Option<&'a DynTensor>,
    /// No attention to later positions: query `i` sees keys `0..=i`.
    pub causal: bool,
    /// What scores are multiplied with; `1 / sqrt(width)` when not given.
    pub scale: Option<f64>,
}

/// `softmax(query key^T / sqrt(width)) value` over `[.., heads, length, width]`, every query seeing
/// every key.
#[must_use]
#[track_caller]
pub fn scaled_dot_product_attention(
    query: &DynTensor,
    key: &DynTensor,
    value: &DynTensor,
) -> DynTensor {
    scaled_dot_product_attention_with(query, key, value, Attention::default())
}

/// Queries, keys and values with the leading axes they broadcast to: all but heads, where key and
/// value have several, their rows and columns. What does not broadcast is left to the op, which
/// says so.
#[track_caller]
fn with_shared_batch(given: [&DynTensor; 3]) -> [DynTensor; 3] {
    let shapes = given.map(|x| x.shape());
    let rank = shapes.iter().map(|shape| shape.rank()).max().unwrap_or(0);
    // Heads may differ where all have them: then some share keys.
    let own = if shapes.iter().all(|shape| shape.rank() == rank && rank > 2) { 3 } else { 2 };
    let lead =
        |shape: &Shape| Shape::collect(shape.dims().take(shape.rank().saturating_sub(own))).ok();
    let shared =
        shapes.iter().try_fold(Shape::SCALAR, |shared, shape| shared.broadcast(&lead(shape)?));
    let Some(shared) = shared else { return given.map(Clone::clone) };
    let mut spread = given.map(Clone::clone);
    for (x, shape) in spread.iter_mut().zip(shapes) {
        let whole = shared.dims().chain(shape.dims().skip(shape.rank().saturating_sub(own)));
        match Shape::collect(whole) {
            Ok(whole) if !whole.same_sizes(&shape) => *x = x.expand(whole),
            _ => (),
        }
    }
    spread
}

/// [`scaled_dot_product_attention`] with masks or another scale. Key and value may have fewer heads
/// than the query, whose heads then share them in order (PyTorch's `enable_gqa`). A query that sees
/// no key gets zeros.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::functional::{Attention, scaled_dot_product_attention_with};
/// let q = DynTensor::randn([2, 4, 16, 32], DType::F32); // batch, heads, length, width
/// let (k, v) = (q.clone(), q.clone());
/// let causal = Attention { causal: true, ..Default::default() };
/// let y = scaled_dot_product_attention_with(&q, &k, &v, causal);
/// ```
#[must_use]
#[track_caller]
pub fn scaled_dot_product_attention_with(
    query: &DynTensor,
    key: &DynTensor,
    value: &DynTensor,
    how: Attention<'_>,
) -> DynTensor {
    let [query, key, value] = &with_shared_batch([query, key, value]);
    let width = query.shape().sizes().last().copied().unwrap_or(1);
    let scale = how.scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
    // One value, not a literal: so the gradient is known to have the scale of what it is a gradient
    // of.
    let wide = if query.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let scale = query.full_of(Type::scalar(wide), scale.into());
    let mut args =
        vec![Arg::Tensor(query), Arg::Tensor(key), Arg::Tensor(value), Arg::Tensor(&scale)];
    args.extend(how.mask.map(Arg::Tensor));
    let kind = if how.causal { Kind::Causal } else { Kind::Full };
    DynTensor::record(Op::ScaledDotProductAttention(kind), &args)
}

/// How much each query attends to each key: `softmax(query key^T / sqrt(width))` with masks or
/// another scale, `[.., heads, length, positions]` in the dtype of the query. Their product with
/// the values is [`scaled_dot_product_attention_with`], which does not keep them. A query that sees
/// no key attends to nothing: its weights are zeros.
#[must_use]
#[track_caller]
pub fn attention_weights(query: &DynTensor, key: &DynTensor, how: Attention<'_>) -> DynTensor {
    let [query, key, _] = &with_shared_batch([query, key, key]);
    let width = query.shape().sizes().last().copied().unwrap_or(1);
    let scale = how.scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
    let key = each_head(query, key);
    let mut scores = query.widened().matmul(&key.widened().transpose(-2, -1)).mul(scale);
    if let Some(mask) = how.mask {
        scores = match mask.dtype() {
            DType::Bool => scores.masked_fill(&mask.logical_not(), f64::NEG_INFINITY),
            _ => scores.add(mask),
        };
    }
    if how.causal {
        let later = scores.detach().ones_like().triu(1).gt(0);
        scores = scores.masked_fill(&later, f64::NEG_INFINITY);
    }
    let blind = scores.detach().max(keepdim(-1)).eq(f64::NEG_INFINITY);
    let weights = scores.masked_fill(&blind, 0.0).softmax(-1).masked_fill(&blind, 0.0);
    weights.to_dtype(query.dtype())
}

/// Keys with as many heads as the query, each for the queries that share it, in order.
#[track_caller]
fn each_head(query: &DynTensor, key: &DynTensor) -> DynTensor {
    let (heads, key_heads) = (query.size(-3), key.size(-3));
    if key_heads == 0 || heads == key_heads || !heads.is_multiple_of(key_heads) {
        return key.clone();
    }
    key.repeat_interleave(heads / key_heads, -3)
}

/// The cosines and sines of [`rotary_embedding`] for positions (integers, shape `[length]`): two
/// tables `[length, width]` in f32, whose second half repeats the first. Frequency `i` is
/// `base^(-2i / width)`; the usual base is 10000.
#[must_use]
#[track_caller]
pub fn rotary_tables(positions: &DynTensor, width: usize, base: f64) -> (DynTensor, DynTensor) {
    let steps = DynTensor::arange(0, width as i64 / 2, 1, DType::F32);
    let frequencies = steps.mul(-2.0 * base.ln() / width as f64).exp();
    let angles = positions.to_dtype(DType::F32).unsqueeze(-1).mul(&frequencies);
    let both = DynTensor::cat([&angles, &angles], -1);
    (both.cos(), both.sin())
}

/// Pairs of elements of the last axis (`i` and `i + width / 2`) turned by the angles of the tables
/// (Su et al. 2021, in the layout of LLaMA): `x * cos + (-x2, x1) * sin`. The tables broadcast to
/// x, `[.., length, width]`.
#[must_use]
#[track_caller]
pub fn rotary_embedding(x: &DynTensor, cos: &DynTensor, sin: &DynTensor) -> DynTensor {
    let half = x.size(-1) / 2;
    let (first, second) = (x.narrow(-1, 0, half), x.narrow(-1, half as i64, half));
    let turned = DynTensor::cat([&second.neg(), &first], -1);
    x.mul(cos).add(&turned.mul(sin))
}
