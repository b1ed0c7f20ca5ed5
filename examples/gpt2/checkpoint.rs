//! The sizes and the tensors of a GPT-2 in Hugging Face's layout. Tensors of 16-bit floats become
//! `f32`.

use super::folder;
use anyhow::{Result, ensure};
use gt::io::safetensors;
use gt::ir::HostTensor;
use gt::prelude::*;
use serde_json::{Value, json};
use std::path::Path;

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    pub vocabulary: usize,
    pub context: usize,
    pub width: usize,
    pub wide: usize,
    pub heads: usize,
    pub layers: usize,
    pub eps: f64,
}

impl Config {
    fn parse(json: &Value) -> Result<Config> {
        let size = |name: &str| folder::size(json, name);
        let activation = json.get("activation_function").and_then(Value::as_str);
        let activation = activation.unwrap_or("gelu_new");
        ensure!(activation == "gelu_new", "the activation is `{activation}`, not `gelu_new`");
        let (width, heads) = (size("n_embd")?, size("n_head")?);
        ensure!(
            width.is_multiple_of(heads),
            "a width of {width} does not divide into {heads} heads"
        );
        Ok(Config {
            vocabulary: size("vocab_size")?,
            context: size("n_positions")?,
            wide: size("n_inner").unwrap_or(4 * width),
            layers: size("n_layer")?,
            eps: json.get("layer_norm_epsilon").and_then(Value::as_f64).unwrap_or(1e-5),
            width,
            heads,
        })
    }

    fn json(&self) -> Value {
        json!({
            "model_type": "gpt2", "vocab_size": self.vocabulary, "n_positions": self.context,
            "n_embd": self.width, "n_inner": self.wide,
            "n_head": self.heads, "n_layer": self.layers,
            "layer_norm_epsilon": self.eps, "activation_function": "gelu_new",
        })
    }
}

/// A configuration, and the tensors by name.
pub struct Checkpoint {
    pub config: Config,
    state: StateDict,
}

impl Checkpoint {
    pub fn load(folder: &Path) -> Result<Checkpoint> {
        let config = folder::config(folder, "GPT-2", Config::parse)?;
        Ok(Checkpoint { config, state: folder::state(folder)? })
    }

    /// Finds a tensor. Names have a prefix in files of the model with its head, and none in others.
    fn find(&self, name: &str) -> Option<&HostTensor> {
        self.state.get(name).or_else(|| self.state.get(&format!("transformer.{name}")))
    }

    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The tensor of this name, checked to have these sizes.
    pub fn tensor(&self, name: &str, sizes: &[usize]) -> Result<DynTensor> {
        folder::tensor(self.find(name), name, sizes)
    }
}

/// Writes a small, untrained model with random weights in the same layout.
pub fn write_random(folder: &Path) -> Result<()> {
    let config = Config {
        vocabulary: 256,
        context: 64,
        width: 48,
        wide: 192,
        heads: 4,
        layers: 3,
        eps: 1e-5,
    };
    let mut state = StateDict::new();
    let mut add = |name: String, sizes: &[usize], gain: f64| -> Result<()> {
        let values = DynTensor::randn(sizes, DType::F32) * 0.2 + gain;
        state.insert(name, values.to_host()?);
        Ok(())
    };
    let Config { vocabulary, context, width, wide, layers, .. } = config;
    add("wte.weight".into(), &[vocabulary, width], 0.0)?;
    add("wpe.weight".into(), &[context, width], 0.0)?;
    for at in 0..layers {
        for (part, sizes) in [
            ("attn.c_attn", [width, 3 * width]),
            ("attn.c_proj", [width, width]),
            ("mlp.c_fc", [width, wide]),
            ("mlp.c_proj", [wide, width]),
        ] {
            add(format!("h.{at}.{part}.weight"), &sizes, 0.0)?;
            add(format!("h.{at}.{part}.bias"), &sizes[1..], 0.0)?;
        }
        for norm in ["ln_1", "ln_2"] {
            add(format!("h.{at}.{norm}.weight"), &[width], 1.0)?;
            add(format!("h.{at}.{norm}.bias"), &[width], 0.0)?;
        }
    }
    add("ln_f.weight".into(), &[width], 1.0)?;
    add("ln_f.bias".into(), &[width], 0.0)?;
    safetensors::save(folder.join("model.safetensors"), &state)?;
    std::fs::write(folder.join("config.json"), config.json().to_string())?;
    Ok(())
}
