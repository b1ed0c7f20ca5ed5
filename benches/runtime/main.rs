//! What docs/benchmarks.md lists, measured: `cargo xtask bench [ROW..] [--json]`.
//!
//! Each row is repeated and printed as its median with the smallest and largest, beside the bar it is held to and the commit it was
//! measured at. Rows that need a fresh process run this program again.

#![expect(clippy::disallowed_methods, reason = "benches read the clock")]
#![expect(
    unreachable_pub,
    dead_code,
    reason = "the example's modules are included as they are, and not used up"
)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what they measure is printed")]

#[path = "../examples/digits/data.rs"]
mod data;
#[path = "../examples/digits/model.rs"]
mod model;

use gt::ir::backend::{Backend, ErrorKind, RunError, Stats};
use gt::ir::canonical::{Bindings, Canonicalizer, Matcher, canonical};
use gt::ir::testing::Source;
use gt::ir::{HostTensor, Tape, ValueId};
use gt::prelude::*;
use gt_compiler::{Engine, Native, NativeConfig};
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A row of the table.
struct Row {
    name: &'static str,
    unit: &'static str,
    /// What the figure is held to, if it is.
    bar: &'static str,
    measure: fn() -> Outcome<Vec<f64>>,
}

const ROWS: &[Row] = &[
    Row { name: "embedded_start", unit: "ms", bar: "< 50", measure: embedded_start },
    Row { name: "record", unit: "ns/instruction", bar: "< 200", measure: record },
    Row {
        name: "period_detection",
        unit: "ns/instruction",
        bar: "< 200",
        measure: period_detection,
    },
    Row { name: "canonical_key", unit: "ns/instruction", bar: "< 40", measure: canonical_key },
    Row { name: "template_match", unit: "ns/instruction", bar: "< 15", measure: template_match },
    Row { name: "dispatch2000", unit: "ms", bar: "< 10", measure: dispatch2000 },
    Row { name: "digits_step_embedded", unit: "us", bar: "", measure: digits_step_embedded },
    Row { name: "digits_step_ipc", unit: "us", bar: "< 2x embedded", measure: digits_step_ipc },
    Row { name: "digits_read_embedded", unit: "us", bar: "", measure: digits_read_embedded },
    Row { name: "digits_read_ipc", unit: "us", bar: "< 2x embedded", measure: digits_read_ipc },
    Row { name: "copy_16m", unit: "GB/s", bar: "", measure: copy_16m },
    Row { name: "chain_16m", unit: "GB/s", bar: "> 0.8x copy_16m", measure: chain_16m },
    Row { name: "minmax_16m", unit: "GB/s", bar: "", measure: minmax_16m },
    Row { name: "tanh_16m", unit: "ms", bar: "< 11.8 (JAX)", measure: tanh_16m },
    Row { name: "memory_growth", unit: "KiB", bar: "about 0", measure: memory_growth },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let done = match words.first().map(String::as_str) {
        Some("--child-start") => child_start(),
        Some("--child-memory") => child_memory(),
        _ => table(&words),
    };
    if let Err(error) = done {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn table(words: &[String]) -> Outcome<()> {
    let json = words.iter().any(|word| word == "--json");
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let commit = commit();
    if !json {
        println!(
            "{:<22} {:>10} {:>22}  {:<15} {:<16} at {commit}",
            "row", "median", "smallest .. largest", "unit", "bar"
        );
    }
    for row in
        ROWS.iter().filter(|row| wanted.is_empty() || wanted.iter().any(|name| *name == row.name))
    {
        let mut samples = (row.measure)()?;
        samples.sort_by(f64::total_cmp);
        let (low, median, high) =
            (samples[0], samples[samples.len() / 2], samples[samples.len() - 1]);
        let Row { name, unit, bar, .. } = row;
        if json {
            println!(
                r#"{{"row":"{name}","median":{median},"smallest":{low},"largest":{high},"n":{},"unit":"{unit}","bar":"{bar}","commit":"{commit}"}}"#,
                samples.len()
            );
        } else {
            println!(
                "{name:<22} {median:>10.2} {:>22}  {unit:<15} {bar}",
                format!("{low:.2} .. {high:.2}")
            );
        }
    }
    Ok(())
}

fn commit() -> String {
    let git = |words: &[&str]| {
        Command::new("git").args(words).output().ok().filter(|output| output.status.success())
    };
    let head = git(&["rev-parse", "--short", "HEAD"])
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|output| !output.stdout.is_empty());
    format!(
        "{}{}",
        head.unwrap_or_else(|| "unknown".into()),
        if dirty { " with changes" } else { "" }
    )
}

/// `n` samples of what `measure` gives, after one that does not count.
fn samples(n: usize, mut measure: impl FnMut() -> Outcome<f64>) -> Outcome<Vec<f64>> {
    measure()?;
    (0..n).map(|_| measure()).collect()
}

fn seconds(work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

// From the first line of `main` of a new process to its first result.

fn embedded_start() -> Outcome<Vec<f64>> {
    samples(20, || child("--child-start"))
}

fn child_start() -> Outcome<()> {
    let time = seconds(|| {
        let x: T![4] = Tensor::ones();
        (&x + 1.0).to_vec::<f32>()?;
        Ok(())
    })?;
    println!("{}", time * 1e3);
    Ok(())
}

fn child(mode: &str) -> Outcome<f64> {
    let output =
        Command::new(std::env::current_exe()?).arg(mode).stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

// Recording alone: the processor time of the recording thread, which a busy machine does not lengthen. The worker runs beside it.

fn record() -> Outcome<Vec<f64>> {
    const N: usize = 200_000;
    let mut x: T![4] = Tensor::zeros();
    samples(20, || {
        let start = processor_nanoseconds()?;
        for _ in 0..N {
            x = &x + 1.0;
        }
        let time = processor_nanoseconds()? - start;
        x.to_vec::<f32>()?;
        Ok(time / N as f64)
    })
}

// Recording alone, with nothing at the other end, of a stream that keeps starting to repeat itself and breaking off.

/// A system that keeps the last segment and runs nothing.
#[derive(Default)]
struct Nowhere(Mutex<Tape>);

impl Backend for Nowhere {
    fn submit(&self, segment: Tape) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = segment;
    }
    fn upload(&self, _: ValueId, _: HostTensor) {}
    fn fetch(&self, _: ValueId) -> std::result::Result<HostTensor, RunError> {
        Err(RunError::new(ErrorKind::Internal, "nothing runs here"))
    }
    fn stats(&self) -> std::result::Result<Stats, RunError> {
        Ok(Stats::default())
    }
    fn close(&self) {}
}

fn period_detection() -> Outcome<Vec<f64>> {
    const N: usize = 200_000;
    let session = Session::with_backend(Arc::<Nowhere>::default());
    let _current = session.enter();
    let mut source = Source::from_seed(1);
    let bodies: Vec<Vec<usize>> =
        [1, 2, 30, 700, 3000].map(|n| (0..n).map(|_| source.below(4)).collect()).into();
    let mut x: T![4] = Tensor::zeros();
    samples(20, || {
        let start = processor_nanoseconds()?;
        let mut n = 0;
        while n < N {
            let body = &bodies[source.below(bodies.len())];
            let rounds = 1 + source.below(6);
            let last = source.below(body.len() + 1);
            for op in std::iter::repeat_n(&body[..], rounds).flatten().chain(&body[..last]) {
                x = match op {
                    0 => &x + 1.0,
                    1 => &x * 0.5,
                    2 => -&x,
                    _ => x.relu(),
                };
            }
            n += rounds * body.len() + last;
        }
        Ok((processor_nanoseconds()? - start) / n as f64)
    })
}

// What telling that a step of the digits example is the one before costs: its key, and its comparison with the template.

/// The segment of a step, and how many instructions it has.
fn segment_of_a_step() -> Outcome<(Tape, usize)> {
    let system = Arc::<Nowhere>::default();
    let session = Session::with_backend(system.clone());
    let _current = session.enter();
    let (training, _) = data::load();
    let batch: Vec<usize> = (0..32).collect();
    let net = model::Mlp::new();
    let mut optimizer =
        Sgd::new(net.parameters(), SgdConfig { momentum: 0.9, ..Default::default() });
    for _ in 0..4 {
        model::step(&net, &mut optimizer, training.pick(&batch))?;
    }
    let tape = system.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let n = tape.instrs().count();
    Ok((tape, n))
}

/// Nanoseconds an instruction.
fn each(n: usize, mut work: impl FnMut() -> Outcome<()>) -> Outcome<Vec<f64>> {
    const TIMES: usize = 20_000;
    samples(20, || {
        let start = processor_nanoseconds()?;
        (0..TIMES).try_for_each(|_| work())?;
        Ok((processor_nanoseconds()? - start) / (TIMES * n) as f64)
    })
}

fn canonical_key() -> Outcome<Vec<f64>> {
    let (tape, n) = segment_of_a_step()?;
    let (mut taking, mut bindings) = (Canonicalizer::new(), Bindings::default());
    each(n, || {
        black_box(taking.segment(&tape, &mut bindings));
        Ok(())
    })
}

fn template_match() -> Outcome<Vec<f64>> {
    let (tape, n) = segment_of_a_step()?;
    let ((template, mut bindings), mut matcher) = (canonical(&tape), Matcher::new());
    each(n, || {
        matcher.matches(&template, &tape, &mut bindings).map_err(|e| format!("{e:?}").into())
    })
}

/// How long this thread has run.
fn processor_nanoseconds() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

// 2,000 additions that depend on each other, on 4 elements, then a read.

fn dispatch2000() -> Outcome<Vec<f64>> {
    samples(30, || {
        let mut x: T![4] = Tensor::zeros();
        x.to_vec::<f32>()?;
        let time = seconds(|| {
            for _ in 0..2_000 {
                x = &x + 1.0;
            }
            assert_eq!(x.to_vec::<f32>()?, [2_000.0; 4]);
            Ok(())
        })?;
        Ok(time * 1e3)
    })
}

// One training step of the digits example: as it trains, reading the loss once an epoch, and with the loss of every step read.

/// Steps of an epoch.
const EPOCH: usize = 44;

fn digits_step_embedded() -> Outcome<Vec<f64>> {
    digits_step(&gt::embedded(1)?, EPOCH)
}

fn digits_step_ipc() -> Outcome<Vec<f64>> {
    on_a_cluster(|session| digits_step(session, EPOCH))
}

fn digits_read_embedded() -> Outcome<Vec<f64>> {
    digits_step(&gt::embedded(1)?, 1)
}

fn digits_read_ipc() -> Outcome<Vec<f64>> {
    on_a_cluster(|session| digits_step(session, 1))
}

/// With server and worker as processes of their own.
fn on_a_cluster(measure: impl FnOnce(&Session) -> Outcome<Vec<f64>>) -> Outcome<Vec<f64>> {
    let (_server, address) = started(&["server", "-p", "0"], "listening at ")?;
    let (_worker, _) =
        started(&["worker", "--connect", &address], "registered with the server at ")?;
    measure(&Session::connect(&address)?)
}

/// Microseconds a step when the sum of the losses is read every `n_steps`.
fn digits_step(session: &Session, n_steps: usize) -> Outcome<Vec<f64>> {
    let _current = session.enter();
    let (training, _) = data::load();
    let batch: Vec<usize> = (0..32).collect();
    let net = model::Mlp::new();
    let mut optimizer =
        Sgd::new(net.parameters(), SgdConfig { lr: 0.01, momentum: 0.9, ..Default::default() });
    let n_reads = 132 / n_steps;
    samples(20, || {
        let time = seconds(|| {
            for _ in 0..n_reads {
                let mut total: T![] = Tensor::zeros();
                for _ in 0..n_steps {
                    total += model::step(&net, &mut optimizer, training.pick(&batch))?;
                }
                total.item()?;
            }
            Ok(())
        })?;
        Ok(time / (n_reads * n_steps) as f64 * 1e6)
    })
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `gt-cli`, built beside this program, and returns the word after `mark` in what it says.
fn started(words: &[&str], mark: &str) -> Outcome<(Running, String)> {
    let this = std::env::current_exe()?;
    let program = this.ancestors().nth(2).ok_or("no folder")?.join("gt-cli");
    let mut child =
        Command::new(&program).args(words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let says = child.stderr.take().ok_or("no output")?;
    let running = Running(child);
    let mut lines = BufReader::new(says).lines();
    while let Some(line) = lines.next().transpose()? {
        if let Some((_, rest)) = line.split_once(mark) {
            let word = rest.split_whitespace().next().unwrap_or_default().to_string();
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((running, word));
        }
    }
    Err(format!("{} ended at once", program.display()).into())
}

// How fast two threads copy memory: 16 M floats from one place to another, read and written bytes counted.

const N_ELEMENTS: usize = 1 << 24;

fn copy_16m() -> Outcome<Vec<f64>> {
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

/// One array of `N_ELEMENTS` floats read and one written.
fn gigabytes_per_second(time: f64) -> f64 {
    (2 * N_ELEMENTS * size_of::<f32>()) as f64 / time / 1e9
}

// Pointwise operations on 16 M floats as one region: one kernel, one pass over memory.

fn chain_16m() -> Outcome<Vec<f64>> {
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

fn minmax_16m() -> Outcome<Vec<f64>> {
    let lines = ["maximum %0, 0.25", "minimum %1, 4.0", "mul %2, %0"];
    Ok(region_seconds(&lines)?.into_iter().map(gigabytes_per_second).collect())
}

// The chain of the peers' table: sum(tanh(1.5x + 0.25) * sigmoid(x) + x).

fn tanh_16m() -> Outcome<Vec<f64>> {
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

/// What a region takes that computes `%1`, `%2`, .. by these lines from an input `%0` of `N_ELEMENTS`.
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

// What the process grows by between step 1,000 and step 100,000.

fn memory_growth() -> Outcome<Vec<f64>> {
    Ok(vec![child("--child-memory")?])
}

fn child_memory() -> Outcome<()> {
    let (training, _) = data::load();
    let batch: Vec<usize> = (0..32).collect();
    let net = model::Mlp::new();
    let mut optimizer =
        Sgd::new(net.parameters(), SgdConfig { lr: 0.01, momentum: 0.9, ..Default::default() });
    let mut before = 0;
    for n_steps in 1..=100_000 {
        let loss = model::step(&net, &mut optimizer, training.pick(&batch))?;
        if n_steps % 100 == 0 {
            loss.item()?;
        }
        if n_steps == 1_000 {
            before = resident_kib()?;
        }
    }
    println!("{}", resident_kib()? as i64 - before as i64);
    Ok(())
}

/// The memory of this process, as the system counts it.
fn resident_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
