//! Samples text from a GPT-2 checkpoint: `cargo run --release --example gpt2 -- --model FOLDER
//! --prompt 'Once upon'`.
//!
//! The folder has Hugging Face's layout: `config.json`, `model.safetensors`, and `vocab.json` with
//! `merges.txt` for texts. A cache keeps the keys and values of the tokens read, so each step
//! computes one token. The position of the token is data, so every step is a replay of one plan.
//! Without a folder the example writes a small model with random weights in this layout, loads it,
//! and compares its output with and without the cache.

#![expect(clippy::disallowed_methods, reason = "examples read the clock")]
#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]
#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

mod checkpoint;
mod folder;
mod model;
mod sample;
mod sampler;
mod tokens;

use anyhow::{Result, ensure};
use checkpoint::Checkpoint;
use clap::Parser;
use gt::prelude::*;
use model::Gpt2;
use sample::{largest_difference, write};
use sampler::Sampler;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokens::Tokens;

/// Sample text from a GPT-2 checkpoint
#[derive(Parser)]
#[command(name = "gpt2")]
struct Args {
    /// A folder with config.json and model.safetensors [default: compare a small random model with
    /// and without its cache]
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// The text that the sample continues
    #[arg(long, default_value = "The ", value_name = "TEXT")]
    prompt: String,
    /// Tokens to sample
    #[arg(long, default_value_t = 40, value_name = "N")]
    tokens: usize,
    /// Temperature: 1 for the learned distribution, less for likelier tokens, 0 for the likeliest
    #[arg(long, default_value_t = 0.8, value_name = "T")]
    temperature: f64,
    /// Sample among this many of the likeliest tokens
    #[arg(long, default_value_t = 40, value_name = "N")]
    top: usize,
    /// Seed of the sample
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the numbers of the tokens instead of their text
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
        return; // The reader of the output has closed it.
    }
    eprintln!("error: {error:#}");
    std::process::exit(1);
}

/// Samples, and prints each token at once.
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

/// Compares the tokens and their scores with the cache and without it.
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
    ensure!(with == without, "the cache changes the tokens: {with:?} and {without:?}");
    ensure!(apart < 1e-3, "the cache changes scores by {apart:.1e}");
    let n = args.tokens;
    writeln!(
        std::io::stdout(),
        "{n} tokens are equal with and without the cache; scores differ by at most {apart:.1e}"
    )?;
    Ok(())
}
