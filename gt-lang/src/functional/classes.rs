//! Losses of classes: how improbable the right ones are. The classes are the last axis, and any
//! number of axes may stand before it.

use gt_ir::{DType, OpError};

use super::Reduction;
use crate::core::DynTensor;

/// What [`cross_entropy_with`] and [`nll_loss_with`] may be told; the default is the mean of all
/// examples, as in PyTorch.
#[derive(Clone, Default)]
pub struct CrossEntropy {
    /// The weight of each class, `[C]`.
    pub weight: Option<DynTensor>,
    /// Examples of this class do not count. PyTorch's default is -100; here nothing is ignored
    /// unless said, and a class that does not exist is an error.
    pub ignore_index: Option<i64>,
    /// Share of the target that is spread over all classes (Szegedy et al. 2016). For
    /// `cross_entropy` only.
    pub label_smoothing: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

/// The mean negative log-likelihood of the classes `target` names (`i64`, shape `[N]`) under
/// `logits` (`[N, C]`).
///
/// Any number of leading axes may stand in place of `N`; the classes are the last axis.
#[must_use]
#[track_caller]
pub fn cross_entropy(logits: &DynTensor, target: &DynTensor) -> DynTensor {
    mean_of(&logits.log_softmax(-1), &classes_of("cross_entropy", logits, target))
}

/// [`cross_entropy`] with class weights, ignored examples, smoothed labels, or another reduction.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::functional::{CrossEntropy, cross_entropy_with};
/// let logits = DynTensor::randn([4, 10], DType::F32);
/// let classes = DynTensor::from([3i64, 0, 7, 9]);
/// let how = CrossEntropy { label_smoothing: 0.1, ignore_index: Some(9), ..Default::default() };
/// let loss = cross_entropy_with(&logits, &classes, &how);
/// ```
#[must_use]
#[track_caller]
pub fn cross_entropy_with(
    logits: &DynTensor,
    target: &DynTensor,
    options: &CrossEntropy,
) -> DynTensor {
    let log_probs = logits.log_softmax(-1);
    let target = classes_of("cross_entropy", logits, target);
    let examples = Examples::new(&log_probs, &target, options);
    let losses = examples.losses(&log_probs);
    if options.label_smoothing == 0.0 {
        return examples.reduce(&losses, options.reduction);
    }
    let of_all = match &options.weight {
        Some(weight) => log_probs.mul(weight),
        None => log_probs.clone(),
    };
    let spread = examples.counted(&of_all.sum(-1).neg());
    let share = options.label_smoothing / log_probs.size(-1) as f64;
    let losses = losses.mul(1.0 - options.label_smoothing).add(&spread.mul(share));
    examples.reduce(&losses, options.reduction)
}

/// The mean of minus the log-probability of the classes `target` names; the classes are the last
/// axis of `log_probs`.
#[must_use]
#[track_caller]
pub fn nll_loss(log_probs: &DynTensor, target: &DynTensor) -> DynTensor {
    mean_of(log_probs, &classes_of("nll_loss", log_probs, target))
}

/// [`nll_loss`] with class weights, ignored examples, or another reduction.
#[must_use]
#[track_caller]
pub fn nll_loss_with(
    log_probs: &DynTensor,
    target: &DynTensor,
    options: &CrossEntropy,
) -> DynTensor {
    let target = classes_of("nll_loss", log_probs, target);
    let examples = Examples::new(log_probs, &target, options);
    examples.reduce(&examples.losses(log_probs), options.reduction)
}

#[track_caller]
fn mean_of(log_probs: &DynTensor, target: &DynTensor) -> DynTensor {
    log_probs.gather(-1, &target.unsqueeze(-1)).mean(..).neg()
}

/// The target, if it names a class for each row of the scores. Fewer would do for `gather`, and the
/// loss would be that of some rows only.
#[track_caller]
fn classes_of(op: &str, scores: &DynTensor, target: &DynTensor) -> DynTensor {
    match misfit(scores, target) {
        Some((what, hint)) => {
            target.record_with(|_| Err(OpError::new(format!("{op}: {what}")).hint(hint)))
        }
        None => target.clone(),
    }
}

/// Why these classes cannot be those of the scores' rows, and what would mend it. Errors of either
/// are told by what uses them.
fn misfit(scores: &DynTensor, target: &DynTensor) -> Option<(String, String)> {
    let (rows, classes) = (scores.ty(), target.ty());
    let sizes = rows.shape.sizes();
    let wanted = sizes.split_last().map_or(sizes, |(_, rows)| rows);
    if scores.error().or(target.error()).is_some() {
        return None;
    }
    if !matches!(classes.dtype, DType::I64 | DType::I32 | DType::U8) {
        let what = format!("the classes must be integers, but are {classes}");
        return Some((what, "cast them to i64".into()));
    }
    (classes.shape.sizes() != wanted).then(|| {
        let what = format!("{classes} does not name a class for each row of {rows}");
        (what, format!("classes have the shape of the scores without its last axis: {wanted:?}"))
    })
}

/// The right classes, and how much each example counts.
struct Examples {
    target: DynTensor,
    /// Where examples do not count.
    ignored: Option<DynTensor>,
    /// The weight of each example; 0 where it does not count.
    weight: Option<DynTensor>,
}

impl Examples {
    #[track_caller]
    fn new(log_probs: &DynTensor, target: &DynTensor, options: &CrossEntropy) -> Examples {
        let mut examples = Examples { target: target.clone(), ignored: None, weight: None };
        if let Some(class) = options.ignore_index {
            let ignored = target.eq(class);
            // What does not count need not name a class that exists.
            examples.target = target.masked_fill(&ignored, 0);
            examples.ignored = Some(ignored);
        }
        examples.weight = match (&options.weight, &examples.ignored) {
            (Some(weight), _) => Some(examples.counted(&weight.index_select(0, &examples.target))),
            (None, Some(mask)) => Some(mask.logical_not().to_dtype(float_of(log_probs))),
            (None, None) => None,
        };
        examples
    }

    /// Zero where examples do not count.
    #[track_caller]
    fn counted(&self, values: &DynTensor) -> DynTensor {
        match &self.ignored {
            Some(mask) => values.masked_fill(mask, 0.0),
            None => values.clone(),
        }
    }

    #[track_caller]
    fn losses(&self, log_probs: &DynTensor) -> DynTensor {
        let picked = log_probs.gather(-1, &self.target.unsqueeze(-1)).squeeze(-1).neg();
        match &self.weight {
            Some(weight) => picked.mul(weight),
            None => picked,
        }
    }

    #[track_caller]
    fn reduce(&self, losses: &DynTensor, reduction: Reduction) -> DynTensor {
        match (reduction, &self.weight) {
            (Reduction::Mean, Some(weight)) => losses.sum(..).div(&weight.sum(..)),
            _ => reduction.of(losses),
        }
    }
}

/// The dtype of a float; an error has none and goes its own way.
fn float_of(tensor: &DynTensor) -> DType {
    tensor.dtype().or_default_float()
}
