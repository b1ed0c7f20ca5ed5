//! Continues a text token by token.

use super::model::{Cache, Gpt2};
use super::sampler::Sampler;
use anyhow::Result;

/// Continues `text` by `n` tokens, and calls `each` with every token and its scores. With a cache
/// the model reads only the new token, without one the whole text for every token.
pub fn write(
    model: &Gpt2,
    mut text: Vec<i64>,
    n: usize,
    mut cache: Option<&mut Cache>,
    sampler: &mut Sampler,
    mut each: impl FnMut(i64, &[f32]) -> Result<()>,
) -> Result<()> {
    let mut known = 0;
    for _ in 0..n {
        let scores = model.scores(&text[known..], cache.as_deref_mut())?.to_vec::<f32>()?;
        known = if cache.is_some() { text.len() } else { 0 };
        let token = sampler.choose(&scores);
        each(token, &scores)?;
        text.push(token);
    }
    Ok(())
}

/// The largest distance between two lists of scores.
pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
