//! The work `lora`: products of low rank beside matrices that stay (Hu et al. 2022), and a step of
//! their training.

use super::super::step::{Step, learning, noisy, weight};
use gt_lang::prelude::*;

/// Four layers of which the small matrices learn.
pub(in super::super) fn step() -> Step {
    let layers =
        [(); 4].map(|()| (noisy([512, 512]).mul(0.05), weight([512, 8]), weight([8, 512])));
    let x = noisy([128, 512]);
    let learned = layers.iter().flat_map(|(_, a, b)| [a.clone(), b.clone()]);
    learning(Adam::new(learned, AdamConfig::default()), move || {
        let layer = |x: DynTensor, (w, a, b): &(DynTensor, DynTensor, DynTensor)| {
            x.matmul(w).add(&x.matmul(a).matmul(b)).relu()
        };
        layers.iter().fold(x.clone(), layer).square().mean(..)
    })
}
