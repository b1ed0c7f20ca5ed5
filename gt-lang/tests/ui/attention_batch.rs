use gt::nn::{AttentionMask, MultiheadAttention};
use gt::prelude::*;

fn look(heads: &MultiheadAttention<N<8>>, x: &T![4, 6, 8], memory: &T![5, 9, 8]) {
    let _ = heads.cross(x, memory, AttentionMask::default());
}

fn main() {}
