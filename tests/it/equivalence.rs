//! The training run of a GPT has PyTorch's losses in every step, from the same weights and
//! passages.
//!
//! The architecture, the formulas of weights and passages, and the training equal those of
//! `tests/fixtures/make.py`, which made `tests/fixtures/gpt.json`. Read the two side by side.

use gt::functional::Attention;
use gt::ir::HostTensor;
use gt::optim::schedule::{Scheduler, WarmupCosine};
use gt::prelude::*;
use gt::{ShardConfig, SignalConfig, signal};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::tier::{Tiers, When};
use std::sync::{Mutex, PoisonError};

const VOCABULARY: usize = 64;
const CONTEXT: usize = 32;
const WIDTH: usize = 48;
const HEADS: usize = 4;
const HEAD: usize = WIDTH / HEADS;
const LAYERS: usize = 2;
const BATCH: usize = 8;
const STEPS: u64 = 50;

dims! { Batch }

type Tokens = T![Batch, { CONTEXT }; Int];
type Hidden = T![Batch, { CONTEXT }, { WIDTH }];
type Square = Linear<N<WIDTH>, N<WIDTH>>;

#[derive(Module)]
struct Block {
    norm1: LayerNorm<N<WIDTH>>,
    #[signal("columns")]
    query: Square,
    #[signal("columns")]
    key: Square,
    #[signal("columns")]
    value: Square,
    out: Square,
    norm2: LayerNorm<N<WIDTH>>,
    #[signal("columns")]
    up: Linear<N<WIDTH>, N<{ 4 * WIDTH }>>,
    down: Linear<N<{ 4 * WIDTH }>, N<WIDTH>>,
}

impl Block {
    fn attention(&self, x: &Hidden) -> Hidden {
        let [q, k, v] = [self.query(x), self.key(x), self.value(x)].map(|part| {
            let apart: T![Batch, { CONTEXT }, { HEADS }, { HEAD }] = part.reshape();
            apart.transpose::<1, 2>()
        });
        let causal = Attention { causal: true, ..Attention::default() };
        let mixed = q.scaled_dot_product_attention(&k, &v, causal).transpose::<1, 2>();
        self.out.forward(&mixed.reshape::<shape![Batch, { CONTEXT }, { WIDTH }]>())
    }

    fn forward(&self, x: &Hidden) -> Hidden {
        let x = x + self.attention(&self.norm1.forward(x));
        &x + self.down.forward(&self.up(&self.norm2.forward(&x)).gelu_tanh())
    }
}

#[derive(Module)]
struct Gpt {
    tokens: Embedding<N<VOCABULARY>, N<WIDTH>>,
    positions: Embedding<N<CONTEXT>, N<WIDTH>>,
    #[module(init = repeat(LAYERS))]
    blocks: Vec<Block>,
    norm: LayerNorm<N<WIDTH>>,
}

impl Gpt {
    fn loss(&self, (tokens, following): &(Tokens, Tokens)) -> T![] {
        let _forward = signal::scope("forward");
        let x = self.tokens.forward(tokens) + &self.positions.weight;
        let x = self.blocks.iter().enumerate().fold(x, |x, (i, block)| {
            let _stage = signal::scope(["first", "second"][i]);
            block.forward(&x)
        });
        let _head = signal::scope("head");
        self.norm.forward(&x).matmul(&self.tokens.weight.t()).cross_entropy(following)
    }
}

/// Numbers in [-1, 1): Knuth's linear congruential generator, its highest 24 bits.
fn uniform(seed: u64) -> impl Iterator<Item = f64> {
    let next = |state: &u64| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    std::iter::successors(Some(seed), next).skip(1).map(|s| (s >> 40) as f64 / 8_388_608.0 - 1.0)
}

/// Each parameter by the position of its name.
fn initial_weights(net: &Gpt) -> StateDict {
    let mut named = net.named_parameters();
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    let weights = named.into_iter().enumerate().map(|(at, (name, p))| {
        let is_gain = name.contains("norm") && name.contains("weight");
        let value = |u: f64| match p.rank() {
            2 => u / 8.0,
            _ if is_gain => 1.0 + u / 16.0,
            _ => u / 16.0,
        };
        let data: Vec<f32> = uniform(at as u64).take(p.numel()).map(|u| value(u) as f32).collect();
        (name, HostTensor::from_vec(data, p.shape()).unwrap())
    });
    weights.collect()
}

/// The passages of a batch, and the token after each of their tokens.
fn passages(text: &[i64], batch: usize) -> (Tokens, Tokens) {
    let starts = (0..BATCH).map(|row| (batch * BATCH + row) * 7919 % (text.len() - CONTEXT));
    let rows = |shift: usize| {
        let tokens = starts.clone().flat_map(|s| &text[s + shift..s + shift + CONTEXT]);
        Tensor::from_vec(tokens.copied().collect::<Vec<i64>>())
    };
    (rows(0), rows(1))
}

fn optimizer(net: &Gpt) -> AdamW {
    let config = AdamWConfig { lr: 4e-3, betas: (0.9, 0.95), ..AdamWConfig::default() };
    let (matrices, others) = net.parameters().into_iter().partition(|p| p.rank() > 1);
    AdamW::with_groups([
        (matrices, AdamWConfig { weight_decay: 0.1, ..config }),
        (others, AdamWConfig { weight_decay: 0.0, ..config }),
    ])
}

/// The results of a run: the loss and the norm of the gradients of each step, and the validation
/// loss.
#[derive(PartialEq)]
struct Run {
    losses: Vec<f64>,
    norms: Vec<f64>,
    validation: f64,
}

fn train() -> Result<Run> {
    let bytes = include_bytes!("../../examples/data/devils-dictionary.txt");
    let text: Vec<i64> = bytes.iter().map(|b| i64::from(*b) % VOCABULARY as i64).collect();
    let mut net = Gpt::new();
    net.load_state_dict(&initial_weights(&net))?;
    let mut optimizer = optimizer(&net);
    let schedule = WarmupCosine { warmup: 10, total: STEPS, min_factor: 0.1 };
    let mut scheduler = Scheduler::new(&mut optimizer, schedule);
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for step in 0..STEPS as usize {
        let loss = net.loss(&passages(&text, step));
        optimizer.zero_grad();
        loss.backward()?;
        let norm = clip_grad_norm(&net.parameters(), 1.0);
        optimizer.step()?;
        scheduler.step(&mut optimizer);
        losses.push(loss.item()?);
        norms.push(norm.item()?);
    }
    let validation = no_grad(|| net.loss(&passages(&text, STEPS as usize))).item()?;
    Ok(Run { losses, norms, validation })
}

/// The largest relative difference.
fn apart(ours: &[f64], theirs: &serde_json::Value) -> f64 {
    let theirs = theirs.as_array().unwrap().iter().map(|number| number.as_f64().unwrap());
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(a, b)| ((a - b) / b).abs()).fold(0.0, f64::max)
}

/// A signal of a run: its name, and how it splits its tensors.
type Sharded = (&'static str, ShardConfig);

/// An axis on workers, on all if none are named.
fn split(axis: i64, workers: &[u32]) -> ShardConfig {
    let workers = Some(workers.to_vec()).filter(|workers| !workers.is_empty());
    ShardConfig { axis: axis.into(), workers, ..ShardConfig::default() }
}

/// The first axis on the rows of a mesh of four workers, and another axis on its columns.
fn meshed(columns: Option<i64>) -> ShardConfig {
    let mesh = Some(vec![vec![0, 1], vec![2, 3]]);
    ShardConfig { mesh, columns: columns.map(Into::into), ..ShardConfig::default() }
}

/// One run at a time, because signals are configured for the whole process.
pub(crate) static RUNNING: Mutex<()> = Mutex::new(());

/// Trains on so many workers under signals, and compares the run with PyTorch's. Returns it with
/// the number of launches.
fn check(workers: usize, signals: &[Sharded]) -> (Run, u64) {
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, shard) in signals {
        let config = SignalConfig { shard: Some(shard.clone()), ..SignalConfig::default() };
        gt::register_config(name, config).unwrap();
    }
    let system = System::start_with(workers, Tiers::compiled(When::Blocking), Log::off()).unwrap();
    let session = Session::with_backend(system.session());
    let _current = session.enter();
    let run = train();
    for (name, ..) in signals {
        gt::register_config(name, SignalConfig::default()).unwrap();
    }
    let run = run.unwrap();
    let pytorch: serde_json::Value =
        serde_json::from_str(include_str!("../fixtures/gpt.json")).unwrap();
    let [losses, norms, validation] = [
        apart(&run.losses, &pytorch["losses"]),
        apart(&run.norms, &pytorch["norms"]),
        apart(&[run.validation], &serde_json::json!([pytorch["validation"]])),
    ];
    // Rounding changes the values by less than 1e-6. The other formula of `gelu` changes losses by
    // 1e-5 and norms by 3e-4.
    assert!(losses < 1e-5, "losses differ by {losses:.1e}: {signals:?}");
    assert!(norms < 1e-4, "norms of gradients differ by {norms:.1e}: {signals:?}");
    assert!(validation < 1e-5, "the validation loss differs by {validation:.1e}: {signals:?}");
    let stats = session.stats().unwrap();
    // Nobody stands by: each worker has computed.
    assert_eq!(stats.workers.len(), workers);
    assert!(stats.workers.iter().all(|worker| worker.launches >= STEPS - 3), "{stats:?}");
    (run, stats.total().launches)
}

#[test]
fn a_gpt_learns_as_it_does_in_pytorch() {
    // The steps ran as plans, so the values come from compiled kernels.
    assert!(check(1, &[]).1 >= STEPS - 3);
}

#[test]
fn a_gpt_learns_the_same_with_its_batch_on_several_workers() {
    for workers in [2, 3] {
        check(workers, &[("forward", split(0, &[]))]);
    }
}

#[test]
fn a_gpt_learns_the_same_with_its_matrices_on_several_workers() {
    check(2, &[("columns", split(-1, &[]))]);
}

#[test]
fn a_gpt_learns_the_same_with_its_layers_on_several_workers() {
    let stages = [("first", [0]), ("second", [1]), ("head", [1])];
    check(2, &stages.map(|(name, workers)| (name, split(0, &workers))));
}

#[test]
fn a_gpt_learns_the_same_with_batch_and_layers_on_several_workers() {
    let stages: [(_, &[u32]); 5] = [
        ("forward", &[0, 1]),
        ("first", &[0, 1]),
        ("second", &[2, 3]),
        ("head", &[2, 3]),
        ("columns", &[1, 3]),
    ];
    check(4, &stages.map(|(name, workers)| (name, split(0, workers))));
}

#[test]
fn a_gpt_learns_the_same_with_batch_and_matrices_on_a_mesh() {
    let signals = [("forward", meshed(None)), ("columns", meshed(Some(-1)))];
    let [one, two] = [0; 2].map(|_| check(4, &signals).0);
    assert!(one == two, "two runs have different bits");
}

#[test]
fn an_error_on_several_workers_names_the_line() {
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let config = SignalConfig { shard: Some(split(0, &[])), ..SignalConfig::default() };
    gt::register_config("rows", config).unwrap();
    let system = System::start(2, Log::off()).unwrap();
    let session = Session::with_backend(system.session());
    let _current = session.enter();
    let line = line!() + 4;
    let sum = {
        let _rows = signal::scope("rows");
        let x = DynTensor::from_vec((0..12).collect::<Vec<i64>>(), [4, 3]);
        x.index_select(1, &DynTensor::from_vec(vec![7_i64], [1])).sum(..)
    };
    let said = sum.item().unwrap_err().to_string();
    gt::register_config("rows", SignalConfig::default()).unwrap();
    assert!(said.contains("index 7 is out of range for axis 1 of size 3"), "{said}");
    assert!(said.contains(&format!("equivalence.rs:{line}:")), "{said}");
    // The session goes on.
    assert_eq!(DynTensor::full([3], 4.0, DType::F32).sum(..).item().unwrap(), 12.0);
}
