//! LLaMA (Touvron et al. 2023) for inference: the model, made of a checkpoint's tensors, and its
//! cache of keys and values. Sizes come from the checkpoint, so tensors have no types here.

use super::checkpoint::{Checkpoint, Config};
use anyhow::{Result, ensure};
use gt::functional::{Attention, rotary_embedding, scaled_dot_product_attention_with};
use gt::prelude::*;
use gt::quantized::{QuantizeConfig, Quantized};

/// The weight of a linear layer without bias.
enum Projection {
    Floats(DynTensor),
    Integers(Quantized),
}

impl Projection {
    /// A weight of `[outputs, inputs]`, as integers of so many bits if there is a number.
    fn new(weight: DynTensor, bits: Option<u8>) -> Result<Projection> {
        let Some(bits) = bits else { return Ok(Projection::Floats(weight)) };
        let how = QuantizeConfig { bits, ..Default::default() };
        Ok(Projection::Integers(Quantized::of(&weight, how)?))
    }

    fn forward(&self, x: &DynTensor) -> DynTensor {
        match self {
            Projection::Floats(weight) => x.matmul(&weight.t()),
            Projection::Integers(weight) => weight.linear(x),
        }
    }
}

/// Attention, then a gated multilayer perceptron, each of the normalized input and added to it.
struct Block {
    norm1: DynTensor,
    query: Projection,
    key: Projection,
    value: Projection,
    out: Projection,
    norm2: DynTensor,
    gate: Projection,
    up: Projection,
    down: Projection,
}

impl Block {
    fn load(from: &Checkpoint, at: usize, bits: Option<u8>) -> Result<Block> {
        let Config { width, wide, heads, key_heads, head_width, .. } = from.config;
        let name = |part: &str| format!("model.layers.{at}.{part}.weight");
        let norm = |part: &str| from.tensor(&name(part), &[width]);
        let projection = |part: &str, sizes: [usize; 2]| {
            Projection::new(from.tensor(&name(part), &sizes)?, bits)
        };
        let (queries, keys) = (heads * head_width, key_heads * head_width);
        Ok(Block {
            norm1: norm("input_layernorm")?,
            query: projection("self_attn.q_proj", [queries, width])?,
            key: projection("self_attn.k_proj", [keys, width])?,
            value: projection("self_attn.v_proj", [keys, width])?,
            out: projection("self_attn.o_proj", [width, queries])?,
            norm2: norm("post_attention_layernorm")?,
            gate: projection("mlp.gate_proj", [wide, width])?,
            up: projection("mlp.up_proj", [wide, width])?,
            down: projection("mlp.down_proj", [width, wide])?,
        })
    }

    fn forward(&self, x: &DynTensor, kept: &mut Kept, places: &Places, of: &Config) -> DynTensor {
        let x = x + self.attention(&x.rms_norm(&self.norm1, of.eps), kept, places, of);
        let y = x.rms_norm(&self.norm2, of.eps);
        &x + self.down.forward(&(self.gate.forward(&y).silu() * self.up.forward(&y)))
    }

    fn attention(&self, x: &DynTensor, kept: &mut Kept, places: &Places, of: &Config) -> DynTensor {
        let length = x.size(0);
        let apart = |x: DynTensor, heads: usize| {
            x.reshape([1, length, heads, of.head_width]).permute([0, 2, 1, 3])
        };
        let turned = |x: DynTensor| rotary_embedding(&x, &places.cos, &places.sin);
        let query = turned(apart(self.query.forward(x), of.heads));
        let key = turned(apart(self.key.forward(x), of.key_heads));
        let value = apart(self.value.forward(x), of.key_heads);
        kept.keys = kept.keys.index_copy(2, &places.at, &key);
        kept.values = kept.values.index_copy(2, &places.at, &value);
        let seen = Attention { mask: Some(&places.seen), ..Attention::default() };
        let mixed = scaled_dot_product_attention_with(&query, &kept.keys, &kept.values, seen);
        let joined = mixed.permute([0, 2, 1, 3]).reshape([length, of.heads * of.head_width]);
        self.out.forward(&joined)
    }
}

/// Keys and values of a block, `[1, heads, positions, width of a head]`. Positions not reached yet
/// hold zeros.
struct Kept {
    keys: DynTensor,
    values: DynTensor,
}

/// The positions of tokens, how far each is turned, and what it may attend to. All are data, so a
/// step is the same program at every position, which is compiled once.
struct Places {
    at: DynTensor,
    cos: DynTensor,
    sin: DynTensor,
    seen: DynTensor,
}

impl Places {
    fn new(start: usize, length: usize, cache: &Cache) -> Places {
        let at: Vec<i64> = (start..start + length).map(|at| at as i64).collect();
        let at = DynTensor::from_vec(at, [length]);
        let angles = at.to_dtype(DType::F32).unsqueeze(-1) * &cache.frequencies;
        let angles = DynTensor::cat([&angles, &angles], -1);
        let all = DynTensor::arange(0, cache.most as i64, 1, DType::I64);
        Places { seen: all.le(&at.unsqueeze(-1)), cos: angles.cos(), sin: angles.sin(), at }
    }
}

/// The keys and values of the tokens that the model has read.
pub struct Cache {
    kept: Vec<Kept>,
    frequencies: DynTensor,
    length: usize,
    /// The most tokens.
    most: usize,
}

/// The whole model.
pub struct Llama {
    tokens: DynTensor,
    blocks: Vec<Block>,
    norm: DynTensor,
    head: Projection,
    config: Config,
}

impl Llama {
    /// The model of a checkpoint. With `bits`, the weights of linear layers become integers of 8 or
    /// 4 bits.
    pub fn load(from: &Checkpoint, bits: Option<u8>) -> Result<Llama> {
        let config = from.config.clone();
        let words = [config.vocabulary, config.width];
        let tokens = from.tensor("model.embed_tokens.weight", &words)?;
        let head = match config.tied {
            true => tokens.clone(),
            false => from.tensor("lm_head.weight", &words)?,
        };
        Ok(Llama {
            blocks: (0..config.layers)
                .map(|at| Block::load(from, at, bits))
                .collect::<Result<_>>()?,
            norm: from.tensor("model.norm.weight", &[config.width])?,
            head: Projection::new(head, bits)?,
            tokens,
            config,
        })
    }

    /// An empty cache for so many tokens.
    ///
    /// # Errors
    /// They are more than the model takes.
    pub fn cache(&self, most: usize) -> Result<Cache> {
        let Config { key_heads, head_width, context, .. } = self.config;
        ensure!(most <= context, "the model takes at most {context} tokens, not {most}");
        let nothing = || DynTensor::zeros([1, key_heads, most, head_width], DType::F32);
        let kept = self.blocks.iter().map(|_| Kept { keys: nothing(), values: nothing() });
        let n = self.config.frequencies.len();
        let frequencies = DynTensor::from_vec(self.config.frequencies.clone(), [n]);
        Ok(Cache { kept: kept.collect(), frequencies, length: 0, most })
    }

    /// The scores of the token after `tokens`, which continue those in the cache.
    ///
    /// # Errors
    /// `tokens` is empty, or more than the cache takes.
    pub fn scores(&self, tokens: &[i64], cache: &mut Cache) -> Result<DynTensor> {
        let (start, most) = (cache.length, cache.most);
        ensure!(!tokens.is_empty(), "there is no token to continue\nhint: give a prompt");
        ensure!(start + tokens.len() <= most, "the cache takes at most {most} tokens");
        no_grad(|| {
            let places = Places::new(start, tokens.len(), cache);
            let ids = DynTensor::from_vec(tokens.to_vec(), [tokens.len()]);
            let mut x = self.tokens.embedding(&ids);
            for (block, kept) in self.blocks.iter().zip(&mut cache.kept) {
                x = block.forward(&x, kept, &places, &self.config);
            }
            cache.length += tokens.len();
            let last = x.narrow(0, -1, 1).rms_norm(&self.norm, self.config.eps);
            Ok(self.head.forward(&last).squeeze(0))
        })
    }
}
