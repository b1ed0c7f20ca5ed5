//! Recording, and recognizing a repeated segment. All figures are processor time of the recording
//! thread.

use crate::{Outcome, data, model, samples};
use gt::ir::backend::{Backend, ErrorKind, RunError, Stats};
use gt::ir::canonical::{Bindings, Canonicalizer, Matcher, canonical};
use gt::ir::testing::Source;
use gt::ir::{HostTensor, Tape, ValueId};
use gt::prelude::*;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};

// Recording while a worker runs. A busy machine does not lengthen the processor time of the
// recording thread.

pub(crate) fn record() -> Outcome<Vec<f64>> {
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

// Recording without a system behind it, of a stream that starts to repeat and breaks off, again and
// again.

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

pub(crate) fn period_detection() -> Outcome<Vec<f64>> {
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

// The costs of recognizing a repeated step of the digits example: its key, and its comparison with
// the template.

/// The segment of a step, and the number of its instructions.
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

/// Nanoseconds for each instruction.
fn each(n: usize, mut work: impl FnMut() -> Outcome<()>) -> Outcome<Vec<f64>> {
    const TIMES: usize = 20_000;
    samples(20, || {
        let start = processor_nanoseconds()?;
        (0..TIMES).try_for_each(|_| work())?;
        Ok((processor_nanoseconds()? - start) / (TIMES * n) as f64)
    })
}

pub(crate) fn canonical_key() -> Outcome<Vec<f64>> {
    let (tape, n) = segment_of_a_step()?;
    let (mut taking, mut bindings) = (Canonicalizer::new(), Bindings::default());
    each(n, || {
        black_box(taking.segment(&tape, &mut bindings));
        Ok(())
    })
}

pub(crate) fn template_match() -> Outcome<Vec<f64>> {
    let (tape, n) = segment_of_a_step()?;
    let ((template, mut bindings), mut matcher) = (canonical(&tape), Matcher::new());
    each(n, || {
        matcher.matches(&template, &tape, &mut bindings).map_err(|e| format!("{e:?}").into())
    })
}

/// The processor time of this thread.
fn processor_nanoseconds() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}
