use gt::prelude::*;
dims! { Batch, Seq }

fn attention(q: &T![Batch, Seq, 64], k: &T![Batch, Seq, 64]) {
    let _ = q.matmul(k).softmax_last();
}

fn main() {}
