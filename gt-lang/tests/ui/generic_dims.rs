use gt::prelude::*;

fn add<A: Dim, B: Dim>(a: &T![A, 8], b: &T![B, 8]) {
    let _ = a + b;
}

fn main() {}
