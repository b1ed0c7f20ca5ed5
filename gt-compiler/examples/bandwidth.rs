//! Figures of the native engine on this machine: copy bandwidth, fused chains against it, compile
//! time, latency of one instruction.
#![expect(clippy::print_stdout, reason = "a program that prints")]
#![expect(clippy::disallowed_methods, reason = "a program that measures time")]

use std::time::Instant;

use gt_compiler::{Arg, Engine, EngineError, Native, NativeConfig, Value};
use gt_ir::{
    Graph, HostTensor, Instr, Loc, Op, Operand, Scalar, Shape, Tape, ValueId, attr, tape::Entry,
};

const N: usize = 1 << 24;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Writes tapes without ceremony.
#[derive(Default)]
struct Recorder {
    tape: Tape,
    next: u64,
}

impl Recorder {
    fn id(&mut self) -> ValueId {
        self.next += 1;
        ValueId(self.next)
    }

    fn input(&mut self, data: &HostTensor) -> Operand {
        let out = self.id();
        self.tape.entries.push(Entry::Input { out, ty: *data.ty(), name: None });
        Operand::Value(out)
    }

    fn op(&mut self, op: Op, inputs: &[Operand]) -> Operand {
        let out = self.id();
        self.tape.entries.push(Entry::Instr(Instr {
            out,
            op,
            inputs: inputs.into(),
            loc: Loc::NONE,
        }));
        Operand::Value(out)
    }

    fn graph(mut self, output: Operand) -> Outcome<Graph> {
        if let Operand::Value(value) = output {
            self.tape.entries.push(Entry::Output { value, name: None });
        }
        Ok(gt_ir::lower(&self.tape)?)
    }
}

fn number(v: f64) -> Operand {
    Operand::Scalar(Scalar::F64(v))
}

/// Median seconds of `n` calls, after two unmeasured ones.
fn median(n: usize, mut f: impl FnMut() -> Result<(), EngineError>) -> Outcome<f64> {
    let mut times = Vec::new();
    for i in 0..n + 2 {
        let start = Instant::now();
        f()?;
        if i >= 2 {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Seconds of processor time all threads of this process have used; steadier than the clock on a
/// busy machine.
fn processor_time() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = |path: std::path::PathBuf| -> Option<f64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    threads.filter_map(|t| nanoseconds(t.path())).sum::<f64>() * 1e-9
}

/// Bytes read and written a second when two threads copy 64 MiB with the standard library.
fn copy_bandwidth() -> Outcome<f64> {
    let (from, mut to) = (vec![1u8; 4 * N], vec![2u8; 4 * N]);
    let seconds = median(9, || {
        std::thread::scope(|s| {
            for (a, b) in from.chunks(2 * N).zip(to.chunks_mut(2 * N)) {
                s.spawn(|| b.copy_from_slice(a));
            }
        });
        Ok(())
    })?;
    Ok(8.0 * N as f64 / seconds)
}

/// As a kernel does it on one thread: what the processor time of a chain is to be compared with.
fn copy_processor_time() -> f64 {
    let (from, mut to) = (vec![1u8; 4 * N], vec![2u8; 4 * N]);
    let mut copy = |n: usize| {
        (0..n).for_each(|_| {
            std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from))
        })
    };
    copy(2);
    let before = processor_time();
    copy(10);
    (processor_time() - before) / 10.0
}

fn chain(
    engine: &mut Native,
    name: &str,
    bytes: usize,
    copy: f64,
    graph: &Graph,
    inputs: &[&Value],
) -> Outcome<()> {
    let start = Instant::now();
    let program = engine.compile(graph)?;
    let compile = start.elapsed().as_secs_f64();
    let before = processor_time();
    let seconds = median(9, || {
        let mut inputs: Vec<Value> = inputs.iter().copied().cloned().collect();
        engine.run(&program, &mut inputs, graph.slots()).map(drop)
    })?;
    let processor = (processor_time() - before) / 11.0;
    let rate = bytes as f64 / seconds;
    println!(
        "{name}: {:.2} ms ({:.2} ms of processor), {:.1} GB/s, {:.0} % of the copy; {} steps \
         compiled in {:.2} ms",
        seconds * 1e3,
        processor * 1e3,
        rate / 1e9,
        100.0 * rate / copy,
        program.n_steps(),
        compile * 1e3
    );
    Ok(())
}

/// A layer normalization, an activation and a softmax: several passes over rows that stay in the
/// caches.
fn rows(engine: &mut Native, copy: f64) -> Outcome<()> {
    let (rows, columns) = (4096, 1024);
    let data: Vec<f32> = (0..rows * columns).map(|i| (i % 1013) as f32 * 0.004 - 2.0).collect();
    let host = HostTensor::from_vec(data, Shape::new(&[rows, columns])?)?;
    let ones = HostTensor::from_vec(vec![1.0f32; columns], Shape::new(&[columns])?)?;
    let (x, w) = (engine.upload(&host)?, engine.upload(&ones)?);
    let mut r = Recorder::default();
    let (v, w_in) = (r.input(&host), r.input(&ones));
    let last = attr::Reduce { axes: [1].into_iter().collect(), keep: attr::Keep::Yes };
    let mean = r.op(Op::Mean(last), &[v]);
    let centered = r.op(Op::Sub, &[v, mean]);
    let square = r.op(Op::Mul, &[centered, centered]);
    let variance = r.op(Op::Mean(last), &[square]);
    let variance = r.op(Op::Add, &[variance, number(1e-5)]);
    let deviation = r.op(Op::Sqrt, &[variance]);
    let normal = r.op(Op::Div, &[centered, deviation]);
    let normal = r.op(Op::Mul, &[normal, w_in]);
    let cube = r.op(Op::Mul, &[normal, normal]);
    let cube = r.op(Op::Mul, &[cube, normal]);
    let cube = r.op(Op::Mul, &[cube, number(0.044715)]);
    let inner = r.op(Op::Add, &[cube, normal]);
    let inner = r.op(Op::Mul, &[inner, number(0.797_884_6)]);
    let t = r.op(Op::Tanh, &[inner]);
    let t = r.op(Op::Add, &[t, number(1.0)]);
    let half = r.op(Op::Mul, &[normal, number(0.5)]);
    let gelu = r.op(Op::Mul, &[half, t]);
    let most = r.op(Op::Max(last), &[gelu]);
    let shifted = r.op(Op::Sub, &[gelu, most]);
    let e = r.op(Op::Exp, &[shifted]);
    let total = r.op(Op::Sum(last), &[e]);
    let y = r.op(Op::Div, &[e, total]);
    let graph = r.graph(y)?;
    chain(
        engine,
        "softmax(gelu(layer_norm)) 4096 x 1024",
        8 * rows * columns,
        copy,
        &graph,
        &[&x, &w],
    )?;
    Ok(())
}

fn main() -> Outcome<()> {
    if std::env::var_os("GT_SIMD").is_none() {
        // First with 128-bit vectors, then with the widest.
        let this = std::env::current_exe()?;
        std::process::Command::new(this).env("GT_SIMD", "128").status()?;
    }
    let mut engine = Native::new(NativeConfig { threads: 2, ..NativeConfig::host() })?;
    println!("{:?}", engine.info());
    let copy = copy_bandwidth()?;
    println!(
        "copy, 2 threads: {:.1} GB/s ({:.2} ms of processor)",
        copy / 1e9,
        copy_processor_time() * 1e3
    );

    let data: Vec<f32> = (0..N).map(|i| (i % 1000) as f32 * 0.004 - 2.0).collect();
    let host = HostTensor::from_vec(data, Shape::new(&[N])?)?;
    let bias = HostTensor::scalar(0.25f32);
    let (x, b) = (engine.upload(&host)?, engine.upload(&bias)?);

    let mut r = Recorder::default();
    let v = r.input(&host);
    let scaled = r.op(Op::Mul, &[v, number(1.5)]);
    let shifted = r.op(Op::Add, &[scaled, number(0.25)]);
    let rectified = r.op(Op::Relu, &[shifted]);
    let y = r.op(Op::Mul, &[rectified, v]);
    let graph = r.graph(y)?;
    for n in ["relu(x*1.5+b)*x", "again"] {
        chain(&mut engine, n, 8 * N, copy, &graph, &[&x])?;
    }

    let tanh_chain = |sum: bool| -> Outcome<Graph> {
        let mut r = Recorder::default();
        let (v, c) = (r.input(&host), r.input(&bias));
        let scaled = r.op(Op::Mul, &[v, number(1.5)]);
        let shifted = r.op(Op::Add, &[scaled, c]);
        let t = r.op(Op::Tanh, &[shifted]);
        let s = r.op(Op::Sigmoid, &[v]);
        let product = r.op(Op::Mul, &[t, s]);
        let mut y = r.op(Op::Add, &[product, v]);
        if sum {
            y = r.op(
                Op::Sum(attr::Reduce { axes: [0].into_iter().collect(), keep: attr::Keep::No }),
                &[y],
            );
        }
        r.graph(y)
    };
    chain(&mut engine, "tanh(1.5x+b)*sigmoid(x)+x", 8 * N, copy, &tanh_chain(false)?, &[&x, &b])?;
    chain(
        &mut engine,
        "sum(tanh(1.5x+b)*sigmoid(x)+x)",
        4 * N,
        copy,
        &tanh_chain(true)?,
        &[&x, &b],
    )?;
    let mut r = Recorder::default();
    let v = r.input(&host);
    let y =
        r.op(Op::Sum(attr::Reduce { axes: [0].into_iter().collect(), keep: attr::Keep::No }), &[v]);
    chain(&mut engine, "sum(x)", 4 * N, copy, &r.graph(y)?, &[&x])?;

    rows(&mut engine, copy)?;
    let small = HostTensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], Shape::new(&[4])?)?;
    let mut value = engine.upload(&small)?;
    let one = engine.upload(&small)?;
    let seconds = median(50, || {
        for _ in 0..1000 {
            value = engine.execute(&Op::Add, &[Arg::Value(&value), Arg::Value(&one)])?;
        }
        Ok(())
    })?;
    println!("execute(add) on 4 elements: {:.0} ns", seconds * 1e6);
    let side = HostTensor::from_vec(vec![0.5f32; 1 << 20], Shape::new(&[1024, 1024])?)?;
    let m = engine.upload(&side)?;
    let seconds =
        median(9, || engine.execute(&Op::MatMul, &[Arg::Value(&m), Arg::Value(&m)]).map(drop))?;
    println!("matmul 1024: {:.2} ms", seconds * 1e3);
    let stats = engine.stats();
    println!(
        "{} kernels, {:.2} ms each",
        stats.kernels_compiled,
        stats.compile_time.as_secs_f64() * 1e3 / stats.kernels_compiled.max(1) as f64
    );
    Ok(())
}
