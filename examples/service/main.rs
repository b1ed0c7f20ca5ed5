//! Classifies handwritten digits for others, over HTTP: `cargo run --release --example service`.
//!
//! Requests that arrive at nearly the same time are computed as one batch (`batches.rs`). Try
//! `curl --data '{"pixels": [0, 0.5, ..64 numbers]}' localhost:8080/classify`. The network is
//! trained at the start, in a second.

#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]
#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

mod batches;
#[path = "../digits/data.rs"]
mod data;
mod http;
#[path = "../digits/model.rs"]
mod model;

use anyhow::{Context, Result};
use batches::Batches;
use clap::Parser;
use gt::prelude::*;
use model::Mlp;
use std::io::Write;
use std::time::Duration;

/// Classify handwritten digits over HTTP, in batches
#[derive(Parser)]
#[command(name = "service")]
struct Args {
    /// Where to listen; port 0 is any free port
    #[arg(long, default_value = "localhost:8080", value_name = "HOST:PORT")]
    listen: String,
    /// The most requests of a batch
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// How long a request waits for others, in milliseconds
    #[arg(long, default_value_t = 2)]
    wait: u64,
    /// Passes over the training images
    #[arg(long, default_value_t = 8)]
    epochs: u32,
}

fn main() {
    let Err(error) = run(&Args::parse()) else { return };
    eprintln!("error: {error:#}");
    std::process::exit(1);
}

fn run(args: &Args) -> Result<()> {
    let net = trained(args.epochs)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(&args.listen).await;
        let listener = listener.with_context(|| format!("cannot listen at {}", args.listen))?;
        let wait = Duration::from_millis(args.wait);
        let batches = Batches::start(net, args.batch.into(), wait);
        writeln!(std::io::stdout(), "listening at {}", listener.local_addr()?)?;
        http::serve(listener, batches).await;
        Ok(())
    })
}

/// A network that knows the digits.
fn trained(epochs: u32) -> Result<Mlp> {
    manual_seed(0);
    let (training, test) = data::load();
    let mut order: Vec<usize> = (0..training.len()).collect();
    let mut shuffler = data::Shuffler::new(0);
    let mut net = Mlp::new();
    let config = SgdConfig { lr: 0.1, momentum: 0.9, ..Default::default() };
    let mut optimizer = Sgd::new(net.parameters(), config);
    for _ in 0..epochs {
        shuffler.shuffle(&mut order);
        for batch in order.chunks_exact(32) {
            model::step(&net, &mut optimizer, training.pick(batch))?;
        }
    }
    net.eval();
    let (images, labels) = model::upload(test);
    eprintln!("accuracy on other images: {:.3}", net.accuracy(&images, &labels).item()?);
    Ok(net)
}
