//! Samples text from a LLaMA checkpoint: `cargo run --release --features tokenizers --example llama
//! -- --model FOLDER --prompt 'Once upon'`.
//!
//! The folder has Hugging Face's layout: `config.json`, `model.safetensors` or its parts with their
//! index, and `tokenizer.json` for texts. With `--bits 8` or `--bits 4` the weights of linear
//! layers become integers, which take less than a third or a fifth of the memory. Without the
//! feature `tokenizers`, `--prompt` takes the numbers of tokens: `--prompt '1 15043'`.

#![expect(clippy::disallowed_methods, reason = "examples read the clock")]
#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]
#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

mod checkpoint;
#[path = "../gpt2/folder.rs"]
mod folder;
mod model;
#[path = "../gpt2/sampler.rs"]
mod sampler;
mod tokens;

use anyhow::Result;
use checkpoint::Checkpoint;
use clap::Parser;
use model::Llama;
use sampler::Sampler;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use tokens::Tokens;

/// Sample text from a LLaMA checkpoint
#[derive(Parser)]
#[command(name = "llama")]
struct Args {
    /// A folder with config.json and model.safetensors
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// The text that the sample continues; numbers of tokens without the feature `tokenizers`
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// Tokens to sample
    #[arg(long, default_value_t = 40, value_name = "N")]
    tokens: usize,
    /// Keep weights as integers of 8 or 4 bits
    #[arg(long, value_name = "BITS")]
    bits: Option<u8>,
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
    let Err(error) = speak(&Args::parse()) else { return };
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe) {
        return; // The reader of the output has closed it.
    }
    eprintln!("error: {error:#}");
    std::process::exit(1);
}

/// Samples, and prints each token at once.
fn speak(args: &Args) -> Result<()> {
    let tokens = Tokens::load(&args.model)?;
    let prompt = tokens.encode(&args.prompt)?;
    let model = Llama::load(&Checkpoint::load(&args.model)?, args.bits)?;
    let mut cache = model.cache(prompt.len() + args.tokens)?;
    let mut sampler = Sampler::new(args.temperature, args.top, args.seed);
    let mut out = std::io::stdout().lock();
    if !args.numbers {
        out.write_all(args.prompt.as_bytes())?;
    }
    let (mut said, mut next) = (prompt.clone(), prompt);
    let mut begun: Option<Instant> = None;
    for _ in 0..args.tokens {
        let scores = model.scores(&next, &mut cache)?.to_vec::<f32>()?;
        begun.get_or_insert_with(Instant::now); // The prompt has been read.
        let token = sampler.choose(&scores);
        said.push(token);
        match args.numbers {
            true => write!(out, "{token} ")?,
            false => out.write_all(tokens.added(&said)?.as_bytes())?,
        }
        out.flush()?;
        next = vec![token];
    }
    let (n, passed) = (args.tokens, begun.map_or(0.0, |start| start.elapsed().as_secs_f64()));
    let each = 1e3 * passed / n.saturating_sub(1).max(1) as f64;
    writeln!(out, "\n{n} tokens, {each:.2} ms each after the first")?;
    Ok(())
}
