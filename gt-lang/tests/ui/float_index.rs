use gt::prelude::*;
dims! { Batch }

fn lookup(table: &Embedding<N<1000>, N<64>>, words: &T![Batch]) {
    let _ = table.forward(words);
}

fn main() {}
