use gt::prelude::*;
dims! { Batch, Seq }

fn loss(logits: &T![Batch, 10], classes: &T![Seq; Int]) {
    let _ = logits.cross_entropy(classes);
}

fn main() {}
