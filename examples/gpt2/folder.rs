//! A checkpoint's folder in Hugging Face's layout: `config.json` with `model.safetensors`, or with
//! the parts of that file and their index.
//!
//! Files are mapped, so tensors that are never used are never loaded.

use anyhow::{Context as _, Result, ensure};
use gt::io::safetensors;
use gt::ir::HostTensor;
use gt::prelude::*;
use serde_json::Value;
use std::path::Path;

/// What `parse` makes of the folder's `config.json`, which describes a model of this kind.
pub fn config<T>(folder: &Path, kind: &str, parse: fn(&Value) -> Result<T>) -> Result<T> {
    let file = &folder.join("config.json");
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let json: Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))?;
    parse(&json).with_context(|| format!("{} does not describe a {kind}", file.display()))
}

/// A size in a configuration; 0 is none.
pub fn size(json: &Value, name: &str) -> Result<usize> {
    let found = json.get(name).and_then(Value::as_u64).filter(|&size| size > 0);
    found.map(|size| size as usize).with_context(|| format!("the size `{name}` is missing"))
}

/// The tensors by name.
pub fn state(folder: &Path) -> Result<StateDict> {
    let index = folder.join("model.safetensors.index.json");
    Ok(match index.exists() {
        true => safetensors::map_sharded(index)?,
        false => safetensors::map(folder.join("model.safetensors"))?,
    })
}

/// A tensor that was looked for by this name, as `f32`, checked to have these sizes.
pub fn tensor(found: Option<&HostTensor>, name: &str, sizes: &[usize]) -> Result<DynTensor> {
    let found = found.with_context(|| format!("the checkpoint has no tensor `{name}`"))?;
    let shape = found.ty().shape;
    ensure!(
        shape.sizes() == sizes,
        "`{name}` is of sizes {:?}, where config.json asks for {sizes:?}",
        shape.sizes()
    );
    Ok(DynTensor::from_host(found.clone()).to_dtype(DType::F32))
}
