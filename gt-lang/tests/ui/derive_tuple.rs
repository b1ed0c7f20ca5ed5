use gt::prelude::*;

#[derive(Module)]
struct Net(Linear<N<8>, N<2>>);

fn main() {}
