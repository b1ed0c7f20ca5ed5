//! The text: its training and validation parts, and passages drawn from them.

use super::model::{CONTEXT, Tokens};
use anyhow::{Context as _, Result, ensure};
use gt::prelude::*;
use std::path::Path;

/// Ambrose Bierce's "The Devil's Dictionary" (1911), in the public domain.
const DICTIONARY: &[u8] = include_bytes!("../data/devils-dictionary.txt");

/// A text in two parts.
pub struct Text {
    pub training: Vec<u8>,
    pub validation: Vec<u8>,
}

impl Text {
    /// Loads the file, or the dictionary. The last tenth is the validation part.
    pub fn load(file: Option<&Path>) -> Result<Text> {
        let bytes = match file {
            Some(file) => {
                std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?
            }
            None => DICTIONARY.to_vec(),
        };
        let (training, validation) = bytes.split_at(bytes.len() / 10 * 9);
        ensure!(
            validation.len() > CONTEXT + 1,
            "a text of {} bytes is too short\nhint: at least {} are needed",
            bytes.len(),
            10 * (CONTEXT + 12)
        );
        Ok(Text { training: training.to_vec(), validation: validation.to_vec() })
    }
}

/// The passages that begin at these positions: the bytes, and the byte after each of them.
pub fn passages(text: &[u8], starts: &[usize]) -> (Tokens, Tokens) {
    let from = |shift: usize| {
        let bytes = starts.iter().flat_map(|s| &text[s + shift..s + shift + CONTEXT]);
        Tensor::from_vec(bytes.map(|b| i64::from(*b)).collect::<Vec<i64>>())
    };
    (from(0), from(1))
}

/// The positions of consecutive passages that do not overlap.
pub fn all_starts(text: &[u8]) -> Vec<usize> {
    (0..text.len() - CONTEXT).step_by(CONTEXT).collect()
}

/// A generator of positions, seeded: SplitMix64 (Steele, Lea and Flood 2014).
pub struct Places(pub u64);

impl Places {
    pub fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn starts(&mut self, text: &[u8], n: usize) -> Vec<usize> {
        (0..n).map(|_| self.below(text.len() - CONTEXT)).collect()
    }
}
