use gt::prelude::*;
dims! { Batch }

fn scale(x: &T![Batch, 4]) -> T![Batch, 4] {
    x * 2.0_f32
}

fn main() {}
