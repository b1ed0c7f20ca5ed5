use gt::prelude::*;
dims! { Batch }

fn head(fc: &Linear<N<8>, N<2>>, x: &T![Batch, 8; Int]) {
    let _ = fc.forward(x);
}

fn main() {}
