//! Trains a network on one worker and then on two: `cargo run --release --example data_parallel
//! [FILE.yaml]`.
//!
//! The program opens scopes and knows no workers. Two lines of YAML spread it: `data_parallel.yaml`
//! gives each worker a part of the batch, `pipeline.yaml` gives each worker a layer. The losses
//! agree up to the order in which numbers are added.

use anyhow::{Result, ensure};
use gt::prelude::*;
use gt::signal;
use std::io::Write;

dims! { Batch }

/// Examples in a step.
const BATCH: usize = 64;
const STEPS: usize = 60;

type Inputs = T![Batch, 16];
type Outputs = T![Batch, 4];

#[derive(Module)]
struct Net {
    #[signal("first")]
    fc1: Linear<N<16>, N<64>>,
    #[signal("second")]
    fc2: Linear<N<64>, N<4>>,
}

impl Net {
    fn loss(&self, x: &Inputs, y: &Outputs) -> T![] {
        let _batch = signal::scope("batch");
        self.fc2(&self.fc1(x).tanh()).mse_loss(y)
    }
}

/// The batch of a step. The targets are sines of sums of inputs.
fn examples(step: usize) -> (Inputs, Outputs) {
    let number = |i: usize| ((step * BATCH * 16 + i) as f32 * 12.9898).sin();
    let x: Vec<f32> = (0..BATCH * 16).map(number).collect();
    let y: Vec<f32> = x.chunks(4).map(|part| part.iter().sum::<f32>().sin()).collect();
    (Tensor::from_vec(x), Tensor::from_vec(y))
}

/// Trains in a new session. Returns the last loss.
fn train() -> Result<f64> {
    let session = Session::open()?;
    let _entered = session.enter();
    session.manual_seed(11);
    let net = Net::new();
    let config = SgdConfig { lr: 0.1, momentum: 0.9, ..Default::default() };
    let mut optimizer = Sgd::new(net.parameters(), config);
    let mut last: T![] = Tensor::zeros();
    for step in 0..STEPS {
        let (x, y) = examples(step);
        let loss = net.loss(&x, &y);
        optimizer.zero_grad();
        loss.backward()?;
        optimizer.step()?;
        last = loss.detach();
    }
    Ok(last.item()?)
}

fn main() -> Result<()> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data_parallel/data_parallel.yaml");
    let file = std::env::args().nth(1).unwrap_or_else(|| beside.to_owned());
    if std::env::var_os("GT_CONNECT").is_none() {
        gt::workers(2)?;
    }
    let mut out = std::io::stdout().lock();
    let alone = train()?;
    writeln!(out, "one worker:   loss {alone:.9}")?;

    gt::load_config(&file)?;
    let spread = train()?;
    writeln!(out, "two workers:  loss {spread:.9}")?;

    let difference = (spread - alone).abs() / alone;
    ensure!(difference < 1e-4, "the losses differ by {difference:e} of {alone}");
    writeln!(out, "relative difference: {difference:.1e}")?;
    Ok(())
}
