use gt::prelude::*;
dims! { Batch }

fn scale(layer: &Linear<N<8>, N<1>>, x: &T![Batch, 8]) {
    let _ = x * layer.forward(x);
}

fn main() {}
