//! How good predictions are: accuracies, F1 scores, perplexity, the area under the ROC curve.
//!
//! Guarantees: a metric is a tensor without a history; it is read only when it is wanted, and sums
//! of metrics over batches are tensors too. Scores of classes lie along the last axis.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! use gt::metrics;
//! # use gt::prelude::*;
//! # let scores = DynTensor::randn([8, 4], DType::F32);
//! # let labels = DynTensor::randint(0, 4, [8], DType::I64);
//! let share = metrics::accuracy(&scores, &labels);
//! println!("{:.1} %", share.item()? * 100.0);
//! # Ok::<(), gt::Error>(())
//! ```

use gt_ir::{DType, OpError};

use crate::core::DynTensor;

/// Whether there is a label for each prediction. Shapes that broadcast would count some twice.
fn one_each(
    name: &str,
    labels: &DynTensor,
    of: &DynTensor,
    wanted: &[usize],
) -> Result<(), OpError> {
    if labels.sizes() == wanted || labels.error().or_else(|| of.error()).is_some() {
        return Ok(());
    }
    let message = format!("{name}: the labels are {}, for {}", labels.ty(), of.ty());
    Err(OpError::new(message)
        .hint("give one label for each; `squeeze` takes an axis of size 1 away"))
}

/// The sizes of scores without the axis of classes.
fn rows(scores: &DynTensor) -> Vec<usize> {
    scores.sizes().split_last().map_or_else(Vec::new, |(_, rows)| rows.to_vec())
}

/// The share of labels whose class has the highest score.
#[must_use]
#[track_caller]
pub fn accuracy(scores: &DynTensor, labels: &DynTensor) -> DynTensor {
    if let Err(error) = one_each("accuracy", labels, scores, &rows(scores)) {
        return scores.record_with(|_| Err(error));
    }
    scores.detach().argmax(-1).eq(labels).to_dtype(DType::F32).mean(..)
}

/// The share of labels whose class is among the `k` highest scores.
#[must_use]
#[track_caller]
pub fn top_k_accuracy(scores: &DynTensor, labels: &DynTensor, k: usize) -> DynTensor {
    if let Err(error) = one_each("top_k_accuracy", labels, scores, &rows(scores)) {
        return scores.record_with(|_| Err(error));
    }
    let highest = scores.detach().topk(k, -1).1;
    highest.eq(&labels.unsqueeze(-1)).any(-1).to_dtype(DType::F32).mean(..)
}

/// How often each class (a row) was predicted as each (a column), as `i64`. A class beyond is an
/// error of the next read.
#[must_use]
#[track_caller]
pub fn confusion_matrix(predicted: &DynTensor, labels: &DynTensor, classes: usize) -> DynTensor {
    if let Err(error) = one_each("confusion_matrix", labels, predicted, &predicted.sizes()) {
        return predicted.record_with(|_| Err(error));
    }
    // Products of small integers would wrap. Floats are no classes, which `bincount` says.
    let whole = |x: &DynTensor| match x.dtype().is_float() {
        true => x.clone(),
        false => x.to_dtype(DType::I64),
    };
    let (predicted, labels) = (whole(predicted), whole(labels));
    let exists = |x: &DynTensor| x.ge(0).logical_and(&x.lt(classes));
    let exist = exists(&predicted).logical_and(&exists(&labels));
    if u32::try_from(classes).is_err() {
        let error = format!("confusion_matrix: {classes} classes are too many");
        return predicted.record_with(|_| Err(OpError::new(error)));
    }
    let n = classes * classes;
    // Not the place of another pair.
    let place = exist.where_(&(labels * classes + predicted), n as i64);
    place.bincount(n).reshape([classes, classes])
}

/// The F1 score of each class, the harmonic mean of precision and recall; 0 for a class that occurs
/// neither in the labels nor among the predictions. Its mean is the macro F1 score.
#[must_use]
#[track_caller]
pub fn f1(predicted: &DynTensor, labels: &DynTensor, classes: usize) -> DynTensor {
    let matrix = confusion_matrix(predicted, labels, classes).to_dtype(DType::F32);
    let (hits, found, there) = (matrix.diagonal(0), matrix.sum(0), matrix.sum(1));
    hits * 2.0 / (found + there).clamp_min(1.0)
}

/// The exponential of a mean surprise in nats: of how many equally likely classes the model is
/// unsure. Take the mean of the loss over all batches first.
#[must_use]
#[track_caller]
pub fn perplexity(cross_entropy: &DynTensor) -> DynTensor {
    cross_entropy.detach().exp()
}

/// The area under the ROC curve: the probability that a positive (a label that is not 0) has a
/// higher score than a negative, equal scores counting half. NaN where one of them is missing, or a
/// score is NaN.
///
/// It is Mann and Whitney's statistic, by the places of scores among all.
#[must_use]
#[track_caller]
pub fn roc_auc(scores: &DynTensor, labels: &DynTensor) -> DynTensor {
    if let Err(error) = one_each("roc_auc", labels, scores, &scores.sizes()) {
        return scores.record_with(|_| Err(error));
    }
    let scores = scores.detach().flatten(0, -1);
    let positive = labels.ne(0).to_dtype(DType::F64).flatten(0, -1);
    let sorted = scores.sort(0, false).0;
    // Equal scores share the mean of their ranks.
    let (below, not_above) =
        (sorted.searchsorted(&scores, false), sorted.searchsorted(&scores, true));
    let ranks = ((below + not_above).to_dtype(DType::F64) + 1.0) * 0.5;
    let n_positive = positive.sum(..);
    let n_negative = (1.0 - &positive).sum(..);
    let least = &n_positive * (&n_positive + 1.0) * 0.5;
    let area = ((ranks * positive).sum(..) - least) / (n_positive * n_negative);
    scores.isnan().any(..).where_(f64::NAN, &area).to_dtype(DType::F32)
}
