//! Lets a GPT-2 checkpoint write: `cargo run --release --example gpt2 -- --model FOLDER --prompt
//! 'Once upon'`.
//!
//! The folder is one as Hugging Face has them: `config.json`, `model.safetensors`, and `vocab.json`
//! with `merges.txt` for texts. Keys and values of the tokens read are kept, so that a token costs
//! one token; its place is data, so every step is replayed. Without a folder a small model with
//! random weights is written in that layout and loaded, and what it says with its cache is compared
//! with what it says without.

#![expect(clippy::disallowed_methods, reason = "examples read the clock")]
#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]
#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

mod checkpoint;
mod model;
mod sample;
mod tokens;

use anyhow::{Result, ensure};
use checkpoint::Checkpoint;
use clap::Parser;
use gt::prelude::*;
use model::Gpt2;
use sample::{Sampler, largest_difference, write};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokens::Tokens;

/// Let a GPT-2 checkpoint write
#[derive(Parser)]
#[command(name = "gpt2")]
struct Args {
    /// A folder with config.json and model.safetensors [default: a small random model, to try
    /// everything]
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// What the writing begins with
    #[arg(long, default_value = "The ", value_name = "TEXT")]
    prompt: String,
    /// Tokens to write
    #[arg(long, default_value_t = 40, value_name = "N")]
    tokens: usize,
    /// How freely it writes: 1 as it learned, less more likely, 0 always the likeliest
    #[arg(long, default_value_t = 0.8, value_name = "T")]
    temperature: f64,
    /// Choose among this many of the likeliest
    #[arg(long, default_value_t = 40, value_name = "N")]
    top: usize,
    /// Decides the throws of the dice
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the tokens' numbers, not what they spell
    #[arg(long)]
    numbers: bool,
}

fn main() {
    let args = Args::parse();
    let done = match &args.model {
        Some(folder) => speak(folder, &args),
        None => compare(&args),
    };
    let Err(error) = done else { return };
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe) {
        return; // Whoever reads the output has read enough.
    }
    eprintln!("error: {error:#}");
    std::process::exit(1);
}

/// Writes as it goes.
fn speak(folder: &Path, args: &Args) -> Result<()> {
    let (model, tokens) = (Gpt2::load(&Checkpoint::load(folder)?)?, Tokens::load(folder)?);
    let prompt = tokens.encode(&args.prompt)?;
    let mut out = std::io::stdout().lock();
    if !args.numbers {
        out.write_all(args.prompt.as_bytes())?;
    }
    let mut sampler = Sampler::new(args.temperature, args.top, args.seed);
    let (mut cache, start) = (model.cache(), Instant::now());
    write(&model, prompt, args.tokens, Some(&mut cache), &mut sampler, |token, _| {
        match args.numbers {
            true => write!(out, "{token} ")?,
            false => out.write_all(&tokens.decode(token))?,
        }
        Ok(out.flush()?)
    })?;
    let each = 1e3 * start.elapsed().as_secs_f64() / args.tokens.max(1) as f64;
    writeln!(out, "\n{} tokens, {each:.2} ms each", args.tokens)?;
    Ok(())
}

/// The same tokens with the cache and without, and how far the scores behind them are apart.
fn compare(args: &Args) -> Result<()> {
    manual_seed(args.seed);
    let folder = std::env::temp_dir().join(format!("gt-gpt2-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let written = checkpoint::write_random(&folder);
    let loaded = written.and_then(|()| Gpt2::load(&Checkpoint::load(&folder)?));
    std::fs::remove_dir_all(&folder)?;
    let model = loaded?;
    let said = |cached: bool| {
        let (mut sampler, mut all) = (Sampler::new(0.0, 1, 0), (Vec::new(), Vec::new()));
        let mut cache = cached.then(|| model.cache());
        let prompt = args.prompt.bytes().map(i64::from).collect();
        write(&model, prompt, args.tokens, cache.as_mut(), &mut sampler, |token, scores| {
            all.0.push(token);
            all.1.extend_from_slice(scores);
            Ok(())
        })?;
        Ok::<_, anyhow::Error>(all)
    };
    let ((with, a), (without, b)) = (said(true)?, said(false)?);
    let apart = largest_difference(&a, &b);
    ensure!(with == without, "the cache changes what is said: {with:?} and {without:?}");
    ensure!(apart < 1e-3, "the cache changes scores by {apart:.1e}");
    let n = args.tokens;
    writeln!(
        std::io::stdout(),
        "{n} tokens alike with and without the cache; scores apart: {apart:.1e}"
    )?;
    Ok(())
}
