use gt::prelude::*;
dims! { Batch }

fn add(a: T![Batch, 256], b: T![128]) {
    let _ = a + b;
}

fn main() {}
