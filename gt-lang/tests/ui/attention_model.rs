use gt::nn::MultiheadAttention;
use gt::prelude::*;
dims! { Batch, Seq }

fn attend(layer: &MultiheadAttention<N<64>>, x: &T![Batch, Seq, 32]) {
    let _ = layer.forward(x, Default::default());
}

fn main() {}
