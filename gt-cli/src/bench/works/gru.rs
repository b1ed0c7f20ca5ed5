//! The work `gru`: gated recurrent units over 32 steps, and a step of their training.

use super::super::step::{Step, classifying, noisy};
use gt_lang::prelude::*;

dims! { Batch }

#[derive(Module)]
struct Net {
    #[module(init = Gru::with_layers(Layers::default()))]
    cells: Gru<N<64>, N<128>>,
    head: Linear<N<128>, N<10>>,
}

/// Cells, a batch of 16 sequences, and a step that learns to classify them.
pub(in super::super) fn step() -> Step {
    let net = Net::new();
    let x: T![Batch, 32, 64] = Tensor::from_dyn(noisy([16, 32, 64]));
    classifying(net.parameters(), 16, move || {
        let all = net.cells.forward(&x, None).0;
        let last: T![Batch, 128] = Tensor::from_dyn(all.as_dyn().narrow(1, 31, 1).squeeze(1));
        net.head.forward(&last)
    })
}
