//! Trains with several sessions of one program, each on its own worker: `cargo run --release
//! --example data_parallel`.
//!
//! The program trains the same network three times: in one session, as replicas that average their
//! gradients, and as a pipeline of two stages. It uses only threads, reads and uploads. The results
//! agree up to the order in which numbers are added.

#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]

mod model;
mod pipeline;
mod replicas;

use anyhow::{Result, ensure};
use gt::prelude::*;
use std::io::Write;

/// Number of replicas, and of workers.
const REPLICAS: usize = 2;

/// Trains in one session. Returns the last loss.
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
        writeln!(
            out,
            "replica {i}:    loss {:.9} of its part of the batch, on {}",
            replica.loss, replica.home
        )?;
    }
    let replicated = replicas.iter().map(|r| r.loss).sum::<f64>() / REPLICAS as f64;

    let [first, second] = pipeline::train()?;
    writeln!(out, "pipeline:     loss {:.9}, on {} and {}", second.loss, first.home, second.home)?;

    let largest = (replicated - alone).abs().max((second.loss - alone).abs()) / alone;
    ensure!(largest < 1e-3, "the losses differ by {largest:e} of {alone}");
    writeln!(out, "largest relative difference: {largest:.1e}")?;
    Ok(())
}
