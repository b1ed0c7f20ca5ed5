//! Several sessions of one program, each on a worker of its own: replicas that average their
//! gradients, and a pipeline of two stages, both beside the same training in one session: `cargo
//! run --release --example data_parallel`.
//!
//! All of it is ordinary use of sessions: threads, reads and writes of values. The results are
//! those of one session, but for the order in which numbers are added.

#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]

mod model;
mod pipeline;
mod replicas;

use anyhow::{Result, ensure};
use gt::prelude::*;
use std::io::Write;

/// Replicas, each on a worker of its own.
const REPLICAS: usize = 2;

/// The last loss of the training in one session.
fn alone() -> Result<f64> {
    let session = Session::open()?;
    let _entered = session.enter();
    let net = model::Net::seeded(&session);
    let mut optimizer = model::optimizer(net.parameters());
    let mut last: T![] = Tensor::zeros();
    for step in 0..model::STEPS {
        let (x, y) = model::Examples::of_step(step).part(0, 1);
        let loss = net.loss(&x, &y);
        optimizer.zero_grad();
        loss.backward()?;
        optimizer.step()?;
        last = loss.detach();
    }
    Ok(last.item()?)
}

fn main() -> Result<()> {
    gt::workers(REPLICAS)?;
    let mut out = std::io::stdout().lock();
    let alone = alone()?;
    writeln!(out, "one session:  loss {alone:.9}")?;

    let replicas = replicas::train(REPLICAS)?;
    for (i, replica) in replicas.iter().enumerate() {
        writeln!(out, "replica {i}:    loss {:.9} of its part, on {}", replica.loss, replica.home)?;
    }
    let replicated = replicas.iter().map(|r| r.loss).sum::<f64>() / REPLICAS as f64;

    let [first, second] = pipeline::train()?;
    writeln!(out, "pipeline:     loss {:.9}, on {} and {}", second.loss, first.home, second.home)?;

    let largest = (replicated - alone).abs().max((second.loss - alone).abs()) / alone;
    ensure!(largest < 1e-3, "the losses differ by {largest:e} of {alone}");
    writeln!(out, "largest relative difference: {largest:.1e}")?;
    Ok(())
}
