//! Trains a classifier of handwritten digits: `cargo run --release --example digits`.
//!
//! The program runs in one process, with nothing else installed, or on a cluster (`--connect
//! HOST:PORT`, or `GT_CONNECT`). The losses for a seed have the same bits in both cases.

#![expect(clippy::disallowed_methods, reason = "examples read the clock")]
#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]
#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

mod data;
mod model;
mod progress;
mod tape;

use anyhow::{Context, Result, bail};
use clap::Parser;
use data::{Digits, Shuffler};
use gt::ir::backend::Stats;
use gt::prelude::*;
use model::Mlp;
use progress::{Epoch, Progress, bytes, thousands};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const BATCH: usize = 32;

/// The learning rate of the first epoch.
const LR: f64 = 0.1;

fn optimizer_config() -> SgdConfig {
    SgdConfig { lr: LR, momentum: 0.9, weight_decay: 1e-4, ..Default::default() }
}

/// Cosine annealing, from `LR` in the first epoch to nearly 0 in the last.
fn lr_of(epoch: u32, n_epochs: u32) -> f64 {
    let done = f64::from(epoch - 1) / f64::from(n_epochs);
    LR * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
}

/// Train a classifier of handwritten digits, embedded or on a cluster
#[derive(Parser)]
#[command(name = "digits")]
struct Args {
    /// Seed of the initial weights and of the order of the images
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Passes over the training images
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Workers inside this process [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "connect")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Option<u16>,
    /// Write the tape of one training step to this file, in text form, and exit (`-`: standard
    /// output)
    #[arg(long, value_name = "FILE")]
    emit_tape: Option<PathBuf>,
    /// Run on this server instead of in this process (as with GT_CONNECT)
    #[arg(long, value_name = "HOST:PORT")]
    connect: Option<String>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

fn main() {
    let args = Args::parse();
    let Err(error) = train(&args) else { return };
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe) {
        return; // The reader of the output has closed it.
    }
    let interrupted = error.is::<Interrupted>();
    eprintln!("{}{error:#}", if interrupted { "" } else { "error: " });
    std::process::exit(if interrupted { 130 } else { 1 });
}

#[derive(Debug, thiserror::Error)]
#[error("interrupted after epoch {0}")]
struct Interrupted(u32);

fn train(args: &Args) -> Result<()> {
    let interrupt = watch_for_interrupt()?;
    let session = open(args)?;
    let done = train_in(&session, args, &interrupt);
    // Tells the server at once, which otherwise waits for the lease of this process to end.
    session.close();
    done
}

fn train_in(session: &Session, args: &Args, interrupt: &AtomicBool) -> Result<()> {
    let _current = session.enter();
    session.manual_seed(args.seed);

    let (training, test) = data::load();
    if let Some(file) = &args.emit_tape {
        return emit_tape(session, file, &training);
    }
    let (test_images, test_labels) = model::upload(test);
    let net = Mlp::new();
    let mut optimizer = Sgd::new(net.parameters(), optimizer_config());

    let mut order: Vec<usize> = (0..training.len()).collect();
    let mut shuffler = Shuffler::new(args.seed);
    let n_steps = training.len() / BATCH;
    let progress = Progress::new(args.epochs, n_steps, args.json);
    let mut accuracy = 0.0;
    for number in 1..=args.epochs {
        let start = Instant::now();
        optimizer.set_lr(lr_of(number, args.epochs));
        shuffler.shuffle(&mut order);
        let mut total: T![] = Tensor::zeros();
        for batch in order.chunks_exact(BATCH) {
            if interrupt.load(Ordering::Relaxed) {
                progress.finish();
                bail!(Interrupted(number - 1));
            }
            total += model::step(&net, &mut optimizer, training.pick(batch))?;
            progress.step();
        }
        // The only reads. Until here the program recorded steps while the worker ran earlier steps.
        let loss = total.item()? as f32 / n_steps as f32;
        accuracy = net.accuracy(&test_images, &test_labels).item()? as f32;
        let seconds = start.elapsed().as_secs_f64();
        let samples_per_second = (n_steps * BATCH) as f64 / seconds;
        progress.epoch(Epoch { number, loss, accuracy, samples_per_second })?;
    }
    progress.finish();
    report(session, args, accuracy)
}

/// Opens the session that the arguments choose: in this process, or on a server.
fn open(args: &Args) -> Result<Session> {
    let session = match (&args.connect, args.workers) {
        (Some(address), _) => gt::connect(address)?,
        (None, Some(n_workers)) => gt::embedded(n_workers.into())?,
        (None, None) => Session::current()?,
    };
    Ok(session)
}

/// The first interrupt asks for a clean end, the second exits at once.
fn watch_for_interrupt() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let asked = flag.clone();
    ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    Ok(flag)
}

/// Writes the tape of one training step.
fn emit_tape(session: &Session, file: &Path, training: &Digits) -> Result<()> {
    let batch = training.pick(&(0..BATCH).collect::<Vec<_>>());
    let text = gt::ir::text::print(&tape::of_a_step(session, optimizer_config(), &batch)?);
    if file == Path::new("-") {
        return std::io::stdout()
            .write_all(text.as_bytes())
            .context("cannot write to standard output");
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Prints the accuracy, the statistics of the run, and the commands to run on a cluster.
fn report(session: &Session, args: &Args, accuracy: f32) -> Result<()> {
    let stats = session.stats()?;
    let total = stats.total();
    let mut out = std::io::stdout().lock();
    if args.json {
        let (instructions, segments, kernels) =
            (total.instructions, total.segments, total.kernels_compiled);
        let (bytes_in, bytes_out, workers) = (total.bytes_in, total.bytes_out, stats.workers.len());
        writeln!(
            out,
            "{{\"test_accuracy\":{accuracy},\"instructions\":{instructions},\
             \"segments\":{segments},\"kernels_compiled\":{kernels},\
             \"bytes_in\":{bytes_in},\"bytes_out\":{bytes_out},\"workers\":{workers}}}"
        )?;
        return Ok(());
    }
    writeln!(out, "\ntest accuracy: {accuracy:.4}")?;
    writeln!(
        out,
        "statistics: {} instructions in {} segments on {}, {} kernels compiled, {} in and {} out",
        thousands(total.instructions),
        thousands(total.segments),
        names(&stats),
        thousands(total.kernels_compiled),
        bytes(total.bytes_in),
        bytes(total.bytes_out),
    )?;
    if args.connect.is_none() && std::env::var_os("GT_CONNECT").is_none() {
        writeln!(out, "\nTo run on a cluster, enter each line in its own terminal:")?;
        writeln!(out, "  cargo run --release -p gt-cli -- server -p 12345")?;
        writeln!(out, "  cargo run --release -p gt-cli -- worker --connect localhost:12345")?;
        writeln!(out, "  GT_CONNECT=localhost:12345 cargo run --release --example digits")?;
    }
    Ok(())
}

fn names(stats: &Stats) -> String {
    let names = stats.workers.iter().map(|worker| format!("{} ({})", worker.name, worker.engine));
    names.collect::<Vec<_>>().join(", ")
}
