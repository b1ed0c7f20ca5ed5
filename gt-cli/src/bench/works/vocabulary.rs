//! The work `vocabulary`: logits of 32,000 words, and a step of their training.

use super::super::step::{Step, integers, learning, noisy, sgd, weight};
use gt_lang::functional::cross_entropy;
use gt_lang::prelude::*;

/// States, a matrix, and a step that learns the words.
pub(in super::super) fn step() -> Step {
    let (states, words) = (noisy([256, 128]), weight([32_000, 128]));
    let next = DynTensor::from_vec(integers(256, 32_000), [256]);
    learning(sgd(vec![words.clone()]), move || cross_entropy(&states.matmul(&words.t()), &next))
}
