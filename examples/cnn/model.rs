//! The network: three convolutions over 8x8 pixels, two of them with pooling, and a linear layer.

use gt::functional::{Convolution, CrossEntropy, Pooling};
use gt::prelude::*;

dims! { Batch }

/// A batch of images, each with one channel of 8x8 pixels.
pub type Images = T![Batch, 1, 8, 8];
/// The digits they show.
pub type Labels = T![Batch; Int];

/// Each image, shifted by up to a pixel up or down and left or right. The worker draws the shifts.
pub fn moved(images: &Images) -> Images {
    let n = images.sizes()[0];
    let places = DynTensor::arange(0, 8, 1, DType::I64);
    let from = || DynTensor::randint(0, 3, [n, 1, 1, 1], DType::I64);
    let rows = (places.reshape([8, 1]) + from()).expand([n, 1, 8, 10]);
    let columns = (places + from()).expand([n, 1, 8, 8]);
    let framed = images.as_dyn().pad([(0, 0), (0, 0), (1, 1), (1, 1)], 0.0);
    Tensor::from_dyn(framed.gather(2, &rows).gather(3, &columns))
}

/// Three convolutions and a linear layer.
#[derive(Module)]
pub struct Cnn {
    #[module(init = conv())]
    conv1: Conv2d<One, N<16>>,
    #[module(init = conv())]
    conv2: Conv2d<N<16>, N<32>>,
    #[module(init = conv())]
    conv3: Conv2d<N<32>, N<64>>,
    #[module(init = Dropout::new(0.3))]
    dropout: Dropout,
    head: Linear<N<256>, N<10>>,
}

/// A convolution of 3x3 pixels that keeps height and width.
fn conv<I: StaticDim, O: StaticDim>() -> Conv2d<I, O> {
    Conv2d::with_kernel([3, 3], Convolution { padding: [1, 1], ..Convolution::default() })
}

impl Cnn {
    /// One score for each digit.
    pub fn forward(&self, images: &Images) -> T![Batch, 10] {
        let half = Pooling::of([2, 2]);
        let x = self.conv1.forward(images).relu();
        let x = self.conv2.forward(&x).relu().max_pool2d(half);
        let x = self.conv3.forward(&x).relu().max_pool2d(half);
        self.head.forward(&self.dropout.forward(&x.reshape::<shape![Batch, 256]>()))
    }

    /// The cross entropy of the scores, with label smoothing of 0.1 against overconfidence.
    pub fn loss(&self, images: &Images, labels: &Labels) -> T![] {
        let smooth = CrossEntropy { label_smoothing: 0.1, ..CrossEntropy::default() };
        self.forward(images).cross_entropy_with(labels, &smooth)
    }

    /// The share of images whose label has the highest score.
    pub fn accuracy(&self, images: &Images, labels: &Labels) -> T![] {
        no_grad(|| self.forward(images).argmax_last().eq(labels).float().mean())
    }
}
