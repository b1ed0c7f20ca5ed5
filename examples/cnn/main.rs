//! Trains a convolutional network on handwritten digits: `cargo run --release --example cnn`.
//!
//! In training, tensor operations shift each image by up to a pixel in each direction. `--curves
//! FOLDER` draws the curves of the run. The images are those of the example `digits`, whose
//! multilayer perceptron makes more errors.

#![expect(unreachable_pub, reason = "modules of a program read more easily with plain `pub`")]
#![expect(clippy::print_stderr, reason = "a command-line program talks to its terminal")]

#[path = "../digits/data.rs"]
mod data;
mod model;

use anyhow::Result;
use clap::Parser;
use data::Digits;
use gt::data::{Last, Shuffle, TensorDataset};
use gt::ir::{HostTensor, Shape};
use gt::logger::RunLogger;
use gt::optim::schedule::{OneCycleLr, Scheduler};
use gt::prelude::*;
use model::{Cnn, Images, Labels};
use std::io::Write;
use std::path::PathBuf;

const BATCH: usize = 64;
/// The highest learning rate.
const LR: f64 = 4e-3;
/// The curves of the run.
const CURVES: [&str; 2] = ["loss", "accuracy"];

/// Train a convolutional network on handwritten digits
#[derive(Parser)]
#[command(name = "cnn")]
struct Args {
    /// Seed of the initial weights, the order of the images, and their shifts
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Passes over the training images
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Write the curves of loss and accuracy into this folder, as run.svg and run.csv
    #[arg(long, value_name = "FOLDER")]
    curves: Option<PathBuf>,
}

fn main() {
    let Err(error) = train(&Args::parse()) else { return };
    eprintln!("error: {error:#}");
    std::process::exit(1);
}

/// Images and labels, one row for each image.
fn rows(digits: Digits) -> Result<Vec<HostTensor>> {
    let n = digits.len();
    Ok(vec![
        HostTensor::from_vec(digits.images, Shape::new(&[n, 1, 8, 8])?)?,
        HostTensor::from_vec(digits.labels, Shape::new(&[n])?)?,
    ])
}

/// A batch as typed tensors.
fn typed(batch: &[DynTensor]) -> (Images, Labels) {
    (Tensor::from_dyn(batch[0].clone()), Tensor::from_dyn(batch[1].clone()))
}

fn train(args: &Args) -> Result<()> {
    manual_seed(args.seed);
    let (training, test) = data::load();
    let test: Vec<DynTensor> = rows(test)?.into_iter().map(DynTensor::from_host).collect();
    let (images, labels) = typed(&test);
    let config = LoaderConfig {
        batch_size: BATCH,
        shuffle: Shuffle::Seed(args.seed),
        last: Last::Drop,
        ..LoaderConfig::default()
    };
    let mut loader = DataLoader::new(TensorDataset::new(rows(training)?)?, config)?;
    let n_steps = loader.len() as u64;
    let mut net = Cnn::new();
    let mut optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
    let shape = OneCycleLr::new(LR, args.epochs * n_steps + 1);
    let mut schedule = Scheduler::new(&mut optimizer, shape);
    let mut curves = args.curves.as_ref().map(|to| RunLogger::new(to, &CURVES, 10)).transpose()?;
    let mut accuracy = 0.0;
    for epoch in 1..=args.epochs {
        let mut total: T![] = Tensor::zeros();
        for batch in loader.epoch() {
            let (images, labels) = typed(&batch?);
            total += step(&net, &mut optimizer, &images, &labels)?;
            schedule.step(&mut optimizer);
        }
        // The only reads. Until here the program recorded steps while the worker ran earlier steps.
        let loss = total.item()? / n_steps as f64;
        net.eval();
        accuracy = net.accuracy(&images, &labels).item()?;
        net.train();
        match &mut curves {
            Some(curves) => curves.log(epoch, &[("loss", loss), ("accuracy", accuracy)]),
            None => eprintln!("epoch {epoch:>3}  loss {loss:.4}  accuracy {accuracy:.4}"),
        }
    }
    curves.map(RunLogger::finish).transpose()?;
    writeln!(std::io::stdout(), "test accuracy: {accuracy:.4}")?;
    Ok(())
}

/// Records one step of training, and returns its loss without waiting for it.
fn step(net: &Cnn, optimizer: &mut AdamW, images: &Images, labels: &Labels) -> Result<T![]> {
    let loss = net.loss(&model::moved(images), labels);
    optimizer.zero_grad();
    loss.backward()?;
    optimizer.step()?;
    Ok(loss.detach())
}
