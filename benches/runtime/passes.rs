//! Passes over memory: a copy, and regions of pointwise operations on the same number of floats.

use crate::{Outcome, samples, seconds};
use gt_compiler::{Engine, Native, NativeConfig};

// The bandwidth of two threads that copy 16 M floats, with bytes read and written.

const N_ELEMENTS: usize = 1 << 24;

pub(crate) fn copy_16m() -> Outcome<Vec<f64>> {
    let from = vec![1.0_f32; N_ELEMENTS];
    let mut to = vec![0.0_f32; N_ELEMENTS];
    samples(15, || {
        let time = seconds(|| {
            std::thread::scope(|scope| {
                let halves = from.chunks(N_ELEMENTS / 2).zip(to.chunks_mut(N_ELEMENTS / 2));
                halves.for_each(|(from, to)| drop(scope.spawn(|| to.copy_from_slice(from))));
            });
            Ok(())
        })?;
        Ok(gigabytes_per_second(time))
    })
}

/// The bytes of one array of `N_ELEMENTS` floats read and one written.
fn gigabytes_per_second(time: f64) -> f64 {
    (2 * N_ELEMENTS * size_of::<f32>()) as f64 / time / 1e9
}

// Pointwise operations on 16 M floats as one region, which is one kernel and one pass over memory.

pub(crate) fn chain_16m() -> Outcome<Vec<f64>> {
    let lines = [
        "mul %0, 1.5",
        "add %1, 0.25",
        "relu %2",
        "mul %3, %0",
        "sub %4, 0.5",
        "abs %5",
        "add %6, %0",
        "mul %7, 0.5",
    ];
    Ok(region_seconds(&lines)?.into_iter().map(gigabytes_per_second).collect())
}

pub(crate) fn minmax_16m() -> Outcome<Vec<f64>> {
    let lines = ["maximum %0, 0.25", "minimum %1, 4.0", "mul %2, %0"];
    Ok(region_seconds(&lines)?.into_iter().map(gigabytes_per_second).collect())
}

// The work `chain_16m` of the peers' table: sum(tanh(1.5x + 0.25) * sigmoid(x) + x).

pub(crate) fn tanh_16m() -> Outcome<Vec<f64>> {
    let lines = [
        "mul %0, 1.5",
        "add %1, 0.25",
        "tanh %2",
        "sigmoid %0",
        "mul %3, %4",
        "add %5, %0",
        "sum[0] %6",
    ];
    Ok(region_seconds(&lines)?.into_iter().map(|time| time * 1e3).collect())
}

/// The time of a region that computes `%1`, `%2`, .. by these lines from an input `%0` of
/// `N_ELEMENTS`.
fn region_seconds(lines: &[&str]) -> Outcome<Vec<f64>> {
    let mut text = format!("gt tape 1\n%0 = input : f32[{N_ELEMENTS}]\n");
    for (i, line) in lines.iter().enumerate() {
        text += &format!("%{} = {line}\n", i + 1);
    }
    text += &format!("output %{}\n", lines.len());
    let (tape, _) = gt::ir::text::parse(&text).map_err(|found| format!("{found:?}"))?;
    let graph = gt::ir::lower(&tape)?;
    let mut engine = Native::new(NativeConfig { threads: 2, ..NativeConfig::host() })?;
    let program = engine.compile(&graph)?;
    let data = (0..N_ELEMENTS).map(|i| (i % 1000) as f32 * 0.004 - 2.0).collect();
    let x =
        engine.upload(&gt::ir::HostTensor::from_vec(data, gt::ir::Shape::new(&[N_ELEMENTS])?)?)?;
    samples(15, || {
        seconds(|| {
            engine.run(&program, &mut vec![x.clone()], graph.slots())?;
            Ok(())
        })
    })
}
