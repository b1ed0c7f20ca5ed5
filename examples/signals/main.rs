//! Trains a network whose layers have signals, configured by a YAML file: `cargo run --release
//! --example signals [FILE.yaml]`.
//!
//! The example prints the instructions of each scope and the configuration that the dispatcher has.
//! On several workers (`GT_WORKERS=2`) the configuration spreads the work over them. The final loss
//! stays, whichever signals the file configures.

use anyhow::{Context, Result};
use gt::prelude::*;
use gt::{debug, signal};
use std::collections::BTreeMap;
use std::io::Write;

dims! { Batch }

/// Two layers, each in a signal: `self.fc1(x)` is `self.fc1.forward(x)` in the scope `layer1`.
#[derive(Module)]
struct Mlp {
    #[signal("layer1")]
    fc1: Linear<N<2>, N<32>>,
    #[signal("layer2", backward = "layer2_grad")]
    fc2: Linear<N<32>, One>,
}

impl Mlp {
    fn forward(&self, x: &T![Batch, 2]) -> T![Batch, 1] {
        self.fc2(&self.fc1(x).tanh())
    }
}

/// Records one step of training, without waiting.
fn step(net: &Mlp, optimizer: &mut Adam, x: &T![Batch, 2], y: &T![Batch, 1]) -> Result<T![]> {
    let output = net.forward(x);
    let loss = {
        let _scope = signal::scope("loss");
        output.mse_loss(y)
    };
    optimizer.zero_grad();
    loss.backward()?;
    let _scope = signal::scope("update");
    optimizer.step()?;
    Ok(loss.detach())
}

/// The number of instructions in each scope of a tape, by the path of the scope.
fn by_scope(tape: &gt::ir::Tape) -> BTreeMap<String, usize> {
    let (mut open, mut counts) = (Vec::new(), BTreeMap::new());
    for entry in &tape.entries {
        match entry {
            gt::ir::Entry::Enter(name) => open.push(name.to_string()),
            gt::ir::Entry::Exit(_) => drop(open.pop()),
            gt::ir::Entry::Instr(_) => *counts.entry(open.join("/")).or_default() += 1,
            _ => (),
        }
    }
    counts
}

fn main() -> Result<()> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/signals/signals.yaml");
    let file = std::env::args().nth(1).unwrap_or_else(|| beside.to_owned());
    gt::load_config(&file)?;
    gt::manual_seed(0);
    let mut out = std::io::stdout().lock();

    // The network learns the product of two numbers from 256 examples.
    let x: T![Batch, 2] = Tensor::rand_with([256]) * 2.0 - 1.0;
    let y: T![Batch, 1] = (x.slice_axis::<1>(0..1) * x.slice_axis::<1>(1..2)).assume();
    let net = Mlp::new();
    let mut optimizer = Adam::new(net.parameters(), AdamConfig { lr: 0.01, ..Default::default() });

    let tape = {
        let _kept = debug::keep_tape();
        step(&net, &mut optimizer, &x, &y)?;
        debug::get_tape()
    };
    let session = Session::current()?;
    let known = session.stats()?.signals;
    writeln!(out, "instructions of one step by signal, and their configuration in {}:", file)?;
    for (path, count) in by_scope(&tape) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let said = known.get(name).map_or("not configured".to_owned(), ToString::to_string);
        let path = if path.is_empty() { "(none)" } else { &path };
        writeln!(out, "  {path:<12} {count:>3} instructions   {said}")?;
    }
    writeln!(out, "\nconfiguration of session {} at the dispatcher:", session.stats()?.session)?;
    for line in known.to_string().lines() {
        writeln!(out, "  {line}")?;
    }

    let mut loss = step(&net, &mut optimizer, &x, &y)?;
    for _ in 0..500 {
        loss = step(&net, &mut optimizer, &x, &y)?;
    }
    let loss = loss.item().context("the loss cannot be read")?;
    writeln!(out, "\nfinal loss: {loss:.6}")?;
    Ok(())
}
