//! The work `embedding`: a large table of which few rows are read, and a step of its training.

use super::super::step::{Step, classifying, integers};
use gt_lang::prelude::*;

dims! { Batch }

#[derive(Module)]
struct Bag {
    words: Embedding<N<50_000>, N<128>>,
    head: Linear<N<128>, N<10>>,
}

/// A table, 64 rows of 32 words, and a step that learns to classify the rows.
pub(in super::super) fn step() -> Step {
    let net = Bag::new();
    let said: T![Batch, 32; Int] = Tensor::from_vec(integers(64 * 32, 50_000));
    classifying(net.parameters(), 64, move || {
        let mean: T![Batch, 128] = net.words.forward(&said).mean_axis::<1>();
        net.head.forward(&mean)
    })
}
