use gt::prelude::*;
dims! { Batch }

fn hits(a: &T![Batch, 10; Int], b: &T![Batch, 3; Int]) {
    let _ = a.eq(b);
}

fn main() {}
