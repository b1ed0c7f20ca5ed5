//! Works for GPUs only: too large for a processor, or so small that they measure launches.
//!
//! They are measured by name, and by the bundle that tests GPUs. The transformer is GPT-2 in any
//! size: one projection makes query, key and value, and the table of words is also the last
//! projection.

use super::step::{Step, integers};
use gt_lang::functional::cross_entropy;
use gt_lang::prelude::*;

#[derive(Module)]
struct Block<W: StaticDim, F: StaticDim, const HEADS: usize> {
    norm1: LayerNorm<W>,
    #[module(init = MultiheadAttention::with_heads(HEADS))]
    attention: MultiheadAttention<W>,
    norm2: LayerNorm<W>,
    up: Linear<W, F>,
    down: Linear<F, W>,
}

impl<W: StaticDim, F: StaticDim, const HEADS: usize> Block<W, F, HEADS> {
    fn forward<B: Dim, T: Dim>(&self, x: &Tensor<(B, T, W)>) -> Tensor<(B, T, W)> {
        let causal = AttentionMask { causal: true, ..Default::default() };
        let x = x + self.attention.forward(&self.norm1.forward(x), causal);
        let wide = self.up.forward(&self.norm2.forward(&x)).gelu();
        &x + self.down.forward(&wide)
    }
}

#[derive(Module)]
struct Gpt<
    V: StaticDim,
    T: StaticDim,
    W: StaticDim,
    F: StaticDim,
    const HEADS: usize,
    const LAYERS: usize,
> {
    words: Embedding<V, W>,
    positions: Embedding<T, W>,
    #[module(init = repeat(LAYERS))]
    blocks: Vec<Block<W, F, HEADS>>,
    norm: LayerNorm<W>,
}

impl<V, T, W, F, const HEADS: usize, const LAYERS: usize> Gpt<V, T, W, F, HEADS, LAYERS>
where
    V: StaticDim,
    T: StaticDim,
    W: StaticDim,
    F: StaticDim,
{
    /// The scores of the next word, after each word.
    fn forward<B: Dim>(&self, words: &Tensor<(B, T), Int>) -> DynTensor {
        let x = self.words.forward(words).as_dyn() + self.positions.weight.as_dyn();
        let x = Tensor::<(B, T, W)>::from_dyn(x);
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        self.norm.forward(&x).as_dyn().matmul(&self.words.weight.as_dyn().t())
    }
}

dims! { Batch }

/// A step of AdamW with products in a dtype, and a read of its loss.
fn trained<V, T, W, F, const HEADS: usize, const LAYERS: usize>(batch: usize, dtype: DType) -> Step
where
    V: StaticDim,
    T: StaticDim,
    W: StaticDim,
    F: StaticDim,
{
    let net = Gpt::<V, T, W, F, HEADS, LAYERS>::new();
    let mut optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
    let said = integers(batch * T::SIZE + 1, V::SIZE as i64);
    let words: Tensor<(Batch, T), Int> = Tensor::from_vec(said[..batch * T::SIZE].to_vec());
    let next: Tensor<(Batch, T), Int> = Tensor::from_vec(said[1..].to_vec());
    let forward = move || cross_entropy(&net.forward(&words), next.as_dyn());
    Box::new(move || {
        let loss = match dtype {
            DType::F32 => forward(),
            narrow => autocast(narrow, &forward),
        };
        optimizer.zero_grad();
        loss.backward()?;
        optimizer.step()?;
        loss.item()?;
        Ok(())
    })
}

/// One row of 64 tokens, which measures launches.
pub(super) fn gpt_one() -> Step {
    trained::<N<256>, N<64>, N<256>, N<1024>, 8, 4>(1, DType::F32)
}

/// GPT-2 with its 124 million parameters.
pub(super) fn gpt_124m() -> Step {
    trained::<N<50_257>, N<1024>, N<768>, N<3072>, 12, 12>(8, DType::Bf16)
}

/// Reads and writes all of a large tensor, and nothing else.
pub(super) fn stream() -> Step {
    let mut x = DynTensor::rand([1 << 26], DType::F32);
    Box::new(move || {
        x = (&x * 0.999 + 0.001).maximum(&(&x * 0.5));
        x.narrow(0, 0, 1).item()?;
        Ok(())
    })
}
