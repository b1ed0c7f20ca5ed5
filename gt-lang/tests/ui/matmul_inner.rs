use gt::prelude::*;
dims! { Batch }

fn product(a: &T![Batch, 784], b: &T![256, 10]) {
    let _ = a.matmul(b);
}

fn main() {}
