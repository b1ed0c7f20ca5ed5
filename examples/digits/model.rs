//! The model and one step of its training.

use super::data::Digits;
use gt::prelude::*;

dims! { Batch }

/// A batch of images of 64 pixels.
pub type Images = T![Batch, 64];
/// The digits they show.
pub type Labels = T![Batch; Int];

/// Three layers from 64 pixels to ten digits. The sizes are part of the types, so layers that do
/// not fit are compile errors.
#[derive(Module)]
pub struct Mlp {
    fc1: Linear<N<64>, N<128>>,
    fc2: Linear<N<128>, N<64>>,
    fc3: Linear<N<64>, N<10>>,
}

impl Mlp {
    /// One score for each digit.
    pub fn forward(&self, images: &Images) -> T![Batch, 10] {
        let hidden = self.fc1.forward(images).relu();
        let hidden = self.fc2.forward(&hidden).relu();
        self.fc3.forward(&hidden)
    }

    /// The cross entropy of the scores.
    pub fn loss(&self, images: &Images, labels: &Labels) -> T![] {
        self.forward(images).cross_entropy(labels)
    }

    /// The share of images whose label has the highest score.
    pub fn accuracy(&self, images: &Images, labels: &Labels) -> T![] {
        no_grad(|| self.forward(images).argmax_last().eq(labels).float().mean())
    }
}

/// Images and labels as tensors.
pub fn upload(digits: Digits) -> (Images, Labels) {
    (Tensor::from_vec(digits.images), Tensor::from_vec(digits.labels))
}

/// Records one step of training: the loss, its gradients, and the update of every parameter. Does
/// not wait.
pub fn step(net: &Mlp, optimizer: &mut impl Optimizer, batch: Digits) -> Result<T![]> {
    let (images, labels) = upload(batch);
    let loss = net.loss(&images, &labels);
    optimizer.zero_grad();
    loss.backward()?;
    optimizer.step()?;
    Ok(loss.detach())
}
