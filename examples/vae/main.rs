//! Trains a variational autoencoder on handwritten digits and draws new digits: `cargo run
//! --release --example vae`.
//!
//! The worker draws the latent codes of each step. Their seeds are data, so every step is the same
//! program. At the end the example prints the nats for a test image, by the model and by the
//! average of each pixel alone.

#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]
#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

#[path = "../digits/data.rs"]
mod data;
mod model;
mod picture;

use anyhow::{Context, Result};
use clap::Parser;
use data::{Digits, PIXELS, Shuffler};
use gt::functional::binary_cross_entropy;
use gt::prelude::*;
use model::{Codes, Images, Vae};
use std::io::Write;
use std::path::PathBuf;

const BATCH: usize = 64;
/// Images drawn at the end, in one row.
const DRAWN: usize = 8;
/// Images in a row of the picture, and the epochs after which a row is drawn.
const SHOWN: usize = 8;
const EPOCHS: [u32; 4] = [1, 5, 20, 100];

/// Train a variational autoencoder on handwritten digits, and draw new digits
#[derive(Parser)]
#[command(name = "vae")]
struct Args {
    /// Seed of the initial weights, the order of the images, and the drawn digits
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Passes over the training images
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Draw images of the same codes after some epochs into this file (SVG)
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

fn main() {
    let Err(error) = run(&Args::parse()) else { return };
    eprintln!("error: {error:#}");
    std::process::exit(1);
}

fn run(args: &Args) -> Result<()> {
    manual_seed(args.seed);
    let (training, test) = data::load();
    let net = Vae::new();
    let rows = train(&net, &training, args)?;
    if let Some(file) = &args.picture {
        let cannot = || format!("cannot write {}", file.display());
        std::fs::write(file, picture::draw(&rows)).with_context(cannot)?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", drawn(&net)?)?;
    let average = average_image(&training);
    let test: Images = Tensor::from_vec(test.images);
    let average = average.as_dyn().expand(test.as_dyn().shape());
    let known = binary_cross_entropy(&average, test.as_dyn());
    let (bound, known) = (no_grad(|| net.bound(&test)).item()?, known.item()? * PIXELS as f64);
    writeln!(out, "nats per image, by the averages of pixels: {known:.2}")?;
    writeln!(out, "nats per image: {bound:.2}")?;
    Ok(())
}

/// Trains, and returns images of the same codes after some epochs, if a picture is wanted.
fn train(net: &Vae, training: &Digits, args: &Args) -> Result<Vec<(u32, Vec<f32>)>> {
    let config = AdamWConfig { lr: 2e-3, ..AdamWConfig::default() };
    let mut optimizer = AdamW::new(net.parameters(), config);
    let (mut shuffler, mut order) =
        (Shuffler::new(args.seed), (0..training.len()).collect::<Vec<_>>());
    let codes: Option<Codes> = args.picture.as_ref().map(|_| Tensor::randn_with([SHOWN]));
    let mut rows = Vec::new();
    for epoch in 1..=args.epochs {
        shuffler.shuffle(&mut order);
        let (mut total, mut n): (T![], usize) = (Tensor::zeros(), 0);
        for batch in order.chunks_exact(BATCH) {
            let loss = net.bound(&Tensor::from_vec(training.pick(batch).images));
            optimizer.zero_grad();
            loss.backward()?;
            optimizer.step()?;
            (total, n) = (total + loss.detach(), n + 1);
        }
        if epoch % 10 == 0 {
            eprintln!("epoch {epoch:>3}  {:.2} nats per image", total.item()? / n as f64);
        }
        if let Some(codes) = codes.as_ref().filter(|_| EPOCHS.contains(&epoch)) {
            rows.push((epoch, decoded(net, codes)?));
        }
    }
    Ok(rows)
}

/// The average of each pixel, kept away from 0 and 1.
fn average_image(digits: &Digits) -> T![64] {
    let images: Images = Tensor::from_vec(digits.images.clone());
    Tensor::from_dyn(images.as_dyn().mean(0).clamp(1e-3, 1.0 - 1e-3))
}

/// The darkness of each pixel of the images that codes stand for.
fn decoded(net: &Vae, codes: &Codes) -> Result<Vec<f32>> {
    Ok(no_grad(|| net.decode(codes).sigmoid().to_vec::<f32>())?)
}

/// New digits, decoded from random codes.
fn drawn(net: &Vae) -> Result<String> {
    let pixels = decoded(net, &Tensor::randn_with([DRAWN]))?;
    let shade = |darkness: f32| [' ', '.', ':', 'o', 'O', '@'][(darkness * 5.99) as usize];
    let mut text = String::new();
    for row in 0..8 {
        for image in pixels.chunks_exact(PIXELS) {
            // Characters are twice as high as wide.
            text.extend(image[row * 8..][..8].iter().flat_map(|&p| [shade(p); 2]));
            text.push_str("  ");
        }
        text.push('\n');
    }
    Ok(text)
}
