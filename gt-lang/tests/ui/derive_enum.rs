use gt::prelude::*;

#[derive(Module)]
enum Net {
    Small(Linear<N<8>, N<2>>),
}

fn main() {}
