//! A zoo of programs with snapshots of their costs, the ops of their optimized graphs, and the
//! launches of their plans. The numbers of values and buffers are left out, since all of them move
//! when one is added. One program is kept in full.
//!
//! A change in these snapshots is a change in the compiled programs, and reviewers read it as such.
//! A refactoring keeps them to the byte. The tests compile the second step of each program, when an
//! optimizer has its state. The snapshots do not depend on the machine.

mod nets;

use std::collections::BTreeMap;

use crate::snapshots::check;
use gt::ir::verify::Verifier;
use gt::ir::{Graph, NodeKind};
use gt::prelude::*;
use gt_compiler::{Dump, Engine, Machine, Native, NativeConfig, Options, Report, pipeline};

/// A step of a program: records instructions, and reads or keeps values.
pub(crate) type Step = Box<dyn FnMut() -> Result<()>>;

/// The program that is kept in full.
const IN_FULL: &str = "mlp_step";

/// Compiles the second step of a program and compares it with the snapshot of this name.
#[track_caller]
fn watch(name: &str, program: fn() -> Step) {
    let session = gt::embedded(1).unwrap();
    let _current = session.enter();
    session.manual_seed(0);
    session.start_trace();
    let mut step = program();
    step().unwrap();
    let before = session.stop_trace();
    session.start_trace();
    step().unwrap();
    let tape = session.stop_trace_as_submitted();

    let mut types = Verifier::new();
    before.entries.iter().for_each(|entry| drop(types.entry(entry)));
    let segment = gt::ir::segment(&tape, |value| types.ty(value)).unwrap();
    let options = Options::default();
    let graph = pipeline::optimize(&segment.graph, &options, &Machine::PROCESSOR).unwrap().graph;
    let config = NativeConfig { threads: 2, store: None, ..NativeConfig::host() };
    let compiler = Native::new(config).unwrap().compiler();
    let compiled = compiler.compile(&segment.graph, &segment.donated, &options).unwrap();
    let plan = compiled.program.dump(Dump::Plan).unwrap();
    let costs = costs(&compiled.report);
    check(&format!("zoo_{name}"), &format!("{costs}\n{}\n{}", ops(&graph), launches(&plan)));
    if name == IN_FULL {
        check(&format!("zoo_{name}_in_full"), &format!("{costs}\n{graph}\n{plan}"));
    }
    #[cfg(feature = "torch")]
    crate::torch::agrees(name, program);
}

/// The costs of a program before and after the passes, and the size of the result.
fn costs(report: &Report) -> String {
    let Report { instructions, kernels, launches, nodes, before, after, peak, .. } = report;
    format!(
        "{instructions} instructions, {kernels} kernels in {launches} launches\n\
         nodes {} -> {}\nbytes {} -> {}\npeak bytes {} -> {}\n",
        nodes[0], nodes[1], before.bytes, after.bytes, peak[0], peak[1]
    )
}

/// How often each op occurs.
fn ops(graph: &Graph) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for id in graph.ids() {
        if let NodeKind::Op(op) = graph.node(id).kind {
            *counts.entry(op.name()).or_default() += 1;
        }
    }
    counts.iter().map(|(op, n)| format!("{n:4} {op}\n")).collect()
}

/// A plan without the names of its buffers and the numbers of its kernels.
fn launches(plan: &str) -> String {
    let mut text = String::new();
    for line in plan.lines().filter(|line| !line.starts_with("outputs ")) {
        let indent = line.len() - line.trim_start().len();
        // Behind a kernel stand its buffers, in parentheses, and the number of its pieces.
        let (head, buffers) = line.split_once(" (").unwrap_or((line, ""));
        let tail = buffers.rsplit_once(')').map_or("", |(_, tail)| tail);
        let words =
            head.split_whitespace().filter(|word| !is_buffer(word)).map(|word| match word {
                "*" => "product",
                word => word,
            });
        let mut words: Vec<&str> = words.skip_while(|word| *word == "=").collect();
        if words.first() == Some(&"kernel") {
            words.remove(1);
        }
        text += &format!("{:indent$}{}{tail}\n", "", words.join(" "));
    }
    text
}

/// Whether a word is the name of a buffer: a letter or two and a number, perhaps with the input in
/// whose memory it lies.
fn is_buffer(word: &str) -> bool {
    let name = word.trim_end_matches(',').split('(').next().unwrap_or(word);
    ["out", "in", "a", "b", "s"].iter().any(|kind| {
        name.strip_prefix(kind)
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

dims! { Batch, Seq }

/// Inputs and their labels.
type Labelled = (T![Batch, 16], T![Batch; Int]);

const BATCH: usize = 8;

/// Numbers for data: different from each other, and the same in every run.
fn data(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect()
}

fn classes(n: usize) -> Vec<i64> {
    (0..n as i64).map(|i| i * 7 % 10).collect()
}

/// Records a step of training: a loss, its gradients, an update.
fn trained(mut optimizer: Sgd, loss: impl Fn() -> T![] + 'static) -> Step {
    Box::new(move || {
        let loss = loss();
        optimizer.zero_grad();
        loss.backward()?;
        optimizer.step()?;
        loss.item().map(drop)
    })
}

#[derive(Module)]
struct Mlp {
    fc1: Linear<N<16>, N<32>>,
    fc2: Linear<N<32>, N<10>>,
}

impl Mlp {
    fn loss(&self, x: &T![Batch, 16], y: &T![Batch; Int]) -> T![] {
        self.fc2.forward(&self.fc1.forward(x).relu()).cross_entropy(y)
    }
}

#[test]
fn an_mlp_step() {
    watch("mlp_step", || {
        let net = Mlp::new();
        let config = SgdConfig { lr: 0.1, momentum: 0.9, ..Default::default() };
        let optimizer = Sgd::new(net.parameters(), config);
        let x: T![Batch, 16] = Tensor::from_vec(data(BATCH * 16));
        let y: T![Batch; Int] = Tensor::from_vec(classes(BATCH));
        trained(optimizer, move || net.loss(&x, &y))
    });
}

#[test]
fn accumulation_over_micro_batches() {
    watch("accumulation", || {
        let net = Mlp::new();
        let mut optimizer = Sgd::new(net.parameters(), SgdConfig { lr: 0.1, ..Default::default() });
        let batches: Vec<Labelled> = (1..=3)
            .map(|n| (Tensor::from_vec(data(n * 64)), Tensor::from_vec(classes(n * 4))))
            .collect();
        Box::new(move || {
            optimizer.zero_grad();
            let mut total: T![] = Tensor::zeros();
            for (x, y) in &batches {
                let loss = net.loss(x, y) / 3.0;
                loss.backward()?;
                total += loss.detach();
            }
            optimizer.step()?;
            total.item().map(drop)
        })
    });
}

#[test]
fn an_adamw_step() {
    watch("adamw_step", || {
        let weight: T![8, 4] = Tensor::from_vec(data(32)).requires_grad();
        let bias: T![4] = Tensor::from_vec(data(4)).requires_grad();
        let x: T![Batch, 8] = Tensor::from_vec(data(BATCH * 8));
        let parameters = vec![weight.as_dyn().clone(), bias.as_dyn().clone()];
        let mut optimizer = AdamW::new(parameters, AdamWConfig::default());
        Box::new(move || {
            optimizer.zero_grad();
            (x.matmul(&weight) + &bias).square().mean().backward()?;
            optimizer.step()?;
            weight.to_vec::<f32>().map(drop)
        })
    });
}

/// A variational autoencoder: 12 pixels, 3 hidden numbers.
#[derive(Module)]
struct Vae {
    encode: Linear<N<12>, N<16>>,
    mean: Linear<N<16>, N<3>>,
    log_variance: Linear<N<16>, N<3>>,
    decode: Linear<N<3>, N<16>>,
    pixels: Linear<N<16>, N<12>>,
}

impl Vae {
    fn loss(&self, x: &T![Batch, 12]) -> T![] {
        let hidden = self.encode.forward(x).relu();
        let (mean, log_variance) = (self.mean.forward(&hidden), self.log_variance.forward(&hidden));
        let noise: T![Batch, 3] = Tensor::randn_with([BATCH]);
        let z = &mean + noise * (&log_variance * 0.5).exp();
        let logits = self.pixels.forward(&self.decode.forward(&z).relu());
        let (logits, x) = (logits.as_dyn(), x.as_dyn());
        let seen: T![] =
            Tensor::from_dyn(gt::functional::binary_cross_entropy_with_logits(logits, x));
        let prior = (mean.square() + log_variance.exp() - &log_variance - 1.0).sum() * 0.5;
        seen + prior / BATCH as f64
    }
}

#[test]
fn a_vae_step() {
    watch("vae_step", || {
        let net = Vae::new();
        let mut optimizer =
            Sgd::new(net.parameters(), SgdConfig { lr: 0.01, ..Default::default() });
        let x: T![Batch, 12] = Tensor::from_vec(data(BATCH * 12)).sigmoid();
        Box::new(move || {
            optimizer.zero_grad();
            let loss = net.loss(&x);
            loss.backward()?;
            optimizer.step()?;
            loss.item().map(drop)
        })
    });
}

type Hidden = T![Batch, 8, 16];
type Mask = T![8, 8; Bool];

/// A block of a transformer: 8 tokens, 16 wide, 2 heads.
#[derive(Module)]
struct Block {
    norm1: LayerNorm<N<16>>,
    query: Linear<N<16>, N<16>>,
    key: Linear<N<16>, N<16>>,
    value: Linear<N<16>, N<16>>,
    out: Linear<N<16>, N<16>>,
    norm2: LayerNorm<N<16>>,
    up: Linear<N<16>, N<64>>,
    down: Linear<N<64>, N<16>>,
}

impl Block {
    fn forward(&self, x: &Hidden, mask: &Mask) -> Hidden {
        let normed = self.norm1.forward(x);
        let heads = |part: &Linear<N<16>, N<16>>| -> T![Batch, 2, 8, 8] {
            part.forward(&normed).reshape::<shape![Batch, 8, 2, 8]>().transpose::<1, 2>()
        };
        let mixed = attention(&heads(&self.query), &heads(&self.key), &heads(&self.value), mask);
        let mixed = mixed.transpose::<1, 2>().reshape::<shape![Batch, 8, 16]>();
        let x = x + self.out.forward(&mixed);
        &x + self.down.forward(&self.up.forward(&self.norm2.forward(&x)).gelu())
    }
}

fn attention(
    q: &T![Batch, 2, 8, 8],
    k: &T![Batch, 2, 8, 8],
    v: &T![Batch, 2, 8, 8],
    mask: &Mask,
) -> T![Batch, 2, 8, 8] {
    let scores = q.matmul(&k.t()) * (1.0 / 8.0_f64.sqrt());
    scores.masked_fill(mask, f64::NEG_INFINITY).softmax_last().matmul(v)
}

fn later() -> Mask {
    Tensor::from_vec((0..64).map(|i| i % 8 > i / 8).collect::<Vec<bool>>())
}

#[test]
fn a_gpt_block_forward() {
    watch("gpt_block_forward", || {
        let (net, mask) = (Block::new(), later());
        let x: Hidden = Tensor::from_vec(data(2 * 8 * 16));
        Box::new(move || no_grad(|| net.forward(&x, &mask).to_vec::<f32>()).map(drop))
    });
}

#[test]
fn a_gpt_block_backward() {
    watch("gpt_block_backward", || {
        let (net, mask) = (Block::new(), later());
        let x: Hidden = Tensor::from_vec(data(2 * 8 * 16));
        Box::new(move || {
            net.zero_grad();
            let loss = net.forward(&x, &mask).square().mean();
            loss.backward()?;
            loss.item().map(drop)
        })
    });
}

#[test]
fn attention_alone() {
    watch("attention_alone", || {
        let [q, k, v]: [T![Batch, 2, 8, 8]; 3] = [0, 1, 2].map(|_| Tensor::from_vec(data(256)));
        let mask = later();
        Box::new(move || attention(&q, &k, &v, &mask).to_vec::<f32>().map(drop))
    });
}

#[test]
fn a_softmax_alone() {
    watch("softmax_alone", || {
        let x: T![64, 32] = Tensor::from_vec(data(64 * 32));
        Box::new(move || x.softmax_last().to_vec::<f32>().map(drop))
    });
}

#[test]
fn norm_gelu_softmax() {
    watch("norm_gelu_softmax", || {
        let x: T![64, 32] = Tensor::from_vec(data(64 * 32));
        let (weight, bias): (T![32], T![32]) =
            (Tensor::from_vec(data(32)), Tensor::from_vec(data(32)));
        Box::new(move || {
            let y = x.layer_norm(&weight, &bias, 1e-5).gelu_tanh().softmax_last();
            y.to_vec::<f32>().map(drop)
        })
    });
}

/// Programs that tempt the compiler to reuse memory too early: one value as both operands, results
/// that are views of inputs or of each other, values freed while views of them live, a state that
/// is replaced while its old value is still used.
#[test]
fn aliases_and_early_frees() {
    watch("aliases", || {
        let given: T![8, 8] = Tensor::from_vec(data(64));
        let mut state = given.exp();
        let mut kept: Vec<DynTensor> = Vec::new();
        Box::new(move || {
            kept.clear();
            let square = state.matmul(&state);
            let turned = square.t();
            drop(square);
            let rows: T![64] = turned.reshape();
            let flat: T![64] = state.reshape();
            let doubled = &state + &state;
            let old = std::mem::replace(&mut state, doubled * 0.25);
            let mixed = old * &turned.t() + state.t();
            drop(turned);
            let top = mixed.select::<0>(0);
            kept.extend([rows.as_dyn().clone(), flat.as_dyn().clone(), top.as_dyn().clone()]);
            kept.push(given.t().into_dyn());
            mixed.max().item()?;
            state.to_vec::<f32>().map(drop)
        })
    });
}
