use gt::prelude::*;

#[derive(Module)]
struct Net {
    blocks: Vec<Linear<N<8>, N<8>>>,
}

fn main() {
    let _ = Net::new();
}
