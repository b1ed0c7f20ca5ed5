use gt::prelude::*;
dims! { Batch }

fn head(x: &T![Batch, 784], fc: &Linear<N<784>, N<256>>) -> T![Batch, 10] {
    fc.forward(x)
}

fn main() {}
