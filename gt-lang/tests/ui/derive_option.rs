use gt::prelude::*;

#[derive(Module)]
struct Net {
    #[module(inti = repeat(2))]
    fc: Vec<Linear<N<8>, N<2>>>,
}

fn main() {}
