use gt::prelude::*;
dims! { Batch }

fn noise() -> T![Batch, 10] {
    Tensor::randn()
}

fn main() {}
