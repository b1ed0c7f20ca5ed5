//! Sampling: draws each next byte from the distribution of the model.

use super::model::{CONTEXT, Gpt, Tokens, VOCABULARY};
use super::text::Places;
use anyhow::Result;
use gt::prelude::*;

/// Continues `start` by `n` bytes. Lower temperatures favor the likelier bytes.
pub fn sample(net: &Gpt, start: &[u8], n: usize, temperature: f64, seed: u64) -> Result<Vec<u8>> {
    let (mut text, mut dice) = (start.to_vec(), Places(seed));
    for _ in 0..n {
        let seen = &text[text.len().saturating_sub(CONTEXT)..];
        let scores = scores_after(net, seen)?;
        text.push(draw(&scores, temperature, dice.unit()));
    }
    Ok(text)
}

/// The scores of the byte after these. The window is filled up with zeros, which the causal model
/// does not see.
fn scores_after(net: &Gpt, seen: &[u8]) -> Result<Vec<f32>> {
    let mut window = vec![0; CONTEXT];
    window.iter_mut().zip(seen).for_each(|(to, byte)| *to = i64::from(*byte));
    let window: Tokens = Tensor::from_vec(window);
    let scores = no_grad(|| net.forward(&window).to_vec::<f32>())?;
    let last = seen.len().max(1) - 1;
    Ok(scores[last * VOCABULARY..(last + 1) * VOCABULARY].to_vec())
}

/// The byte at the quantile `at` in [0, 1) of the distribution.
fn draw(scores: &[f32], temperature: f64, at: f64) -> u8 {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> =
        scores.iter().map(|s| (f64::from(s - most) / temperature).exp()).collect();
    let mut left = at * weights.iter().sum::<f64>();
    let found = weights.iter().position(|w| {
        left -= w;
        left < 0.0
    });
    found.unwrap_or(weights.len() - 1) as u8
}
