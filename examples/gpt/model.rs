//! The model: GPT-2's architecture at the size of a small text.
//!
//! Its scopes are what a YAML file spreads over workers: `batch`, the stages `first` and `second`,
//! and `columns`, the matrices whose columns can be cut. Without a configuration they do nothing.

use gt::functional::Attention;
use gt::prelude::*;
use gt::signal;

/// Tokens are bytes.
pub const VOCABULARY: usize = 256;
/// The number of tokens that the model sees.
pub const CONTEXT: usize = 64;
const WIDTH: usize = 128;
const HEADS: usize = 4;
const HEAD: usize = WIDTH / HEADS;
const LAYERS: usize = 4;

dims! { Batch }

/// The bytes of passages, one row for each passage.
pub type Tokens = T![Batch, { CONTEXT }; Int];
type Hidden = T![Batch, { CONTEXT }, { WIDTH }];
type Wide = N<{ 4 * WIDTH }>;

/// Attention, then a multilayer perceptron, each of the normalized input and added to the input.
#[derive(Module)]
struct Block {
    norm1: LayerNorm<N<WIDTH>>,
    #[module(init = linear(0.02))]
    #[signal("columns")]
    query: Linear<N<WIDTH>, N<WIDTH>>,
    #[module(init = linear(0.02))]
    #[signal("columns")]
    key: Linear<N<WIDTH>, N<WIDTH>>,
    #[module(init = linear(0.02))]
    #[signal("columns")]
    value: Linear<N<WIDTH>, N<WIDTH>>,
    #[module(init = linear(residual()))]
    out: Linear<N<WIDTH>, N<WIDTH>>,
    norm2: LayerNorm<N<WIDTH>>,
    #[module(init = linear(0.02))]
    #[signal("columns")]
    up: Linear<N<WIDTH>, Wide>,
    #[module(init = linear(residual()))]
    down: Linear<Wide, N<WIDTH>>,
}

/// A layer with GPT-2's initialization (Radford et al. 2019): normal weights, and a bias of 0.
fn linear<I: StaticDim, O: StaticDim>(deviation: f64) -> Linear<I, O> {
    Linear::from_tensors(Tensor::randn() * deviation, Some(Tensor::zeros()))
}

/// The deviation of weights whose results are summed over the layers.
fn residual() -> f64 {
    0.02 / (2.0 * LAYERS as f64).sqrt()
}

impl Block {
    fn forward(&self, x: &Hidden) -> Hidden {
        let x = x + self.attention(&self.norm1.forward(x));
        let wide = self.up(&self.norm2.forward(&x)).gelu_tanh();
        &x + self.down.forward(&wide)
    }

    /// Causal self-attention: each token attends to itself and the tokens before it.
    fn attention(&self, x: &Hidden) -> Hidden {
        let [q, k, v] = [self.query(x), self.key(x), self.value(x)].map(|part| {
            let heads: T![Batch, { CONTEXT }, { HEADS }, { HEAD }] = part.reshape();
            heads.transpose::<1, 2>()
        });
        let causal = Attention { causal: true, ..Attention::default() };
        let mixed = q.scaled_dot_product_attention(&k, &v, causal).transpose::<1, 2>();
        self.out.forward(&mixed.reshape::<shape![Batch, { CONTEXT }, { WIDTH }]>())
    }
}

/// The whole model.
#[derive(Module)]
pub struct Gpt {
    #[module(init = embedding())]
    tokens: Embedding<N<VOCABULARY>, N<WIDTH>>,
    #[module(init = embedding())]
    positions: Embedding<N<CONTEXT>, N<WIDTH>>,
    #[module(init = repeat(LAYERS))]
    blocks: Vec<Block>,
    norm: LayerNorm<N<WIDTH>>,
}

fn embedding<V: StaticDim>() -> Embedding<V, N<WIDTH>> {
    Embedding::from_tensor(Tensor::randn() * 0.02)
}

impl Gpt {
    /// The scores of the next byte after each token. The last layer shares the weights of the
    /// embedding (Press and Wolf 2017).
    pub fn forward(&self, tokens: &Tokens) -> T![Batch, { CONTEXT }, { VOCABULARY }] {
        let _batch = signal::scope("batch");
        let x = self.tokens.forward(tokens) + &self.positions.weight;
        let x = self.blocks.iter().enumerate().fold(x, |x, (i, block)| {
            let _stage = signal::scope(if i < LAYERS / 2 { "first" } else { "second" });
            block.forward(&x)
        });
        let _stage = signal::scope("second");
        self.norm.forward(&x).matmul(&self.tokens.weight.t())
    }

    /// The mean cross entropy of the next bytes, in nats.
    pub fn loss(&self, tokens: &Tokens, next: &Tokens) -> T![] {
        let scores = self.forward(tokens);
        let _batch = signal::scope("batch");
        let _stage = signal::scope("second");
        scores.cross_entropy(next)
    }

    /// The parameters with weight decay, which are the matrices, and the others.
    pub fn groups(&self) -> [Vec<DynTensor>; 2] {
        let (matrices, others) = self.parameters().into_iter().partition(|p| p.rank() > 1);
        [matrices, others]
    }
}
