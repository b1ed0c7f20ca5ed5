use gt::prelude::*;
dims! { Batch, Seq }

fn attend(q: &T![Batch, 4, Seq, 16], k: &T![Batch, 4, Seq, 8], v: &T![Batch, 4, Seq, 8]) {
    let _ = q.scaled_dot_product_attention(k, v, Default::default());
}

fn main() {}
