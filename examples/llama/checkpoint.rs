//! The sizes and the tensors of a LLaMA in Hugging Face's layout. Tensors of 16-bit floats become
//! `f32`.

use super::folder;
use anyhow::{Context as _, Result, ensure};
use gt::prelude::*;
use serde_json::Value;
use std::path::Path;

/// The sizes of a model.
#[derive(Clone, Debug)]
pub struct Config {
    pub vocabulary: usize,
    pub width: usize,
    pub wide: usize,
    pub layers: usize,
    pub heads: usize,
    /// Heads of keys and values, each shared by some heads of queries.
    pub key_heads: usize,
    pub head_width: usize,
    pub context: usize,
    pub eps: f64,
    /// How fast pairs of elements turn with the position, in radians.
    pub frequencies: Vec<f32>,
    /// Whether the output layer is the embedding.
    pub tied: bool,
}

impl Config {
    fn parse(json: &Value) -> Result<Config> {
        let size = |name: &str| folder::size(json, name);
        let activation = json.get("hidden_act").and_then(Value::as_str).unwrap_or("silu");
        ensure!(activation == "silu", "the activation is `{activation}`, not `silu`");
        for bias in ["attention_bias", "mlp_bias"] {
            let has_bias = json.get(bias).and_then(Value::as_bool).unwrap_or(false);
            ensure!(!has_bias, "`{bias}` is true, but layers have no bias here");
        }
        let (width, heads) = (size("hidden_size")?, size("num_attention_heads")?);
        let key_heads = size("num_key_value_heads").unwrap_or(heads);
        let head_width = size("head_dim").unwrap_or(width / heads);
        ensure!(
            heads.is_multiple_of(key_heads) && head_width.is_multiple_of(2),
            "{heads} heads of width {head_width} do not share {key_heads} keys"
        );
        Ok(Config {
            vocabulary: size("vocab_size")?,
            wide: size("intermediate_size")?,
            layers: size("num_hidden_layers")?,
            context: size("max_position_embeddings")?,
            eps: json.get("rms_norm_eps").and_then(Value::as_f64).unwrap_or(1e-6),
            frequencies: frequencies(json, head_width)?,
            tied: json.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false),
            width,
            heads,
            key_heads,
            head_width,
        })
    }
}

/// The frequencies of rotary embeddings (Su et al. 2021). Scaling of type `llama3` slows down those
/// that turn less than `high_freq_factor` times in the context that the model was first trained on,
/// and those that turn less than `low_freq_factor` times by the whole factor. `rope_parameters` is
/// the spelling of transformers 5.
fn frequencies(json: &Value, head_width: usize) -> Result<Vec<f32>> {
    let found = |name: &str| json.get(name).filter(|value| !value.is_null());
    let scaling = found("rope_scaling").or_else(|| found("rope_parameters"));
    let base = found("rope_theta").or_else(|| scaling?.get("rope_theta"));
    let base = base.and_then(Value::as_f64).unwrap_or(10_000.0);
    let of = |i: usize| base.powf(-2.0 * i as f64 / head_width as f64);
    let all = (0..head_width / 2).map(of);
    let kind = |scaling: &Value| scaling.get("rope_type").or_else(|| scaling.get("type")).cloned();
    let Some(scaling) = scaling.filter(|s| kind(s).is_none_or(|kind| kind != "default")) else {
        return Ok(all.map(|f| f as f32).collect());
    };
    let is_known = kind(scaling).is_some_and(|kind| kind == "llama3");
    ensure!(is_known, "rotary embeddings are scaled by {scaling}, not by type `llama3`");
    let number = |name: &str| {
        let number = scaling.get(name).and_then(Value::as_f64);
        number.with_context(|| format!("the scaling of rotary embeddings has no `{name}`"))
    };
    let (factor, context) = (number("factor")?, number("original_max_position_embeddings")?);
    let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
    let scaled = |f: f64| {
        let turns = context * f / std::f64::consts::TAU;
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        f * (kept + (1.0 - kept) / factor)
    };
    Ok(all.map(|f| scaled(f) as f32).collect())
}

/// A configuration, and the tensors by name.
pub struct Checkpoint {
    pub config: Config,
    state: StateDict,
}

impl Checkpoint {
    pub fn load(folder: &Path) -> Result<Checkpoint> {
        let config = folder::config(folder, "LLaMA", Config::parse)?;
        Ok(Checkpoint { config, state: folder::state(folder)? })
    }

    /// The tensor of this name as `f32`, checked to have these sizes.
    pub fn tensor(&self, name: &str, sizes: &[usize]) -> Result<DynTensor> {
        folder::tensor(self.state.get(name), name, sizes)
    }
}
