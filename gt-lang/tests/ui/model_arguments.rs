use gt::prelude::*;

#[derive(Module)]
#[module(args(width: usize))]
struct Net {
    #[module(init = Linear::with_sizes(width, 2))]
    fc: Linear,
}

fn main() {
    let _ = Net::new();
}
