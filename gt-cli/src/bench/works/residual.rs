//! The work `residual`: a block of a residual network (He et al. 2016), and a step of its training.

use super::super::step::{Step, learning, noisy, sgd};
use gt_lang::prelude::*;

type Images = T![Dyn, 16, Dyn, Dyn];

#[derive(Module)]
struct Block {
    #[module(init = conv())]
    conv1: Conv2d<N<16>, N<16>>,
    norm1: BatchNorm<N<16>>,
    #[module(init = conv())]
    conv2: Conv2d<N<16>, N<16>>,
    norm2: BatchNorm<N<16>>,
}

fn conv() -> Conv2d<N<16>, N<16>> {
    Conv2d::with_kernel([3, 3], Convolution { padding: [1, 1], ..Convolution::default() })
}

impl Block {
    fn forward(&self, x: &Images) -> Images {
        let y = self.norm1.forward(&self.conv1.forward(x)).relu();
        (self.norm2.forward(&self.conv2.forward(&y)) + x).relu()
    }
}

/// A block, images, and a step that makes the results smaller.
pub(in super::super) fn step() -> Step {
    let net = Block::new();
    let x: Images = Tensor::from_dyn(noisy([32, 16, 32, 32]));
    learning(sgd(net.parameters()), move || net.forward(&x).square().mean().into_dyn())
}
