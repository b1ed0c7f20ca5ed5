use gt::prelude::*;

#[derive(Module)]
struct Net {
    fc: Linear,
}

fn main() {
    let _ = Net::new();
}
