use gt::prelude::*;

#[derive(Module)]
struct Net {
    fc: Linear<N<8>, N<2>>,
    #[signal("count")]
    #[module(skip, init = 0)]
    count: usize,
}

fn main() {}
