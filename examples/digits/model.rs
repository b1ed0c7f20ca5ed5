//! The model and one step of its training: what a reader would write first.

use super::data::Digits;
use gt::prelude::*;

dims! { Batch }

/// A batch of images, 64 pixels each.
pub type Images = T![Batch, 64];
/// The digits they show.
pub type Labels = T![Batch; Int];

/// Three layers from 64 pixels to ten digits. The sizes are part of the types: layers that do not
/// fit do not compile.
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

    /// How well the scores fit the labels: smaller is better.
    pub fn loss(&self, images: &Images, labels: &Labels) -> T![] {
        self.forward(images).cross_entropy(labels)
    }

    /// The share of images whose highest score is the right one's.
    pub fn accuracy(&self, images: &Images, labels: &Labels) -> T![] {
        no_grad(|| self.forward(images).argmax_last().eq(labels).float().mean())
    }
}

/// Images and labels as tensors.
pub fn upload(digits: Digits) -> (Images, Labels) {
    (Tensor::from_vec(digits.images), Tensor::from_vec(digits.labels))
}

/// One step of training: records the loss, its gradients, and the update of every parameter.
/// Nothing is waited for.
pub fn step(net: &Mlp, optimizer: &mut impl Optimizer, batch: Digits) -> Result<T![]> {
    let (images, labels) = upload(batch);
    let loss = net.loss(&images, &labels);
    optimizer.zero_grad();
    loss.backward()?;
    optimizer.step()?;
    Ok(loss.detach())
}
