use gt::prelude::*;
dims! { Batch, Seq }

fn heads(x: &T![Batch, Seq, 4, 16]) -> T![Batch, 4, Seq, 16] {
    x.transpose::<1, 3>()
}

fn main() {}
