//! A program of somebody else: the macros by another name, a model, some steps of training, and
//! what is said when it is to connect to a server all the same. Its engine is that of `GT_ENGINE`.

use tensors::prelude::*;

dims! { Batch }

#[derive(Module)]
struct Net {
    #[signal]
    first: Linear<N<4>, N<8>>,
    second: Linear<N<8>, One>,
}

fn main() -> Result<()> {
    manual_seed(0);
    let x: T![Batch, 4] = Tensor::randn_with([16]);
    let y: T![Batch, 1] = Tensor::zeros_with([16]);
    let net = Net::new();
    let mut optimizer = Sgd::new(net.parameters(), SgdConfig { lr: 0.1, ..Default::default() });
    let loss = || seq!(&x => net.first(_), Tanh, net.second).mse_loss(&y);
    let before = loss().item()?;
    for _ in 0..20 {
        optimizer.zero_grad();
        loss().backward()?;
        optimizer.step()?;
    }
    let after = loss().item()?;
    assert!(after < before / 2.0, "{before} -> {after}");
    println!("{net}\nloss {before:.3} -> {after:.3}");

    tensors::disconnect();
    let why = tensors::connect("localhost:1").err().map(|why| format!("{why:?}"));
    let why = why.unwrap_or_default();
    assert!(why.contains("built without servers") && why.contains("feature `cluster`"), "{why}");
    Ok(())
}
