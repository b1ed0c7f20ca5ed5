//! The works of docs/benchmarks.md, written as users of the language write programs.
//!
//! Each work prepares its inputs and parameters in the current session and returns a [`Step`]. This
//! file does not read the clock.

mod embedding;
mod kmeans;
mod lora;
mod parameters;
mod recurrent;
mod residual;
mod separable;
mod stencil;
mod unet;
mod vocabulary;

use super::step::{Step, classifying, floats};
use super::{cnn, decode, gpt, large};
use gt_lang::prelude::*;

/// A row of the table.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) prepare: fn() -> Step,
    /// Whether it is for GPUs only. Such a work is measured only by name.
    pub(crate) gpu: bool,
}

#[rustfmt::skip]
pub(crate) const WORKS: &[Work] = &[
    Work { name: "mlp_small",    about: "64-64-10, batch 32: one SGD step, its loss read", prepare: mlp::<64, 64, 32>, gpu: false },
    Work { name: "mlp_seed",     about: "784-256-10, batch 64: likewise", prepare: mlp::<784, 256, 64>, gpu: false },
    Work { name: "mlp_wide",     about: "784-1024-1024-10, batch 256: likewise", prepare: wide, gpu: false },
    Work { name: "gpt",          about: "4 layers, width 256, 8 heads, 128 tokens, batch 8, 256 words: one AdamW step, its loss read", prepare: gpt::step, gpu: false },
    Work { name: "cnn",          about: "LeNet-5 over 28x28 pixels, batch 64: one SGD step, its loss read", prepare: cnn::step, gpu: false },
    Work { name: "decode",       about: "the model of `gpt` says a word, batch 1, keys and values of 128 positions kept", prepare: decode::step, gpu: false },
    Work { name: "chain_1m",     about: "sum(tanh(1.5x + 0.25) * sigmoid(x) + x) over 2^20 floats, read", prepare: chain::<20>, gpu: false },
    Work { name: "chain_16m",    about: "the same over 2^24 floats", prepare: chain::<24>, gpu: false },
    Work { name: "norm",         about: "softmax(gelu_tanh(layer_norm(x))), x of 4096x1024", prepare: norm, gpu: false },
    Work { name: "dispatch2000", about: "2,000 additions on 4 floats, each needing the last, then a read", prepare: dispatch, gpu: false },
    Work { name: "matmul1024",   about: "the product of two 1024x1024 matrices", prepare: matmul, gpu: false },
    Work { name: "residual",     about: "two 3x3 convolutions of 16 channels with batch normalization and a skip, 32x32 pixels, batch 32: one SGD step, its loss read", prepare: residual::step, gpu: false },
    Work { name: "separable",    about: "a 3x3 convolution by channel and one by pixel, 32 to 64 channels, 32x32 pixels, batch 16: likewise", prepare: separable::step, gpu: false },
    Work { name: "unet",         about: "a level of a U-Net, 16 and 32 channels, 32x32 pixels, batch 8: likewise", prepare: unet::step, gpu: false },
    Work { name: "lstm",         about: "64 to 128 wide, 32 steps, batch 16: likewise", prepare: recurrent::lstm, gpu: false },
    Work { name: "gru",          about: "likewise", prepare: recurrent::gru, gpu: false },
    Work { name: "embedding",    about: "64x32 look-ups in a table of 50,000x128: likewise", prepare: embedding::step, gpu: false },
    Work { name: "vocabulary",   about: "256 states 128 wide, 32,000 words, cross entropy: likewise", prepare: vocabulary::step, gpu: false },
    Work { name: "parameters",   about: "200 matrices of 64x64: one Adam step, its loss read", prepare: parameters::step, gpu: false },
    Work { name: "lora",         about: "four layers 512 wide with products of rank 8, batch 128: likewise", prepare: lora::step, gpu: false },
    Work { name: "kmeans",       about: "a step of Lloyd's algorithm, 10,000 points in 16 dimensions, 64 centers", prepare: kmeans::step, gpu: false },
    Work { name: "stencil",      about: "ten steps of the heat equation on 1024x1024 floats", prepare: stencil::step, gpu: false },
    Work { name: "gpt_one",      about: "GPT-2 of 4 layers, width 256, 8 heads, 256 words, 1 row of 64 tokens: one AdamW step, its loss read", prepare: large::gpt_one, gpu: true },
    Work { name: "gpt_124m",     about: "GPT-2, 124 million parameters, 8 rows of 1,024 tokens, bf16: one AdamW step, its loss read", prepare: large::gpt_124m, gpu: true },
    Work { name: "stream_64m",   about: "x = max(0.999x + 0.001, 0.5x) over 2^26 floats that stay, one of them read", prepare: large::stream, gpu: true },
];

dims! { Batch }

/// Two layers with a `relu` between them.
#[derive(Module)]
struct Mlp<I: Dim, H: Dim> {
    fc1: Linear<I, H>,
    fc2: Linear<H, N<10>>,
}

fn mlp<const I: usize, const H: usize, const BATCH: usize>() -> Step {
    let net: Mlp<N<I>, N<H>> = Mlp::new();
    let parameters = net.parameters();
    trained(parameters, BATCH, move |x: &Tensor<(Batch, N<I>)>| {
        net.fc2.forward(&net.fc1.forward(x).relu())
    })
}

#[derive(Module)]
struct Wide {
    fc1: Linear<N<784>, N<1024>>,
    fc2: Linear<N<1024>, N<1024>>,
    fc3: Linear<N<1024>, N<10>>,
}

fn wide() -> Step {
    let net = Wide::new();
    let parameters = net.parameters();
    trained(parameters, 256, move |x: &T![Batch, 784]| {
        let hidden = net.fc1.forward(x).relu();
        net.fc3.forward(&net.fc2.forward(&hidden).relu())
    })
}

/// A step of training a network on vectors.
fn trained<const I: usize>(
    parameters: Vec<DynTensor>,
    batch: usize,
    forward: impl Fn(&Tensor<(Batch, N<I>)>) -> T![Batch, 10] + 'static,
) -> Step {
    let x: Tensor<(Batch, N<I>)> = Tensor::from_vec(floats(batch * I));
    classifying(parameters, batch, move || forward(&x))
}

dims! { Elements }

fn chain<const LOG_N: usize>() -> Step {
    let x: T![Elements] = Tensor::from_vec(floats(1 << LOG_N));
    Box::new(move || {
        ((&x * 1.5 + 0.25).tanh() * x.sigmoid() + &x).sum().item()?;
        Ok(())
    })
}

fn norm() -> Step {
    let x: T![4096, 1024] = Tensor::from_vec(floats(4096 * 1024));
    let (weight, bias): (T![1024], T![1024]) = (Tensor::ones(), Tensor::zeros());
    Box::new(move || {
        let y = x.layer_norm(&weight, &bias, 1e-5).gelu_tanh().softmax_last();
        // In this process a read waits for the result and copies nothing.
        y.as_dyn().to_host()?;
        Ok(())
    })
}

fn dispatch() -> Step {
    let start: T![4] = Tensor::zeros();
    Box::new(move || {
        let mut x = &start + 1.0;
        for _ in 1..2_000 {
            x = &x + 1.0;
        }
        x.to_vec::<f32>()?;
        Ok(())
    })
}

fn matmul() -> Step {
    let [a, b]: [T![1024, 1024]; 2] = [0, 1].map(|_| Tensor::from_vec(floats(1024 * 1024)));
    Box::new(move || {
        a.matmul(&b).as_dyn().to_host()?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_plain() {
        for (i, work) in WORKS.iter().enumerate() {
            assert!(WORKS[..i].iter().all(|other| other.name != work.name));
            assert!(!work.name.contains(['.', '/', '-']), "{} could be a file", work.name);
        }
    }
}
