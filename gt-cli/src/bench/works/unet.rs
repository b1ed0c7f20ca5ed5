//! The work `unet`: a level of a U-Net (Ronneberger et al. 2015), and a step of its training.

use super::super::step::{Step, learning, noisy, sgd, weight};
use gt_lang::functional::{Convolution, Pooling, conv_transpose2d, conv2d, max_pool2d};
use gt_lang::prelude::*;

const SAME: Convolution = Convolution {
    stride: [1; 2],
    padding: [1; 2],
    same: false,
    dilation: [1; 2],
    groups: 1,
    output_padding: [0; 2],
};
const TWICE: Convolution = Convolution { stride: [2; 2], padding: [0; 2], ..SAME };

/// Kernels down, up and out; images; and a step that makes the results smaller.
pub(in super::super) fn step() -> Step {
    let x = noisy([8, 16, 32, 32]);
    let (down, up) = (weight([32, 16, 3, 3]), weight([32, 16, 2, 2]));
    let out = weight([16, 32, 3, 3]);
    learning(sgd(vec![down.clone(), up.clone(), out.clone()]), move || {
        let low = max_pool2d(&x, Pooling::of([2, 2]));
        let low = conv2d(&low, &down, None, SAME).relu();
        let high = conv_transpose2d(&low, &up, None, TWICE).relu();
        let both = DynTensor::cat([&x, &high], 1);
        conv2d(&both, &out, None, SAME).square().mean(..)
    })
}
