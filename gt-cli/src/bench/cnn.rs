//! The work `cnn`: LeNet-5 (LeCun et al. 1998) with rectifiers and maxima, and a step of its training.

use super::works::{Step, classifying, floats};
use gt_lang::functional::{Convolution, Pooling};
use gt_lang::prelude::*;

const BATCH: usize = 64;

dims! { Batch }

/// A convolution with a number for each channel of its results.
#[derive(Module)]
struct Conv<const I: usize, const O: usize> {
    #[module(init = uniform(25 * I))]
    weight: T![{ O }, { I }, 5, 5],
    #[module(init = uniform(25 * I))]
    bias: T![{ O }],
}

/// As PyTorch initializes layers of this many inputs.
fn uniform<S: StaticShape>(inputs: usize) -> Tensor<S> {
    let bound = (inputs as f64).powf(-0.5);
    let unit: Tensor<S> = Tensor::rand();
    Tensor::from_dyn((unit * (2.0 * bound) - bound).into_dyn().detach()).requires_grad()
}

#[derive(Module)]
struct LeNet {
    conv1: Conv<1, 6>,
    conv2: Conv<6, 16>,
    fc1: Linear<N<400>, N<120>>,
    fc2: Linear<N<120>, N<84>>,
    fc3: Linear<N<84>, N<10>>,
}

impl LeNet {
    fn forward(&self, images: &T![Batch, 1, 28, 28]) -> T![Batch, 10] {
        let half = Pooling::of([2, 2]);
        let same = Convolution { padding: [2, 2], ..Convolution::default() };
        let (weight, bias) = (&self.conv1.weight, Some(&self.conv1.bias));
        let x = images.conv2d(weight, bias, same).relu().max_pool2d(half);
        let (weight, bias) = (&self.conv2.weight, Some(&self.conv2.bias));
        let x = x.conv2d(weight, bias, Convolution::default()).relu().max_pool2d(half);
        let x = self.fc1.forward(&x.reshape::<shape![Batch, 400]>()).relu();
        self.fc3.forward(&self.fc2.forward(&x).relu())
    }
}

/// A network, images, and a step that learns to tell them apart.
pub(super) fn step() -> Step {
    let net = LeNet::new();
    let x: T![Batch, 1, 28, 28] = Tensor::from_vec(floats(BATCH * 28 * 28));
    classifying(net.parameters(), BATCH, move || net.forward(&x))
}
