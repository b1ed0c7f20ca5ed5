//! Trains a small GPT-2 on the characters of a text and samples from it: `cargo run --release
//! --example gpt`.

#![expect(clippy::disallowed_methods, reason = "examples read the clock")]
#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]
#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

mod model;
mod sample;
mod text;
mod train;

use anyhow::Result;
use clap::Parser;
use gt::prelude::*;
use model::Gpt;
use std::io::Write;
use std::path::PathBuf;
use text::Text;
use train::Training;

/// Train a small GPT-2 on the characters of a text, and sample from it
#[derive(Parser)]
#[command(name = "gpt", after_help = EXAMPLES)]
struct Args {
    /// The text to learn [default: The Devil's Dictionary, which is part of this example]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Steps of training
    #[arg(long, default_value_t = 2500, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Seed of the initial weights, the passages, and the sample
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Steps between two reports of the losses
    #[arg(long, default_value_t = 500, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Save the run to this file at every report, and resume from the file if it exists
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Draw the curves of the losses on the terminal, and write them to run.svg and run.csv in this
    /// folder; the curves are part of the checkpoint
    #[arg(long, value_name = "FOLDER")]
    curves: Option<PathBuf>,
    /// Characters to sample at the end
    #[arg(long, default_value_t = 400, value_name = "N")]
    sample: usize,
    /// The text that the sample continues
    #[arg(long, default_value = "\n\nL", value_name = "TEXT")]
    prompt: String,
    /// Temperature of the sample: 1 for the learned distribution, less for likelier text
    #[arg(long, default_value_t = 0.8, value_name = "T")]
    temperature: f64,
}

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example gpt
  cargo run --release --example gpt -- --text novel.txt --steps 10000
  cargo run --release --example gpt -- --checkpoint run.safetensors
  cargo run --release --example gpt -- --curves run
  cargo run --release --example gpt -- --prompt 'HAPPINESS, n.' --temperature 0.5";

fn main() {
    let Err(error) = run(&Args::parse()) else { return };
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe) {
        return; // The reader of the output has closed it.
    }
    eprintln!("error: {error:#}");
    std::process::exit(1);
}

fn run(args: &Args) -> Result<()> {
    let text = Text::load(args.text.as_deref())?;
    manual_seed(args.seed);
    let net = Gpt::new();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} parameters, {} characters for training, {} for validation",
        net.parameter_count(),
        text.training.len(),
        text.validation.len()
    )?;
    let mut training = Training::new(net, args.steps, args.seed);
    if let Some(folder) = &args.curves {
        training.draw(folder)?;
    }
    if let Some(file) = &args.checkpoint {
        let done = training.resume(file)?;
        if done > 0 {
            writeln!(out, "resuming after step {done} of {}", file.display())?;
        }
    }
    training.run(&text, args.interval, args.checkpoint.as_deref())?;
    let net = &training.net;
    let written =
        sample::sample(net, args.prompt.as_bytes(), args.sample, args.temperature, args.seed)?;
    writeln!(out, "\n{}\n", String::from_utf8_lossy(&written).trim())?;
    writeln!(out, "validation loss: {:.4}", train::validation_loss(net, &text)?)?;
    Ok(())
}
