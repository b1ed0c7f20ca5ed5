//! Networks train on several workers as on one, in all forms of parallelism, and two runs have the
//! same bits.

#[cfg(all(feature = "torch", target_os = "linux"))]
mod lanes;
mod machines;
mod nets;
mod processes;

use crate::equivalence::RUNNING;
use gt::config::Schedule;
use gt::ir::backend::Demand;
use gt::prelude::*;
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::tier::{Tiers, When};
use nets::Net;
use std::sync::PoisonError;

/// Signals with their configurations.
type Form = Vec<(&'static str, SignalConfig)>;

fn signal(shard: ShardConfig) -> SignalConfig {
    SignalConfig { shard: Some(shard), ..SignalConfig::default() }
}

/// An axis on all workers.
fn axis(axis: i64) -> SignalConfig {
    signal(ShardConfig { axis: axis.into(), ..ShardConfig::default() })
}

/// An axis on some workers.
fn on(workers: impl IntoIterator<Item = u32>, axis: i64) -> SignalConfig {
    let workers = Some(workers.into_iter().collect());
    signal(ShardConfig { workers, axis: axis.into(), ..ShardConfig::default() })
}

/// A stage on one worker, the gradients of which are computed on another.
fn apart(worker: u32, backward: &str) -> SignalConfig {
    SignalConfig { backward: Some(backward.into()), ..on([worker], 0) }
}

/// The first axis on the rows of a mesh, and perhaps another one on its columns.
fn mesh(n: u32, columns: Option<i64>) -> SignalConfig {
    let rows = match n {
        4 => vec![vec![0, 1], vec![2, 3]],
        _ => vec![(0..n).collect()],
    };
    let columns = columns.map(Into::into);
    signal(ShardConfig { mesh: Some(rows), columns, ..ShardConfig::default() })
}

/// An axis on some workers, in micro-batches.
fn cut(workers: Option<Vec<u32>>, microbatches: u32, schedule: Schedule) -> SignalConfig {
    let microbatches = Some(microbatches);
    signal(ShardConfig { workers, microbatches, schedule, ..ShardConfig::default() })
}

/// The forms of parallelism on so many workers.
fn forms(n: u32) -> Vec<(&'static str, Form)> {
    let copies = signal(ShardConfig { replicated: true, ..ShardConfig::default() });
    let (half, last) = (n.div_ceil(2), n - 1);
    let backwards = vec![
        ("first", apart(0, "first_grad")),
        ("first_grad", on([last], 0)),
        ("second", apart(last, "second_grad")),
        ("second_grad", on([0], 0)),
    ];
    vec![
        ("data", vec![("batch", axis(0))]),
        ("last", vec![("batch", axis(-1))]),
        ("tensor", vec![("columns", axis(-1)), ("channels", axis(0))]),
        ("pipeline", vec![("first", on([0], 0)), ("second", on([last], 0))]),
        ("backwards", backwards),
        ("copies", vec![("batch", copies)]),
        ("mesh", vec![("batch", mesh(n, None)), ("columns", mesh(n, Some(-1)))]),
        ("stages", vec![("first", on(0..half, 0)), ("second", on(n - half..n, 0))]),
        ("batches", vec![("batch", cut(None, 3, Schedule::default()))]),
        ("gpipe", staged(last, Schedule::Gpipe)),
        ("1f1b", staged(last, Schedule::OneForwardOneBackward)),
        (
            "crossed",
            vec![("batch", axis(0)), ("columns", axis(-1)), ("second", on((0..n).rev(), 1))],
        ),
    ]
}

/// Micro-batches of two stages, as far as there are two workers.
fn staged(last: u32, schedule: Schedule) -> Form {
    let batch = cut(Some(vec![0]), 3, schedule);
    vec![("batch", batch), ("first", on([0], 0)), ("second", on([last], 0))]
}

/// Runs a program on so many workers under signals, with plans or without.
fn run<T>(workers: u32, when: When, form: &Form, program: impl FnOnce() -> Result<T>) -> T {
    run_asking(&Demand::new(), workers, when, form, program)
}

/// As [`run`], in a session that asks for something.
fn run_asking<T>(
    demand: &Demand,
    workers: u32,
    when: When,
    form: &Form,
    program: impl FnOnce() -> Result<T>,
) -> T {
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, config) in form {
        register_config(name, config.clone()).unwrap();
    }
    let system = System::start_with(workers as usize, Tiers::compiled(when), Log::off()).unwrap();
    let session = Session::with_backend(system.session_asking(demand));
    let _current = session.enter();
    session.manual_seed(1);
    let result = program();
    for (name, _) in form {
        register_config(name, SignalConfig::default()).unwrap();
    }
    result.unwrap()
}

fn optimizer(net: &Net) -> Sgd {
    let config = SgdConfig { lr: 0.05, momentum: 0.9, ..SgdConfig::default() };
    Sgd::new(net.parameters.clone(), config)
}

/// The loss of a step of training.
fn step(net: &Net, optimizer: &mut Sgd) -> Result<f64> {
    let loss = (net.loss)();
    optimizer.zero_grad();
    loss.backward()?;
    optimizer.step()?;
    loss.item()
}

/// The losses of four steps, the loss after them, and what the network has learned.
fn train(net: fn() -> Net) -> Result<Vec<f64>> {
    let net = net();
    let mut optimizer = optimizer(&net);
    let mut results = Vec::new();
    for _ in 0..4 {
        results.push(step(&net, &mut optimizer)?);
    }
    results.push(no_grad(&net.loss).item()?);
    for parameter in &net.parameters {
        results.extend(parameter.to_vec::<f64>()?);
    }
    Ok(results)
}

/// Trains a network on two, three (with plans, twice) and four workers. The results are those of
/// one worker, but for rounding.
fn check(name: &str, net: fn() -> Net, rounding: f64) {
    let one = run(1, When::Never, &Form::new(), || train(net));
    let largest = one.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
    let check = |n: u32, when: When, form: &str, (demand, signals): (&Demand, &Form)| {
        let many = run_asking(demand, n, when, signals, || train(net));
        assert_eq!(many.len(), one.len());
        for (i, (a, b)) in one.iter().zip(&many).enumerate() {
            let near = (a - b).abs() <= rounding * largest;
            assert!(near, "{name}, {form} on {n}: {i} is {b}, but {a} on one worker");
        }
        many
    };
    for (form, signals) in forms(2) {
        check(2, When::Never, form, (&Demand::new(), &signals));
    }
    let alone = [1, 3, 100].map(|n| vec![("batch", cut(None, n, Schedule::default()))]);
    for (form, when) in alone.iter().zip([When::Never, When::Blocking, When::Never]) {
        check(1, when, "micro-batches", (&Demand::new(), form));
    }
    for (form, signals) in forms(4).iter().filter(|(form, _)| OF_FOUR.contains(form)) {
        check(4, When::Never, form, (&Demand::new(), signals));
    }
    for zero in 0..=3 {
        let demand = Demand { auto: Some(true), zero: Some(zero), ..Demand::new() };
        check(2 + u32::from(zero), When::Never, "without signals", (&demand, &Form::new()));
        let (form, signals) = &forms(4)[usize::from(zero)];
        check(4, When::Never, form, (&demand, signals));
    }
    let (form, signals) = &forms(3)[0];
    let [one, two] = [0; 2].map(|_| check(3, When::Blocking, form, (&Demand::new(), signals)));
    assert_eq!(one, two, "{name}, {form}: two runs");
}

/// The forms in which four workers differ from two.
const OF_FOUR: [&str; 4] = ["tensor", "mesh", "stages", "crossed"];

macro_rules! nets {
    ($($net:ident: $rounding:literal),* $(,)?) => { $(
        #[test]
        fn $net() {
            check(stringify!($net), nets::$net, $rounding);
        }
    )* };
}
nets! {
    perceptron: 1e-11,
    convolutions: 1e-11,
    autoencoder: 1e-11,
    recurrent: 1e-11,
    transformer: 1e-11,
    normalized: 1e-11,
    routed: 1e-11,
    mixed: 1e-2,
}

/// The bits of random tensors of several kinds.
fn random() -> Result<Vec<HostTensor>> {
    let mut all = Vec::new();
    for name in ["batch", "columns", "none"] {
        let _scope = gt::signal::scope(name);
        all.push(DynTensor::rand([5, 3], DType::F32).to_host()?);
        all.push(DynTensor::randn([7], DType::Bf16).mul(2.0).to_host()?);
        all.push(DynTensor::randint(-3, 9, [2, 4], DType::I32).to_host()?);
        all.push(DynTensor::randperm(9).to_host()?);
        all.push(DynTensor::ones([4, 4], DType::F64).dropout(0.5).to_host()?);
        all.push(DynTensor::ones([6, 2], DType::F32).div(2.0).bernoulli().to_host()?);
        all.push(DynTensor::ones([3, 5], DType::F32).multinomial(2).to_host()?);
    }
    Ok(all)
}

#[test]
fn random_numbers_have_the_same_bits_on_any_number_of_workers() {
    let one = run(1, When::Never, &Form::new(), random);
    for n in 2..=4 {
        for (form, signals) in forms(n) {
            assert_eq!(run(n, When::Never, &signals, random), one, "{form} on {n}");
        }
    }
}

/// The losses of steps, each of which begins with other signals.
fn changing(forms: &[Form]) -> Result<Vec<f64>> {
    let net = nets::transformer();
    let mut optimizer = optimizer(&net);
    let mut losses = Vec::new();
    for form in forms {
        for (name, config) in form {
            register_config(name, config.clone())?;
        }
        losses.push(step(&net, &mut optimizer)?);
        for (name, _) in form {
            register_config(name, SignalConfig::default())?;
        }
    }
    Ok(losses)
}

#[test]
fn signals_may_change_between_steps() {
    let forms: Vec<Form> = forms(4).into_iter().map(|(_, form)| form).collect();
    let forms: Vec<Form> = forms.iter().chain(forms.iter().rev()).cloned().collect();
    let none = vec![Form::new(); forms.len()];
    let one = run(1, When::Never, &Form::new(), || changing(&none));
    for when in [When::Never, When::Blocking] {
        let many = run(4, when, &Form::new(), || changing(&forms));
        for (step, (a, b)) in one.iter().zip(&many).enumerate() {
            assert!((a - b).abs() < 1e-10, "step {step}: {b}, but {a} on one worker");
        }
    }
}

/// The losses of a run of many steps, and the most bytes that its workers had at a time.
fn curve() -> Result<(Vec<f64>, u64)> {
    let weights = nets::chain(6, 32);
    let parameters = weights.clone();
    let net = Net { parameters, loss: Box::new(move || nets::staged(512, &weights)) };
    let mut optimizer = optimizer(&net);
    let losses: Result<Vec<f64>> = (0..20).map(|_| step(&net, &mut optimizer)).collect();
    let workers = Session::current()?.stats()?.workers;
    Ok((losses?, workers.iter().map(|worker| worker.memory.peak).max().unwrap_or(0)))
}

/// A pipeline whose gradients are computed where its layers are.
fn stages(batch: SignalConfig, last: u32) -> Form {
    let stage = |worker: u32, name: &str| apart(worker, name);
    vec![("batch", batch), ("first", stage(0, "first")), ("second", stage(last, "second"))]
}

/// The workers of a process share its memory, so the peak is that of all of them.
#[test]
fn micro_batches_learn_the_same_in_less_memory() {
    let (plain, most) = run(1, When::Never, &Form::new(), curve);
    assert!(plain[19] < 0.9 * plain[0], "{plain:?}");
    let [gpipe, one] = [Schedule::Gpipe, Schedule::OneForwardOneBackward];
    let (mut peaks, mut curves) = (Vec::new(), Vec::new());
    for (workers, n, schedule) in [(1, 4, one), (2, 4, one), (2, 16, one), (2, 16, gpipe)] {
        let form = stages(cut(Some(vec![0]), n, schedule), workers - 1);
        let (curve, peak) = run(workers, When::Never, &form, curve);
        for (step, (a, b)) in plain.iter().zip(&curve).enumerate() {
            assert!((a - b).abs() < 1e-10, "{workers} workers, step {step}: {b}, but {a} on one");
        }
        peaks.push(peak);
        curves.push(curve);
    }
    assert_eq!(curves[2], curves[3], "the order of a schedule changes no bit");
    assert!(peaks[0] * 2 < most && peaks[1] < most, "{peaks:?} of {most}");
    assert!(peaks[2] < peaks[3], "1f1b needs no less than gpipe: {peaks:?}");
}

/// What each worker holds after 4 steps, and after 12.
fn held() -> Result<[Vec<(u64, u64)>; 2]> {
    let net = nets::transformer();
    let mut optimizer = optimizer(&net);
    let mut after = |steps: usize| {
        for _ in 0..steps {
            step(&net, &mut optimizer)?;
        }
        let mut workers = Session::current()?.stats()?.workers;
        workers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(workers.iter().map(|worker| (worker.live_values, worker.live_bytes)).collect())
    };
    Ok([after(4)?, after(8)?])
}

#[test]
fn no_step_leaves_values_on_the_members() {
    for (form, signals) in forms(4) {
        let [early, late] = run(4, When::Never, &signals, held);
        assert_eq!(early, late, "{form}");
        assert!(early.iter().any(|(values, _)| *values > 0), "{form}: {early:?}");
    }
}
