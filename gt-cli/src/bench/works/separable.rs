//! The work `separable`: a convolution of each channel and one of each pixel (Howard et al. 2017),
//! and a step of their training.

use super::super::step::{Step, learning, noisy, sgd, weight};
use gt_lang::functional::{Convolution, conv2d};

/// Two kernels, images of 32 channels, and a step that makes the results smaller.
pub(in super::super) fn step() -> Step {
    let (depth, point) = (weight([32, 1, 3, 3]), weight([64, 32, 1, 1]));
    let x = noisy([16, 32, 32, 32]);
    let by_channel = Convolution { padding: [1, 1], groups: 32, ..Convolution::default() };
    learning(sgd(vec![depth.clone(), point.clone()]), move || {
        let y = conv2d(&x, &depth, None, by_channel).relu();
        conv2d(&y, &point, None, Convolution::default()).relu().square().mean(..)
    })
}
