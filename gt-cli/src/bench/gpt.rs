//! The work `gpt`: a small transformer in its simplest form, and a step of its training with AdamW.
//!
//! Pre-norm blocks, learned positions, causal attention spelled out with a mask and a softmax,
//! `gelu` in a perceptron four times as wide. Widths, heads and the context are static; the batch
//! is a named dimension.

use super::step::{Step, integers, learning};
use gt_lang::prelude::*;

const BATCH: usize = 8;
pub(super) const TOKENS: usize = 128;
pub(super) const WIDTH: usize = 256;
pub(super) const HEADS: usize = 8;
pub(super) const HEAD: usize = WIDTH / HEADS;
const LAYERS: usize = 4;
const WORDS: i64 = 256;

dims! { Batch }

type Hidden = T![Batch, { TOKENS }, { WIDTH }];
type Heads = T![Batch, { HEADS }, { TOKENS }, { HEAD }];
type Mask = T![{ TOKENS }, { TOKENS }; Bool];
type Square = Linear<N<WIDTH>, N<WIDTH>>;

#[derive(Module)]
pub(super) struct Block {
    pub(super) norm1: LayerNorm<N<WIDTH>>,
    pub(super) query: Square,
    pub(super) key: Square,
    pub(super) value: Square,
    pub(super) out: Square,
    pub(super) norm2: LayerNorm<N<WIDTH>>,
    pub(super) up: Linear<N<WIDTH>, N<{ 4 * WIDTH }>>,
    pub(super) down: Linear<N<{ 4 * WIDTH }>, N<WIDTH>>,
}

impl Block {
    fn forward(&self, x: &Hidden, mask: &Mask) -> Hidden {
        let x = x + self.attention(&self.norm1.forward(x), mask);
        let wide = self.up.forward(&self.norm2.forward(&x)).gelu();
        &x + self.down.forward(&wide)
    }

    fn attention(&self, x: &Hidden, mask: &Mask) -> Hidden {
        let [q, k, v] = [&self.query, &self.key, &self.value].map(|part| heads(&part.forward(x)));
        let scores = q.matmul(&k.t()) * (1.0 / (HEAD as f64).sqrt());
        let weights = scores.masked_fill(mask, f64::NEG_INFINITY).softmax_last();
        let mixed: T![Batch, { TOKENS }, { HEADS }, { HEAD }] =
            weights.matmul(&v).transpose::<1, 2>();
        self.out.forward(&mixed.reshape::<shape![Batch, { TOKENS }, { WIDTH }]>())
    }
}

fn heads(x: &Hidden) -> Heads {
    let apart: T![Batch, { TOKENS }, { HEADS }, { HEAD }] = x.reshape();
    apart.transpose::<1, 2>()
}

#[derive(Module)]
pub(super) struct Gpt {
    pub(super) words: Embedding<N<{ WORDS as usize }>, N<WIDTH>>,
    pub(super) positions: Embedding<N<TOKENS>, N<WIDTH>>,
    #[module(init = repeat(LAYERS))]
    pub(super) blocks: Vec<Block>,
    pub(super) norm: LayerNorm<N<WIDTH>>,
    pub(super) head: Linear<N<WIDTH>, N<{ WORDS as usize }>>,
}

impl Gpt {
    fn forward(
        &self,
        words: &T![Batch, { TOKENS }; Int],
        mask: &Mask,
    ) -> T![Batch, { TOKENS }, { WORDS as usize }] {
        let x = self.words.forward(words) + &self.positions.weight;
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x, mask));
        self.head.forward(&self.norm.forward(&x))
    }
}

/// A model, a batch, and a step that learns to predict the next word.
pub(super) fn step() -> Step {
    let net = Gpt::new();
    let optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
    let said = integers(BATCH * TOKENS + 1, WORDS);
    let words: T![Batch, { TOKENS }; Int] = Tensor::from_vec(said[..BATCH * TOKENS].to_vec());
    let next: T![Batch, { TOKENS }; Int] = Tensor::from_vec(said[1..].to_vec());
    let mask = later_tokens();
    learning(optimizer, move || net.forward(&words, &mask).cross_entropy(&next).into_dyn())
}

/// True where a token (the row) must not attend to a later token (the column).
fn later_tokens() -> Mask {
    let later = (0..TOKENS).flat_map(|row| (0..TOKENS).map(move |column| column > row));
    Tensor::from_vec(later.collect::<Vec<bool>>())
}
