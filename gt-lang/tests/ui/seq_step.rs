use gt::prelude::*;
dims! { Batch }

fn run(x: &T![Batch, 8], a: &Linear<N<8>, N<4>>, b: &Linear<N<8>, N<2>>) {
    let _ = seq!(x => a, Relu, b);
}

fn main() {}
