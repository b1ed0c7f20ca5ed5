use gt::prelude::*;
dims! { Batch }

#[derive(Module)]
struct Mlp {
    fc1: Linear<N<784>, N<256>>,
    fc2: Linear<N<128>, N<10>>,
}

impl Mlp {
    fn forward(&self, x: &T![Batch, 784]) -> T![Batch, 10] {
        let h = self.fc1.forward(x).relu();
        self.fc2.forward(&h)
    }
}

fn main() {}
