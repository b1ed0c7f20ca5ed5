use gt::prelude::*;
dims! { Batch }

fn score(layer: &Linear<N<8>, N<1>>, x: &T![Batch, 8]) -> T![Batch, 1] {
    layer.forward(x)
}

fn main() {}
