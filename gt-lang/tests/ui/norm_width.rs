use gt::prelude::*;
dims! { Batch, Seq }

fn normalized(norm: &LayerNorm<N<64>>, x: &T![Batch, Seq, 32]) {
    let _ = norm.forward(x);
}

fn main() {}
