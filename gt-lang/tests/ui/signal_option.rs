use gt::prelude::*;

#[derive(Module)]
struct Net {
    #[signal("layer1", backwards = "grad1")]
    fc: Linear<N<8>, N<2>>,
}

fn main() {}
