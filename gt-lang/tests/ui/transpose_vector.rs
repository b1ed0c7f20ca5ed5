use gt::prelude::*;

fn transposed(x: &T![10]) {
    let _ = x.t();
}

fn main() {}
