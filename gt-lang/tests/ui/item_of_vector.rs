use gt::prelude::*;
dims! { Batch }

fn read(losses: &T![Batch]) -> Result<f64> {
    losses.item()
}

fn main() {}
