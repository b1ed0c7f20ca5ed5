//! Losses of margins between classes and of labels that do not exclude each other.

use gt_ir::{DType, OpError};

use super::Reduction;
use super::precision::full;
use crate::core::{DynTensor, keepdim};

/// What [`multi_margin_loss`] may be told; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct MultiMargin<'a> {
    /// Distances count to this power, 1 or 2.
    pub p: f64,
    /// By how much the right class is to be ahead.
    pub margin: f64,
    /// How much each right class counts.
    pub weight: Option<&'a DynTensor>,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl Default for MultiMargin<'_> {
    fn default() -> Self {
        MultiMargin { p: 1.0, margin: 1.0, weight: None, reduction: Reduction::Mean }
    }
}

/// By how much other classes, along the last axis, come closer to the right one than the margin:
/// the mean over classes of `max(0, margin - x[target] + x[i])`. The target of a single row has one
/// element or no axis. As in PyTorch, a distance that is NaN counts as 0.
#[must_use]
#[track_caller]
pub fn multi_margin_loss(
    input: &DynTensor,
    target: &DynTensor,
    options: &MultiMargin<'_>,
) -> DynTensor {
    let input = rows(&full(input));
    let target = if input.rank() == 1 && target.rank() == 1 { &target.squeeze(0) } else { target };
    let right = target.unsqueeze(-1);
    let n_classes = input.size(-1);
    let short = positive(&(input.sub(&input.gather(-1, &right)) + options.margin));
    let mut losses = if options.p == 1.0 { short } else { short.pow(options.p) };
    if let Some(weight) = options.weight {
        losses *= full(weight).index_select(0, target).unsqueeze(-1);
    }
    let is_other = target.one_hot(n_classes).eq(0);
    options.reduction.of(&(is_other.where_(&losses, 0.0).sum(-1) / n_classes as f64))
}

/// By how much classes that are no target come closer to those that are than 1, over the number of
/// classes. `target`, of the shape of the input, has the numbers of the right classes along the
/// last axis; -1 ends them. As in PyTorch, a distance that is NaN counts as 0.
#[must_use]
#[track_caller]
pub fn multilabel_margin_loss(
    input: &DynTensor,
    target: &DynTensor,
    reduction: Reduction,
) -> DynTensor {
    if !input.shape().same_sizes(&target.shape()) {
        let target = target.ty();
        return input.record_with(|ty| {
            let message = format!("multilabel_margin_loss: input {ty} and target {target} differ");
            Err(OpError::new(message).hint("a target has a number or -1 for each class"))
        });
    }
    let (input, target) = (rows(&full(input)), rows(target));
    let n_classes = input.size(-1);
    let is_given = target.lt(0).to_dtype(DType::I64).cumsum(-1).eq(0);
    let named = is_given.where_(&target, 0);
    let given = is_given.unsqueeze(-1);
    let is_right = given.logical_and(&named.one_hot(n_classes).eq(1)).to_dtype(DType::I64);
    let is_other = is_right.sum(keepdim(-2)).eq(0);
    // A row for each target, a column for each class.
    let short = positive(&(input.unsqueeze(-2) - input.gather(-1, &named).unsqueeze(-1) + 1.0));
    let counts = given.logical_and(&is_other);
    reduction.of(&(counts.where_(&short, 0.0).sum([-2, -1]) / n_classes as f64))
}

/// With an axis of classes, also where there is a single number.
#[track_caller]
fn rows(x: &DynTensor) -> DynTensor {
    if x.rank() == 0 { x.unsqueeze(0) } else { x.clone() }
}

/// What is above 0, else 0, also in place of NaN.
#[track_caller]
fn positive(x: &DynTensor) -> DynTensor {
    x.gt(0.0).where_(x, 0.0)
}

/// The mean over classes, the last axis, of the binary cross entropy of these logits: labels do
/// not exclude each other. Classes may have weights.
#[must_use]
#[track_caller]
pub fn multilabel_soft_margin_loss(
    input: &DynTensor,
    target: &DynTensor,
    weight: Option<&DynTensor>,
    reduction: Reduction,
) -> DynTensor {
    let (input, target) = (full(input), full(target));
    let missed = target.mul(&input.neg().softplus());
    let mut losses = missed + (1.0 - &*target) * input.softplus();
    if let Some(weight) = weight {
        losses *= &*full(weight);
    }
    reduction.of(&losses.mean(-1))
}

/// `log(1 + exp(-target * input))`, for targets of 1 and -1.
#[must_use]
#[track_caller]
pub fn soft_margin_loss(input: &DynTensor, target: &DynTensor, reduction: Reduction) -> DynTensor {
    reduction.of(&full(input).mul(&*full(target)).neg().softplus())
}

/// Distances whose `target` is 1, and `max(0, margin - input)` of those whose `target` is -1; both
/// for any other `target`. PyTorch's margin is 1.
#[must_use]
#[track_caller]
pub fn hinge_embedding_loss(
    input: &DynTensor,
    target: &DynTensor,
    margin: f64,
    reduction: Reduction,
) -> DynTensor {
    let input = full(input);
    let apart = (margin - &*input).clamp_min(0.0);
    let unlike = target.ne(1).where_(&apart, 0.0);
    reduction.of(&(unlike + target.ne(-1).where_(&*input, 0.0)))
}
