//! What one small instruction costs: `cargo run --release -p gt-compiler --features torch --example
//! dispatch_cost`.
//!
//! An addition of four elements and one after the other depending on it, as an instruction of each
//! engine, by libtorch's operators through the op table, and as a bare call of libtorch. The
//! engine's overhead over the bare call is to stay under a microsecond.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "it measures and prints")]

use std::{error::Error, time::Instant};

use gt_compiler::{
    Arg, Device, Engine, Native, NativeConfig,
    torch::{self, TorchConfig, ops},
};
use gt_ir::{HostTensor, Op, Shape};
use tch::Tensor;

/// Additions a run, each of the sum before.
const CHAIN: usize = 2_000;
/// Runs of which the median counts.
const RUNS: usize = 101;

fn main() -> Result<(), Box<dyn Error>> {
    tch::set_num_threads(1);
    let ones = HostTensor::from_vec(vec![1.0_f32; 4], Shape::new(&[4])?)?;
    let x = ops::upload(&ones, tch::Device::Cpu)?;
    let raw = median(|| bare(&x))?;
    println!("libtorch alone          {raw:>7.0} ns an addition");
    let host = NativeConfig { threads: 1, store: None, ..NativeConfig::host() };
    let mut native: Box<dyn Engine> = Box::new(Native::new(host.clone())?);
    let mut torch = torch::engine(&TorchConfig { host, ..TorchConfig::host(Device::Cpu) })?;
    shown("native engine", median(|| executed(native.as_mut(), &ones))?, raw);
    shown("engine on libtorch", median(|| executed(torch.as_mut(), &ones))?, raw);
    shown("op table on libtorch", median(|| evaluated(&x))?, raw);
    Ok(())
}

fn shown(what: &str, nanoseconds: f64, raw: f64) {
    let (ratio, over) = (nanoseconds / raw, nanoseconds - raw);
    println!("{what:<23} {nanoseconds:>7.0} ns an addition, {ratio:.2} x, {over:+.0} ns");
}

type Done = Result<(), Box<dyn Error>>;

fn bare(x: &Tensor) -> Done {
    let mut y = x.f_add(x)?;
    for _ in 1..CHAIN {
        y = y.f_add(x)?;
    }
    Ok(())
}

fn executed(engine: &mut dyn Engine, ones: &HostTensor) -> Done {
    let x = engine.upload(ones)?;
    let mut y = engine.execute(&Op::Add, &[Arg::Value(&x), Arg::Value(&x)])?;
    for _ in 1..CHAIN {
        y = engine.execute(&Op::Add, &[Arg::Value(&y), Arg::Value(&x)])?;
    }
    Ok(())
}

fn evaluated(x: &Tensor) -> Done {
    let add = |y: &Tensor| {
        ops::eval(&Op::Add, &[ops::Arg::Tensor(y), ops::Arg::Tensor(x)], tch::Device::Cpu)
    };
    let mut y = add(x)?;
    for _ in 1..CHAIN {
        y = add(&y)?;
    }
    Ok(())
}

/// Nanoseconds an addition of the median run.
fn median(mut run: impl FnMut() -> Done) -> Result<f64, Box<dyn Error>> {
    run()?;
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e9 / CHAIN as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}
