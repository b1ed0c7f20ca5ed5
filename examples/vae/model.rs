//! A variational autoencoder (Kingma and Welling 2014). The encoder maps an image to the
//! distribution of a short code, the decoder maps codes to images.

use gt::functional::{BceWithLogits, Reduction, binary_cross_entropy_with_logits_with};
use gt::prelude::*;

dims! { Batch }

/// Numbers in a code.
pub const LATENT: usize = 8;
const HIDDEN: usize = 256;

/// A batch of images of 64 pixels.
pub type Images = T![Batch, 64];
/// A batch of latent codes.
pub type Codes = T![Batch, { LATENT }];

/// Encoder and decoder.
#[derive(Module)]
pub struct Vae {
    encode: Linear<N<64>, N<HIDDEN>>,
    mean: Linear<N<HIDDEN>, N<LATENT>>,
    log_variance: Linear<N<HIDDEN>, N<LATENT>>,
    decode: Linear<N<LATENT>, N<HIDDEN>>,
    pixels: Linear<N<HIDDEN>, N<64>>,
}

impl Vae {
    /// Decodes codes to images, as the logit of each pixel's darkness.
    pub fn decode(&self, codes: &Codes) -> Images {
        self.pixels.forward(&self.decode.forward(codes).gelu())
    }

    /// The negative evidence lower bound for an image in nats, the mean of the batch: the
    /// Kullback-Leibler divergence of the code from the prior, and the cross entropy of the pixels
    /// given the code, estimated from one draw of each code.
    pub fn bound(&self, images: &Images) -> T![] {
        let n = images.sizes()[0];
        let hidden = self.encode.forward(images).gelu();
        let (mean, log_variance) = (self.mean.forward(&hidden), self.log_variance.forward(&hidden));
        let noise: Codes = Tensor::randn_with([n]);
        let codes = &mean + noise * (&log_variance * 0.5).exp();
        let sum = BceWithLogits { reduction: Reduction::Sum, ..BceWithLogits::default() };
        let logits = self.decode(&codes);
        let pixels = binary_cross_entropy_with_logits_with(logits.as_dyn(), images.as_dyn(), &sum);
        let code = (mean.square() + log_variance.exp() - &log_variance - 1.0).sum() * 0.5;
        (code + Tensor::<()>::from_dyn(pixels)) / n as f64
    }
}
