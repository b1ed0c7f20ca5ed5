use gt::prelude::*;
dims! { Batch }
const WIDTH: usize = 64;

fn widen(x: &T![Batch, WIDTH]) {
    let _ = x;
}

fn main() {}
