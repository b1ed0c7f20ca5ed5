use gt::prelude::*;
dims! { Batch, Seq }

fn add(a: &T![Batch, 64], b: &T![Seq, 64]) {
    let _ = a * b;
}

fn main() {}
