use gt::prelude::*;
dims! { Batch }

fn mask(x: &T![Batch, 4], low: f32) -> T![Batch, 4; Bool] {
    x.lt(low)
}

fn main() {}
