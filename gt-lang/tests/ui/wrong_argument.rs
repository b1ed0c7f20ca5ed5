use gt::prelude::*;
dims! { Batch, Seq }

fn forward(x: &T![Batch, 784]) -> T![Batch, 784] {
    x * 2.0
}

fn call(x: T![Seq, 784]) {
    let _ = forward(&x);
}

fn main() {}
