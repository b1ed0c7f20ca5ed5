use gt::prelude::*;
dims! { Batch }

fn loss(prediction: &T![Batch, 10], target: &T![Batch, 3]) {
    let _ = prediction.mse_loss(target);
}

fn main() {}
