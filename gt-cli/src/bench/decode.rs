//! The work `decode`: a language model generates a token, with the keys and values of earlier
//! tokens kept.
//!
//! The likeliest word and its position stay on the device as tensors, so every step is the same
//! program. When the context is full, new tokens take the places of the oldest.

use super::gpt::{Block, Gpt, HEAD, HEADS, TOKENS, WIDTH};
use super::step::Step;
use gt_lang::functional::Attention;
use gt_lang::prelude::*;

/// One number: a word or its position.
type One = T![1; Int];
type Hidden = T![1, { WIDTH }];
type Heads = T![1, { HEADS }, 1, { HEAD }];
/// Keys or values of all positions.
type Cache = T![1, { HEADS }, { TOKENS }, { HEAD }];
type Seen = T![{ TOKENS }; Bool];

/// The keys and values that a block keeps.
struct Kept {
    keys: Cache,
    values: Cache,
}

impl Kept {
    /// Puts a token's key and value in their place.
    fn put(&mut self, position: &One, key: &Heads, value: &Heads) {
        for (kept, new) in [(&mut self.keys, key), (&mut self.values, value)] {
            let whole = kept.as_dyn().index_copy(2, position.as_dyn(), new.as_dyn());
            *kept = Tensor::from_dyn(whole);
        }
    }
}

impl Block {
    fn decode(&self, x: &Hidden, position: &One, seen: &Seen, kept: &mut Kept) -> Hidden {
        let normed = self.norm1.forward(x);
        let [q, k, v]: [Heads; 3] =
            [&self.query, &self.key, &self.value].map(|part| part.forward(&normed).reshape());
        kept.put(position, &k, &v);
        let how = Attention { mask: Some(seen.as_dyn()), ..Attention::default() };
        let mixed = q.scaled_dot_product_attention(&kept.keys, &kept.values, how);
        let x = x + self.out.forward(&mixed.reshape::<shape![1, { WIDTH }]>());
        &x + self.down.forward(&self.up.forward(&self.norm2.forward(&x)).gelu())
    }
}

impl Gpt {
    /// The likeliest word after this one.
    fn next(&self, word: &One, position: &One, kept: &mut [Kept]) -> One {
        let places: T![{ TOKENS }; Int] = Tensor::arange();
        let seen: Seen = places.le(position);
        let mut x = self.words.forward(word) + self.positions.forward(position);
        for (block, kept) in self.blocks.iter().zip(kept) {
            x = block.decode(&x, position, &seen, kept);
        }
        self.head.forward(&self.norm.forward(&x)).argmax_last()
    }
}

/// A model, and a step that generates a word.
pub(super) fn step() -> Step {
    let net = Gpt::new();
    let nothing = || Kept { keys: Tensor::zeros(), values: Tensor::zeros() };
    let mut kept: Vec<Kept> = net.blocks.iter().map(|_| nothing()).collect();
    let (mut word, mut position): (One, One) = (Tensor::zeros(), Tensor::zeros());
    Box::new(move || {
        no_grad(|| {
            word = net.next(&word, &position, &mut kept);
            position = (&position + 1).remainder(TOKENS as i64);
        });
        word.to_vec::<i64>()?;
        Ok(())
    })
}
