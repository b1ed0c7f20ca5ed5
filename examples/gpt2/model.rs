//! GPT-2 (Radford et al. 2019) for inference: the model, made of a checkpoint's tensors, and its
//! cache of keys and values.
//!
//! The sizes come from the checkpoint, so the dimensions here have names and no static sizes.

use super::checkpoint::{Checkpoint, Config};
use anyhow::{Result, ensure};
use gt::functional::{Attention, scaled_dot_product_attention_with};
use gt::prelude::*;

dims! { Vocabulary, Context, Width, Triple, Wide, Length }

/// A vector for each token.
type Hidden = T![Length, Width];

/// `x w + b` with a weight of `[inputs, outputs]`, which Hugging Face calls `Conv1D`.
struct Projection<I: Dim, O: Dim> {
    weight: T![I, O],
    bias: T![O],
}

impl<I: Dim, O: Dim> Projection<I, O> {
    fn load(from: &Checkpoint, name: &str, sizes: [usize; 2]) -> Result<Self> {
        Ok(Projection {
            weight: Tensor::from_dyn(from.tensor(&format!("{name}.weight"), &sizes)?),
            bias: Tensor::from_dyn(from.tensor(&format!("{name}.bias"), &sizes[1..])?),
        })
    }

    fn forward(&self, x: &T![Length, I]) -> T![Length, O] {
        Tensor::from_dyn(x.as_dyn().matmul(self.weight.as_dyn()) + self.bias.as_dyn())
    }
}

struct Norm {
    weight: T![Width],
    bias: T![Width],
    eps: f64,
}

impl Norm {
    fn load(from: &Checkpoint, name: &str) -> Result<Norm> {
        let part = |part| from.tensor(&format!("{name}.{part}"), &[from.config.width]);
        Ok(Norm {
            weight: Tensor::from_dyn(part("weight")?),
            bias: Tensor::from_dyn(part("bias")?),
            eps: from.config.eps,
        })
    }

    fn forward(&self, x: &Hidden) -> Hidden {
        x.layer_norm(&self.weight, &self.bias, self.eps)
    }
}

/// Attention, then a multilayer perceptron, each of the normalized input and added to the input.
struct Block {
    norm1: Norm,
    qkv: Projection<Width, Triple>,
    out: Projection<Width, Width>,
    norm2: Norm,
    up: Projection<Width, Wide>,
    down: Projection<Wide, Width>,
    heads: usize,
}

impl Block {
    fn load(from: &Checkpoint, at: usize) -> Result<Block> {
        let (name, width) = (|part| format!("h.{at}.{part}"), from.config.width);
        Ok(Block {
            norm1: Norm::load(from, &name("ln_1"))?,
            qkv: Projection::load(from, &name("attn.c_attn"), [width, 3 * width])?,
            out: Projection::load(from, &name("attn.c_proj"), [width, width])?,
            norm2: Norm::load(from, &name("ln_2"))?,
            up: Projection::load(from, &name("mlp.c_fc"), [width, from.config.wide])?,
            down: Projection::load(from, &name("mlp.c_proj"), [from.config.wide, width])?,
            heads: from.config.heads,
        })
    }

    fn forward(&self, x: &Hidden, kept: Option<(&mut Kept, &Places)>) -> Hidden {
        let x = x + self.attention(&self.norm1.forward(x), kept);
        &x + self.down.forward(&self.up.forward(&self.norm2.forward(&x)).gelu_tanh())
    }

    fn attention(&self, x: &Hidden, kept: Option<(&mut Kept, &Places)>) -> Hidden {
        let (length, width) = (x.sizes()[0], x.sizes()[1]);
        let apart = [length, 3, self.heads, width / self.heads];
        let qkv = self.qkv.forward(x).as_dyn().reshape(apart).permute([1, 2, 0, 3]);
        let [q, k, v] = [0, 1, 2].map(|part| qkv.narrow(0, part, 1));
        let mixed = match kept {
            Some((kept, places)) => {
                let (keys, values) = kept.put(places, &k, &v);
                let seen = Attention { mask: Some(&places.seen), ..Attention::default() };
                scaled_dot_product_attention_with(&q, keys, values, seen)
            }
            None => {
                let causal = Attention { causal: true, ..Attention::default() };
                scaled_dot_product_attention_with(&q, &k, &v, causal)
            }
        };
        let joined = mixed.permute([0, 2, 1, 3]).reshape([length, width]);
        self.out.forward(&Tensor::from_dyn(joined))
    }
}

/// Keys and values of a block, `[1, heads, context, width of a head]`. Positions not reached yet
/// hold zeros.
struct Kept {
    keys: DynTensor,
    values: DynTensor,
}

impl Kept {
    fn put(&mut self, places: &Places, k: &DynTensor, v: &DynTensor) -> (&DynTensor, &DynTensor) {
        self.keys = self.keys.index_copy(2, &places.at, k);
        self.values = self.values.index_copy(2, &places.at, v);
        (&self.keys, &self.values)
    }
}

/// The positions of tokens, and the attention mask of each. Both are data, so a step is the same
/// program at every position, which is compiled once.
struct Places {
    at: DynTensor,
    seen: DynTensor,
}

impl Places {
    fn new(start: usize, length: usize, context: usize) -> Places {
        let at: Vec<i64> = (start..start + length).map(|at| at as i64).collect();
        let at = DynTensor::from_vec(at, [length]);
        let all = DynTensor::arange(0, context as i64, 1, DType::I64);
        Places { seen: all.le(&at.unsqueeze(-1)), at }
    }
}

/// The keys and values of the tokens that the model has read.
pub struct Cache {
    kept: Vec<Kept>,
    length: usize,
}

/// The whole model.
pub struct Gpt2 {
    tokens: T![Vocabulary, Width],
    positions: T![Context, Width],
    blocks: Vec<Block>,
    norm: Norm,
    /// The output layer, if it does not share the weights of `tokens`.
    head: Option<T![Vocabulary, Width]>,
    config: Config,
}

impl Gpt2 {
    pub fn load(from: &Checkpoint) -> Result<Gpt2> {
        let config = from.config;
        let words = [config.vocabulary, config.width];
        let head = from.has("lm_head.weight").then(|| from.tensor("lm_head.weight", &words));
        Ok(Gpt2 {
            tokens: Tensor::from_dyn(from.tensor("wte.weight", &words)?),
            positions: Tensor::from_dyn(
                from.tensor("wpe.weight", &[config.context, config.width])?,
            ),
            blocks: (0..config.layers).map(|at| Block::load(from, at)).collect::<Result<_>>()?,
            norm: Norm::load(from, "ln_f")?,
            head: head.transpose()?.map(Tensor::from_dyn),
            config,
        })
    }

    /// An empty cache.
    pub fn cache(&self) -> Cache {
        let Config { heads, context, width, .. } = self.config;
        let nothing = || DynTensor::zeros([1, heads, context, width / heads], DType::F32);
        let kept = self.blocks.iter().map(|_| Kept { keys: nothing(), values: nothing() });
        Cache { kept: kept.collect(), length: 0 }
    }

    /// The scores of the token after `tokens`. With a cache, `tokens` continue the tokens in the
    /// cache.
    ///
    /// # Errors
    /// `tokens` is empty, or the tokens exceed the context of the model.
    pub fn scores(&self, tokens: &[i64], cache: Option<&mut Cache>) -> Result<T![Vocabulary]> {
        let (start, context) = (cache.as_ref().map_or(0, |c| c.length), self.config.context);
        ensure!(!tokens.is_empty(), "there is no token to continue\nhint: give a prompt");
        ensure!(start + tokens.len() <= context, "the model takes at most {context} tokens");
        Ok(no_grad(|| self.recorded(tokens, start, cache)))
    }

    fn recorded(&self, tokens: &[i64], start: usize, cache: Option<&mut Cache>) -> T![Vocabulary] {
        let places = Places::new(start, tokens.len(), self.config.context);
        let tokens: T![Length; Int] = Tensor::from_vec(tokens.to_vec());
        let at: T![Length; Int] = Tensor::from_dyn(places.at.clone());
        let mut x: Hidden = self.tokens.embedding(&tokens) + self.positions.embedding(&at);
        match cache {
            Some(cache) => {
                for (block, kept) in self.blocks.iter().zip(&mut cache.kept) {
                    x = block.forward(&x, Some((kept, &places)));
                }
                cache.length += tokens.numel();
            }
            None => x = self.blocks.iter().fold(x, |x, block| block.forward(&x, None)),
        }
        let last: T![Width] = self.norm.forward(&x).select::<0>(-1);
        last.matmul(&self.head.as_ref().unwrap_or(&self.tokens).t())
    }
}
