//! The work `cnn`: LeNet-5 (LeCun et al. 1998) with rectifiers and maxima, and a step of its
//! training.

use super::step::{Step, classifying, floats};
use gt_lang::functional::{Convolution, Pooling};
use gt_lang::prelude::*;

const BATCH: usize = 64;

dims! { Batch }

#[derive(Module)]
struct LeNet {
    #[module(init = conv(2))]
    conv1: Conv2d<One, N<6>>,
    #[module(init = conv(0))]
    conv2: Conv2d<N<6>, N<16>>,
    fc1: Linear<N<400>, N<120>>,
    fc2: Linear<N<120>, N<84>>,
    fc3: Linear<N<84>, N<10>>,
}

fn conv<I: StaticDim, O: StaticDim>(padding: usize) -> Conv2d<I, O> {
    Conv2d::with_kernel([5, 5], Convolution { padding: [padding; 2], ..Convolution::default() })
}

impl LeNet {
    fn forward(&self, images: &T![Batch, 1, 28, 28]) -> T![Batch, 10] {
        let half = Pooling::of([2, 2]);
        let x = self.conv1.forward(images).relu().max_pool2d(half);
        let x = self.conv2.forward(&x).relu().max_pool2d(half);
        let x = self.fc1.forward(&x.reshape::<shape![Batch, 400]>()).relu();
        self.fc3.forward(&self.fc2.forward(&x).relu())
    }
}

/// A network, images, and a step that learns to classify them.
pub(super) fn step() -> Step {
    let net = LeNet::new();
    let x: T![Batch, 1, 28, 28] = Tensor::from_vec(floats(BATCH * 28 * 28));
    classifying(net.parameters(), BATCH, move || net.forward(&x))
}
