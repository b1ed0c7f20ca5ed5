use gt::prelude::*;

#[derive(Module)]
struct Net {
    fc: Linear<N<8>, N<2>>,
    rate: f64,
}

fn main() {}
