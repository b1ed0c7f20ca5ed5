//! The work `parameters`: Adam's update of many small matrices.

use super::super::step::{Step, learning, weight};
use gt_lang::prelude::*;

/// 200 matrices, and a step that makes them smaller.
pub(in super::super) fn step() -> Step {
    let all: Vec<DynTensor> = (0..200).map(|_| weight([64, 64])).collect();
    let optimizer = Adam::new(all.clone(), AdamConfig::default());
    learning(optimizer, move || {
        let squares: Vec<DynTensor> = all.iter().map(|w| w.square().mean(..)).collect();
        DynTensor::stack(&squares, 0).sum(..)
    })
}
