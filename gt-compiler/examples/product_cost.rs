//! Where the products of the native engine or those of libtorch are faster on this machine:
//! `cargo run --release -p gt-compiler --features torch --example product_cost [THREADS]`.
//!
//! Each line is a product of one dtype, size and layout: microseconds of both, in the fastest of
//! blocks of calls that alternate, and libtorch's time over the native engine's. Above one a
//! product is better left to the native engine; the rule of `libtorch/products.rs` rests on such a
//! table. With one thread it tells something on a busy machine, too: libtorch's threads wait for
//! each other there.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "it measures and prints")]

use std::{error::Error, time::Instant};

use gt_compiler::{Engine, Native, NativeConfig, Value, torch::ops};
use gt_ir::{DType, HostTensor, Op, Shape, interp, text};
use tch::Tensor;

/// Blocks of calls, of which the fastest count.
const BLOCKS: usize = 15;
/// Seconds of a block, about.
const BLOCK: f64 = 0.004;

/// Sizes, and whether each operand lies transposed.
struct Case {
    about: &'static str,
    batch: usize,
    size: [usize; 3],
    turned: [bool; 2],
}

const PLAIN: [bool; 2] = [false, false];
const LEFT: [bool; 2] = [true, false];
const RIGHT: [bool; 2] = [false, true];

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { about: "small",             batch: 1,   size: [64, 64, 64],       turned: PLAIN },
    Case { about: "small, right",      batch: 1,   size: [64, 64, 64],       turned: RIGHT },
    Case { about: "mlp forward",       batch: 1,   size: [64, 256, 784],     turned: RIGHT },
    Case { about: "mlp weights",       batch: 1,   size: [256, 784, 64],     turned: LEFT },
    Case { about: "wide forward",      batch: 1,   size: [256, 1024, 1024],  turned: RIGHT },
    Case { about: "wide backward",     batch: 1,   size: [256, 1024, 1024],  turned: PLAIN },
    Case { about: "wide weights",      batch: 1,   size: [1024, 1024, 256],  turned: LEFT },
    Case { about: "gpt projection",    batch: 1,   size: [1024, 256, 256],   turned: RIGHT },
    Case { about: "gpt feed forward",  batch: 1,   size: [1024, 1024, 256],  turned: RIGHT },
    Case { about: "gpt weights",       batch: 1,   size: [256, 1024, 1024],  turned: LEFT },
    Case { about: "gpt scores",        batch: 64,  size: [128, 128, 32],     turned: RIGHT },
    Case { about: "gpt values",        batch: 64,  size: [128, 32, 128],     turned: PLAIN },
    Case { about: "gpt keys backward", batch: 64,  size: [128, 32, 128],     turned: LEFT },
    Case { about: "small batches",     batch: 512, size: [16, 16, 16],       turned: PLAIN },
    Case { about: "square",            batch: 1,   size: [512, 512, 512],    turned: PLAIN },
    Case { about: "square, left",      batch: 1,   size: [512, 512, 512],    turned: LEFT },
    Case { about: "square, right",     batch: 1,   size: [512, 512, 512],    turned: RIGHT },
    Case { about: "large",             batch: 1,   size: [1024, 1024, 1024], turned: PLAIN },
    Case { about: "larger",            batch: 1,   size: [2048, 2048, 2048], turned: PLAIN },
    Case { about: "high",              batch: 1,   size: [8192, 128, 128],   turned: PLAIN },
    Case { about: "flat",              batch: 1,   size: [32, 4096, 1024],   turned: PLAIN },
    Case { about: "long sums",         batch: 1,   size: [64, 64, 16384],    turned: PLAIN },
    Case { about: "a row",             batch: 1,   size: [1, 1024, 1024],    turned: PLAIN },
    Case { about: "a row, right",      batch: 1,   size: [1, 1024, 1024],    turned: RIGHT },
    Case { about: "a column",          batch: 1,   size: [1024, 1, 1024],    turned: PLAIN },
];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let host = NativeConfig { store: None, ..NativeConfig::host() };
    let threads = std::env::args().nth(1).map_or(Ok(host.threads), |n| n.parse())?;
    tch::set_num_threads(i32::try_from(threads)?);
    let mut native = Native::new(NativeConfig { threads, ..host })?;
    println!("{:?}", native.info());
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F16] {
        for case in CASES {
            let [own, library] = measured(&mut native, case, dtype)?;
            let [m, n, k] = case.size;
            println!(
                "{:<4} {:<18} {:>4} x {m:>5} x {n:>5} x {k:>5} {own:>9.1} us, libtorch \
                 {library:>9.1} us, {:>6.2}",
                dtype.name(),
                case.about,
                case.batch,
                library / own
            );
        }
    }
    Ok(())
}

/// Microseconds a product of the native engine and of libtorch.
fn measured(native: &mut Native, case: &Case, dtype: DType) -> Outcome<[f64; 2]> {
    let [m, n, k] = case.size;
    let place = |rows, columns, turned| if turned { [columns, rows] } else { [rows, columns] };
    let lie = [place(m, k, case.turned[0]), place(k, n, case.turned[1])];
    let operands = [0, 1].map(|i| data(case.batch, lie[i], dtype));
    let [a, b] = operands;
    let (a, b) = (a?, b?);
    let (tape, _) = text::parse(&tape(case, lie, dtype)).map_err(|faults| format!("{faults:?}"))?;
    let program = native.compile(&gt_ir::lower(&tape)?)?;
    let own = [native.upload(&a)?, native.upload(&b)?];
    let view = |t: &HostTensor, turned| -> Outcome<Tensor> {
        let t = ops::upload(t, tch::Device::Cpu)?;
        Ok(if turned { t.f_transpose(1, 2)? } else { t })
    };
    let (a, b) = (view(&a, case.turned[0])?, view(&b, case.turned[1])?);
    let out = a.f_matmul(&b)?;
    alternated(
        || {
            let mut inputs: Vec<Value> = own.to_vec();
            native.run(&program, &mut inputs, &[])?;
            Ok(())
        },
        || Ok(a.f_matmul_out(&out, &b).map(drop)?),
    )
}

/// The product of both operands, transposed where they lie so.
fn tape(case: &Case, lie: [[usize; 2]; 2], dtype: DType) -> String {
    let (batch, [m, n, k]) = (case.batch, case.size);
    let wanted = [[m, k], [k, n]];
    let mut tape = String::from("gt tape 1\n");
    for (i, [rows, columns]) in lie.iter().enumerate() {
        tape += &format!("%{i} = input : {dtype}[{batch},{rows},{columns}]\n");
    }
    for (i, [rows, columns]) in wanted.iter().enumerate().filter(|(i, _)| case.turned[*i]) {
        let ty = format!("{dtype}[{batch},{rows},{columns}]");
        tape += &format!("%{} = transpose[1,2] %{i} : {ty}\n", i + 2);
    }
    let [a, b] = [0, 1].map(|i| if case.turned[i] { i + 2 } else { i });
    tape + &format!("%4 = matmul %{a}, %{b} : {dtype}[{batch},{m},{n}]\noutput %4\n")
}

fn data(batch: usize, [rows, columns]: [usize; 2], dtype: DType) -> Outcome<HostTensor> {
    let values = (0..batch * rows * columns).map(|i| (i * 37 + 11) % 23).map(|i| i as f32 / 23.0);
    let wide = HostTensor::from_vec(values.collect(), Shape::new(&[batch, rows, columns])?)?;
    Ok(interp::eval(&Op::Cast(dtype), &[interp::Arg::Tensor(&wide)])?)
}

/// Microseconds of both, blocks of calls alternating.
fn alternated(
    mut own: impl FnMut() -> Outcome<()>,
    mut library: impl FnMut() -> Outcome<()>,
) -> Outcome<[f64; 2]> {
    let mut fastest = [f64::INFINITY; 2];
    for _ in 0..BLOCKS {
        fastest = [fastest[0].min(block(&mut own)?), fastest[1].min(block(&mut library)?)];
    }
    Ok(fastest)
}

/// Microseconds a call, on average over a block of them; the first is not measured.
fn block(call: &mut dyn FnMut() -> Outcome<()>) -> Outcome<f64> {
    call()?;
    let (start, mut n_calls) = (Instant::now(), 0.0);
    while n_calls == 0.0 || start.elapsed().as_secs_f64() < BLOCK {
        call()?;
        n_calls += 1.0;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / n_calls)
}
