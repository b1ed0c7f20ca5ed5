use gt::prelude::*;
dims! { Batch }

fn join(a: &T![Batch, 3], b: &T![Batch, 4]) -> T![?, 3] {
    cat::<0, _, _>(&[a, b])
}

fn main() {}
