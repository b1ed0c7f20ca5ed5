use gt::prelude::*;
dims! { Batch, Seq }

fn block(x: &T![Batch, Seq, 64], fc: &Linear<N<64>, N<256>>) -> T![Batch, Seq, 64] {
    x + fc.forward(x).gelu()
}

fn main() {}
