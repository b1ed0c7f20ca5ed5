//! The works `lstm` and `gru`: recurrent cells over 32 steps, and a step of their training.

use super::super::step::{Step, classifying, noisy};
use gt_lang::prelude::*;

dims! { Batch }

/// A batch of 16 sequences.
type Sequences<const WIDTH: usize> = Tensor<(Batch, N<32>, N<WIDTH>)>;

pub(in super::super) fn lstm() -> Step {
    let cells = Lstm::with_layers(Layers::default());
    learning(cells, |cells: &Lstm<N<64>, N<128>>, x| cells.forward(x, None).0)
}

pub(in super::super) fn gru() -> Step {
    let cells = Gru::with_layers(Layers::default());
    learning(cells, |cells: &Gru<N<64>, N<128>>, x| cells.forward(x, None).0)
}

/// A step that learns to classify sequences by the last output of the cells.
fn learning<C: Module + 'static>(
    cells: C,
    outputs: fn(&C, &Sequences<64>) -> Sequences<128>,
) -> Step {
    let head = Linear::<N<128>, N<10>>::new();
    let parameters = [cells.parameters(), head.parameters()].concat();
    let x: Sequences<64> = Tensor::from_dyn(noisy([16, 32, 64]));
    classifying(parameters, 16, move || {
        let all = outputs(&cells, &x);
        let last: T![Batch, 128] = Tensor::from_dyn(all.as_dyn().narrow(1, 31, 1).squeeze(1));
        head.forward(&last)
    })
}
