//! The tape of a training step of a transformer of any size, without running it: `cargo run
//! --release --example large -- --layers 32 --width 4096 --output step.gt`.
//!
//! `gt-cli compile step.gt --workers 72 --auto --emit sharded` then says how the step would be
//! spread over machines that are not there, how long it would take, and the memory of each worker.
//!
//! The system that the program records for is one that runs nothing. A model of seven billion
//! parameters is recorded in a second, because no value of it exists.

#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

mod paper;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use gt::functional::{self as f, Attention};
use gt::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Write the tape of a training step of a transformer
#[derive(Parser)]
#[command(name = "large")]
struct Args {
    /// Blocks of attention and perceptron
    #[arg(long, default_value_t = 32)]
    layers: usize,
    /// Elements of a token
    #[arg(long, default_value_t = 4096)]
    width: usize,
    /// Heads of attention
    #[arg(long, default_value_t = 32)]
    heads: usize,
    /// Tokens of a text
    #[arg(long, default_value_t = 2048)]
    context: usize,
    /// Texts of a step
    #[arg(long, default_value_t = 72)]
    batch: usize,
    /// Words that there are
    #[arg(long, default_value_t = 32_000)]
    words: usize,
    /// The file
    #[arg(long, value_name = "FILE.gt")]
    output: PathBuf,
}

/// The weights of a block.
struct Block {
    /// Of the normalizations before attention and perceptron.
    gains: [DynTensor; 2],
    /// Of queries, keys, values and the result.
    attention: [DynTensor; 4],
    /// Of the gate, the way up and the way down (SwiGLU).
    perceptron: [DynTensor; 3],
}

struct Model {
    words: DynTensor,
    blocks: Vec<Block>,
    gain: DynTensor,
    head: DynTensor,
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.width.is_multiple_of(args.heads.max(1)), "the width is no multiple of the heads");
    let session = Session::with_backend(Arc::new(paper::Paper));
    let _current = session.enter();
    let model = Model::new(&args);
    let mut optimizer = AdamW::new(model.parameters(), AdamWConfig::default());
    let mut step = || -> Result<()> {
        optimizer.zero_grad();
        model.loss(&args).backward()?;
        optimizer.step()?;
        Ok(())
    };
    let tape = paper::step(&session, &mut step)?;
    let parameters: usize = model.parameters().iter().map(|p| p.shape().numel()).sum();
    let text = gt::ir::text::print(&tape);
    std::fs::write(&args.output, text)
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    eprintln!(
        "{} parameters, {} instructions: {}",
        parameters,
        tape.instrs().count(),
        args.output.display()
    );
    Ok(())
}

fn weight(rows: usize, columns: usize) -> DynTensor {
    (DynTensor::randn([rows, columns], DType::Bf16) * 0.02).requires_grad()
}

fn gain(width: usize) -> DynTensor {
    DynTensor::ones([width], DType::Bf16).requires_grad()
}

impl Block {
    fn new(width: usize) -> Block {
        let wide = width * 8 / 3;
        Block {
            gains: [gain(width), gain(width)],
            attention: [(); 4].map(|()| weight(width, width)),
            perceptron: [weight(width, wide), weight(width, wide), weight(wide, width)],
        }
    }

    fn forward(&self, x: &DynTensor, args: &Args) -> DynTensor {
        let Args { batch, context, width, heads, .. } = *args;
        let [query, key, value, out] = &self.attention;
        let normed = x.rms_norm(&self.gains[0], 1e-5);
        let apart = |weight: &DynTensor| {
            let sizes = [batch, context, heads, width / heads];
            normed.matmul(weight).reshape(sizes).transpose(1, 2)
        };
        let how = Attention { causal: true, ..Attention::default() };
        let (query, key, value) = (apart(query), apart(key), apart(value));
        let mixed = f::scaled_dot_product_attention_with(&query, &key, &value, how);
        let x = x.add(&mixed.transpose(1, 2).reshape([batch, context, width]).matmul(out));
        let normed = x.rms_norm(&self.gains[1], 1e-5);
        let [gate, up, down] = &self.perceptron;
        x.add(&normed.matmul(gate).silu().mul(&normed.matmul(up)).matmul(down))
    }
}

impl Model {
    fn new(args: &Args) -> Model {
        Model {
            words: weight(args.words, args.width),
            blocks: (0..args.layers).map(|_| Block::new(args.width)).collect(),
            gain: gain(args.width),
            head: weight(args.width, args.words),
        }
    }

    fn parameters(&self) -> Vec<DynTensor> {
        let ends = [&self.words, &self.gain, &self.head];
        let of = |block: &'_ Block| {
            let Block { gains, attention, perceptron } = block;
            gains.iter().chain(attention).chain(perceptron).cloned().collect::<Vec<_>>()
        };
        ends.into_iter().cloned().chain(self.blocks.iter().flat_map(of)).collect()
    }

    /// How well the model predicts the next words of texts. Which words they are does not matter.
    fn loss(&self, args: &Args) -> DynTensor {
        let n = args.batch * args.context;
        let tokens = || DynTensor::from_vec(vec![0_i64; n], [args.batch, args.context]);
        let x = self.words.embedding(&tokens());
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x, args));
        let scores = x.rms_norm(&self.gain, 1e-5).matmul(&self.head);
        f::cross_entropy(&scores.reshape([n, args.words]), &tokens().reshape([n]))
    }
}
