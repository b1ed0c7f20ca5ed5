//! What recording one instruction costs: `cargo run --release -p gt-lang --example record_cost`.
//!
//! The backend takes segments and drops them, so nothing but the client's side is measured: handle,
//! type inference, source place, tape entry, and the entry that frees the value.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use gt_ir::backend::{Backend, ErrorKind, RunError, Stats, Target};
use gt_ir::canonical::{Canonicalizer, Matcher, canonical, expand};
use gt_ir::{DType, HostTensor, Tape, ValueId};
use gt_lang::functional::cross_entropy;
use gt_lang::optim::{Optimizer, Sgd, SgdConfig};
use gt_lang::{DynTensor, Session};

/// Keeps the last segment.
#[derive(Default)]
struct Null(Mutex<Tape>);

impl Backend for Null {
    fn submit(&self, segment: Tape) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = black_box(segment);
    }
    fn upload(&self, _: ValueId, data: HostTensor) {
        black_box(data);
    }
    fn fetch(&self, _: ValueId) -> Result<HostTensor, RunError> {
        Err(RunError::new(ErrorKind::Internal, "nothing runs here"))
    }
    fn stats(&self) -> Result<Stats, RunError> {
        Ok(Stats::default())
    }
    fn close(&self) {}
}

#[expect(
    unsafe_code,
    reason = "this program is linked without gt-runtime, which defines the symbol"
)]
// SAFETY: the only definition in this program, with the signature gt-lang declares.
#[unsafe(no_mangle)]
fn __gt_embedded_backend(_: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
    Ok(Arc::new(Null::default()))
}

/// Instructions of a burst.
const BURST: u32 = 2_000;

/// The median of 300 short bursts, in nanoseconds an instruction; bursts are shorter than a time
/// slice, so that other work of the machine disturbs few of them. An argument of the program picks
/// measurements by name.
fn measure(name: &str, instructions: u32, mut body: impl FnMut()) {
    if std::env::args().nth(1).is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let mut runs: Vec<f64> = (0..300)
        .map(|_| {
            #[expect(clippy::disallowed_methods, reason = "a measurement")]
            let start = Instant::now();
            for _ in 0..BURST / instructions {
                body();
            }
            start.elapsed().as_nanos() as f64 / f64::from(BURST)
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    #[expect(clippy::print_stdout, reason = "the purpose of the program")]
    {
        println!("{name:<36} {:>7.1} ns an instruction", runs[runs.len() / 2]);
    }
}

fn main() {
    let system = Arc::new(Null::default());
    let session = Session::with_backend(system.clone());
    let _entered = session.enter();
    let x = DynTensor::randn([32, 64], DType::F32);
    let y = DynTensor::randn([64], DType::F32);
    let w = DynTensor::randn([64, 10], DType::F32).requires_grad();
    let tracked = x.matmul(&w);
    measure("add, same shape", 1, || drop(black_box(&x + &x)));
    measure("add, broadcast", 1, || drop(black_box(&x + &y)));
    measure("add, number", 1, || drop(black_box(&x + 2.0)));
    measure("exp", 1, || drop(black_box(x.exp())));
    measure("sum over an axis", 1, || drop(black_box(x.sum(-1))));
    measure("reshape", 1, || drop(black_box(x.reshape([64, -1]))));
    let v = w.detach();
    measure("matmul", 1, || drop(black_box(x.matmul(&v))));
    measure("matmul with a leaf, tracked", 1, || drop(black_box(x.matmul(&w))));
    measure("relu of a tracked tensor", 1, || drop(black_box(tracked.relu())));
    let mut chain = x.clone();
    measure("dependent add", 1, || chain = &chain + 1.0);
    measure("relu(x @ w), sum, backward", 10, || {
        let loss = x.matmul(&w).relu().sum(..);
        black_box(loss.backward()).unwrap_or_else(|e| panic!("{e}"));
        w.zero_grad();
    });
    // Rounds of 40 and of 700 that keep breaking off: what looking for periods costs at worst.
    let (mut y, mut i, mut round) = (x.clone(), 0_u32, 40);
    measure("streams that begin to repeat", 1, || {
        i = if i + 1 < round { i + 1 } else { 0 };
        if i % 97 == 96 {
            (i, round) = (i / 3, 740 - round);
        }
        y = if i.wrapping_mul(2_654_435_761) >> 30 & 1 == 0 { &y + 1.0 } else { y.relu() };
    });
    steps(&session, &system);
}

/// Steps of training: recorded, and what telling that they are the same costs.
fn steps(session: &Session, system: &Null) {
    let layer = |i: usize, o: usize| {
        let of = |sizes: &[usize]| DynTensor::randn(sizes, DType::F32).requires_grad();
        [of(&[i, o]), of(&[o])]
    };
    let layers = [layer(64, 128), layer(128, 64), layer(64, 10)];
    let config = SgdConfig { momentum: 0.9, ..SgdConfig::default() };
    let mut sgd = Sgd::new(layers.iter().flatten().cloned(), config);
    let x = DynTensor::randn([32, 64], DType::F32);
    let classes = DynTensor::zeros([32], DType::I64);
    let mut step = || {
        let hidden = layers[..2].iter().fold(x.clone(), |x, [w, b]| x.matmul(w).add(b).relu());
        let loss = cross_entropy(&hidden.matmul(&layers[2][0]).add(&layers[2][1]), &classes);
        sgd.zero_grad();
        black_box(loss.backward().and_then(|()| sgd.step())).unwrap_or_else(|e| panic!("{e}"));
    };
    (0..3).for_each(|_| step());
    session.flush();
    step();
    let tape = system.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let n = tape.instrs().count() as u32;
    measure(&format!("a step of {n} with SGD"), n, step);
    let (mut taking, mut matcher) = (Canonicalizer::new(), Matcher::new());
    let (template, mut bindings) = canonical(&tape);
    measure("canonical key", n, || {
        black_box(taking.segment(&tape, &mut bindings));
    });
    measure("template match", n, || {
        black_box(matcher.matches(&template, &tape, &mut bindings))
            .unwrap_or_else(|e| panic!("{e:?}"));
    });
    measure("template and bindings expanded", n, || {
        drop(black_box(expand(&template, &bindings)));
    });
}
