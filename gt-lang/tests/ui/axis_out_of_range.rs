use gt::prelude::*;
dims! { Batch }

fn total(x: &T![Batch, 10]) {
    let _ = x.sum_axis::<2>();
}

fn main() {}
