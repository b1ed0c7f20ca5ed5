use gt::prelude::*;
dims! { Batch }

#[derive(Module)]
struct Net {
    #[signal("layer1")]
    fc: Linear<N<8>, N<2>>,
}

fn run(net: &Net, x: &T![Batch, 4]) {
    let _ = net.fc(x);
}

fn main() {}
