#![deny(dead_code)]
use gt::prelude::*;
dims! { Batch }

#[derive(Module)]
struct Net {
    #[signal("layer1")]
    fc: Linear<N<4>, N<2>>,
}

pub fn run(x: &T![Batch, 4]) {
    let _ = Net::new().fc.forward(x);
}

fn main() {
    run(&Tensor::ones_with([1]));
}
