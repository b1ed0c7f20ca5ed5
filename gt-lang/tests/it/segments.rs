//! Where segments end: loops as people write them come as the same segment each time, and borders
//! change no result.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::collections::BTreeSet;

use gt::functional::CrossEntropy;
use gt::optim::schedule::{Scheduler, WarmupCosine};
use gt::optim::*;
use gt::prelude::*;
use gt::reference::Reference;
use gt_ir::canonical::Key;
use gt_ir::testing::Source;

use crate::models::{Batch, Gpt, Mlp, Seq, gpt};

/// The keys of the segments of each round of a loop.
fn rounds<S>(
    n: usize,
    start: impl FnOnce() -> S,
    mut round: impl FnMut(&mut S, usize),
) -> Vec<Vec<Key>> {
    let (session, system) = Reference::session();
    session.manual_seed(0);
    let _current = session.enter();
    let mut state = start();
    let mut seen = system.keys().len();
    let mut rounds = Vec::new();
    for i in 0..n {
        round(&mut state, i);
        let keys = system.keys();
        rounds.push(keys[seen..].to_vec());
        seen = keys.len();
    }
    rounds
}

/// After `warm` rounds, all have the same `n` segments.
#[track_caller]
fn settled(rounds: &[Vec<Key>], warm: usize, n: usize) {
    for (i, round) in rounds.iter().enumerate().skip(warm) {
        assert_eq!(*round, rounds[warm], "round {i} of {rounds:?}");
    }
    assert_eq!(rounds[warm].len(), n, "{rounds:?}");
}

type Points = T![Batch, 4];
type Classes = T![Batch; Int];

fn batch(i: usize) -> (Points, Classes) {
    let data = (0..64).map(|k| ((k * 7 + i * 13) % 11) as f32 / 5.0 - 1.0).collect();
    let x: Points = Tensor::from_vec_with(data, [16]);
    (x, Tensor::from_vec_with((0..16).map(|k| ((k + i) % 2) as i64).collect(), [16]))
}

fn sgd(net: &Mlp) -> Sgd {
    Sgd::new(net.parameters(), SgdConfig { lr: 0.1, momentum: 0.9, ..SgdConfig::default() })
}

fn train(net: &Mlp, optimizer: &mut impl Optimizer, i: usize) -> T![] {
    let (x, classes) = batch(i);
    let loss = net.forward(&x).cross_entropy(&classes);
    optimizer.zero_grad();
    loss.backward().unwrap();
    optimizer.step().unwrap();
    loss.detach()
}

#[test]
fn a_step_of_sgd_is_one_segment() {
    let start = || {
        let net = Mlp::new();
        (sgd(&net), net)
    };
    let done = rounds(6, start, |(optimizer, net), i| {
        optimizer.set_lr(0.1 / (i + 1) as f64);
        train(net, optimizer, i);
    });
    settled(&done, 2, 1);
}

#[test]
fn a_step_and_the_read_after_it_are_one_segment() {
    let start = || {
        let net = Mlp::new();
        (sgd(&net), net)
    };
    let done = rounds(6, start, |(optimizer, net), i| {
        train(net, optimizer, i).item().unwrap();
    });
    assert_eq!(done[0].len(), 2, "nothing is expected yet");
    settled(&done, 2, 1);
    // So is what comes between them, if it is little.
    let done = rounds(6, start, |(optimizer, net), i| {
        let mean = (train(net, optimizer, i) + 1.0) * 0.5;
        mean.item().unwrap();
    });
    settled(&done, 2, 1);
    // Reads that stop coming are waited for once, and the segment of the step stays what it was.
    let done = rounds(9, start, |(optimizer, net), i| {
        let loss = train(net, optimizer, i);
        if i < 4 {
            loss.item().unwrap();
        }
    });
    settled(&done, 6, 1);
    let steps = rounds(6, start, |(optimizer, net), i| drop(train(net, optimizer, i)));
    assert_eq!(done[8], steps[5]);
    // Every third loss is read: the others are steps as ever.
    let done = rounds(12, start, |(optimizer, net), i| {
        let loss = train(net, optimizer, i);
        if i % 3 == 2 {
            (loss * 2.0).item().unwrap();
        }
    });
    let steps: BTreeSet<Key> = steps[2..].iter().flatten().copied().collect();
    let thirds: Vec<&[Vec<Key>]> = done.chunks(3).skip(2).collect();
    assert_eq!(thirds[0], thirds[1]);
    assert!(steps.is_subset(&thirds[0].iter().flatten().copied().collect()), "{done:?}");
}

#[test]
fn a_step_of_adamw_is_one_segment() {
    let start = || {
        let net = Mlp::new();
        (AdamW::new(net.parameters(), AdamWConfig::default()), net)
    };
    let done = rounds(6, start, |(optimizer, net), i| {
        train(net, optimizer, i);
    });
    settled(&done, 2, 1);
}

#[test]
fn a_step_with_schedule_clipping_and_average_is_one_segment() {
    fn check<R: Rule>(config: R) {
        let start = || {
            let net = Mlp::new();
            let mut optimizer = Grouped::new(net.parameters(), config.clone());
            let schedule = WarmupCosine { warmup: 2, total: 9, min_factor: 0.1 };
            let scheduler = Scheduler::new(&mut optimizer, schedule);
            (Ema::new(net.parameters(), 0.9), scheduler, optimizer, net)
        };
        let done = rounds(7, start, |(ema, scheduler, optimizer, net), i| {
            let (x, classes) = batch(i);
            let options = CrossEntropy { label_smoothing: 0.1, ..CrossEntropy::default() };
            let loss = net.forward(&x).cross_entropy_with(&classes, &options);
            optimizer.zero_grad();
            loss.backward().unwrap();
            clip_grad_norm(optimizer.parameters(), 1.0);
            clip_grad_value(optimizer.parameters(), 0.5);
            ema.update();
            optimizer.step().unwrap();
            scheduler.step(optimizer);
        });
        settled(&done, 3, 1);
    }
    check(SgdConfig { momentum: 0.9, weight_decay: 0.1, ..SgdConfig::default() });
    check(AdamConfig::default());
    check(AdamWConfig { amsgrad: Amsgrad::On, ..AdamWConfig::default() });
    check(RmsPropConfig { centered: Centered::On, momentum: 0.5, ..RmsPropConfig::default() });
    check(AdagradConfig::default());
    check(LionConfig::default());
}

#[test]
fn what_is_computed_again_starts_a_segment() {
    let start = || {
        let net = Mlp::new();
        (sgd(&net), net)
    };
    let done = rounds(6, start, |(optimizer, net), i| {
        let ((x, classes), part) = (batch(i), net.clone());
        let logits = x.checkpoint(move |x| part.forward(x));
        optimizer.zero_grad();
        logits.cross_entropy(&classes).backward().unwrap();
        optimizer.step().unwrap();
    });
    settled(&done, 3, 2);
}

#[test]
fn gradients_of_several_batches_are_one_segment() {
    let start = || {
        let net = Mlp::new();
        (sgd(&net), net)
    };
    let done = rounds(7, start, |(optimizer, net), i| {
        optimizer.zero_grad();
        for k in 0..8 {
            let (x, classes) = batch(i + k);
            (net.forward(&x).cross_entropy(&classes) / 8.0).backward().unwrap();
        }
        optimizer.step().unwrap();
    });
    // More entries than are held back for a stream that is not known.
    assert!(done[0].len() > 1);
    settled(&done, 2, 1);
}

#[test]
fn training_and_evaluation_take_turns() {
    let start = || {
        let net = Mlp::new();
        (sgd(&net), net)
    };
    let done = rounds(8, start, |(optimizer, net), i| {
        for k in 0..3 {
            train(net, optimizer, i + k);
        }
        let (x, classes) = batch(i);
        let hits = no_grad(|| net.forward(&x).argmax_last().eq(&classes).float().mean());
        hits.item().unwrap();
    });
    settled(&done, 3, 4);
    // The first step follows the evaluation and frees what that left.
    let different: BTreeSet<Key> = done[7].iter().copied().collect();
    assert!(different.len() <= 3, "{done:?}");
}

#[test]
fn what_varies_from_step_to_step_is_a_literal() {
    let start = || {
        let net = Mlp::new();
        (AdamW::new(net.parameters(), AdamWConfig::default()), net, Tensor::<shape![]>::zeros())
    };
    // Noise, a schedule, clipped gradients, and a running mean of the loss.
    let done = rounds(8, start, |(optimizer, net, mean), i| {
        let (x, classes) = batch(i);
        let noise: Points = Tensor::randn_with([16]);
        let loss = net.forward(&(x + noise * (0.5 / (i + 1) as f64))).cross_entropy(&classes);
        optimizer.zero_grad();
        optimizer.set_lr(0.01 * 0.9_f64.powi(i as i32));
        loss.backward().unwrap();
        gt::optim::clip_grad_norm(optimizer.parameters(), 1.0);
        *mean = &*mean * 0.9 + loss.detach() * 0.1;
        optimizer.step().unwrap();
    });
    settled(&done, 2, 1);
}

#[test]
fn models_that_take_turns_share_a_segment() {
    let start = || {
        let nets = [Mlp::new(), Mlp::new()];
        (nets.each_ref().map(sgd), nets)
    };
    let done = rounds(6, start, |(optimizers, nets), i| {
        for (optimizer, net) in optimizers.iter_mut().zip(nets) {
            train(net, optimizer, i);
        }
    });
    settled(&done, 2, 2);
    assert_eq!(done[5][0], done[5][1], "the models have the same shapes");
}

fn learn(net: &Gpt, optimizer: &mut AdamW, i: i64) {
    let words = (0..6).map(|k| (k * 3 + i) % 11).collect();
    let words: T![Batch, Seq; Int] = Tensor::from_vec_with(words, [2, 3]);
    net.zero_grad();
    net.forward(&words).cross_entropy(&words).backward().unwrap();
    optimizer.step().unwrap();
}

#[test]
fn a_step_of_a_transformer_is_one_segment_however_long() {
    let start = || {
        let net = gpt();
        (AdamW::new(net.parameters(), AdamWConfig::default()), net)
    };
    let done = rounds(8, start, |(optimizer, net), i| learn(net, optimizer, i as i64));
    assert!(done[0].len() > 1, "more entries than are held back for a stream that is not known");
    settled(&done, 2, 1);
}

/// The segments of a run: their keys and how many entries they have.
type Segments = Vec<(Key, usize)>;

/// The result of a loop, and its segments.
fn looped(body: impl Fn(&DynTensor, usize) -> DynTensor, n: usize) -> (Vec<f64>, Segments) {
    let (session, system) = Reference::session();
    let _current = session.enter();
    let mut x = DynTensor::zeros([2], DType::F64);
    for i in 0..n {
        x = body(&x, i);
    }
    let x = x.to_vec().unwrap();
    (x, system.keys().into_iter().zip(system.segments()).collect())
}

/// All segments after the first few are the same, but for the last, which the read ends; gives
/// their number of entries.
#[track_caller]
fn settles(segments: &Segments, warm: usize) -> usize {
    let middle = &segments[warm..segments.len() - 1];
    assert!(middle.len() > 2 && middle.windows(2).all(|pair| pair[0] == pair[1]), "{segments:?}");
    middle[0].1
}

#[test]
fn loops_without_boundaries_find_their_own() {
    let (x, segments) = looped(|x, _| x + 1.0, 5_000);
    assert_eq!(x, [5_000.0; 2]);
    assert_eq!(settles(&segments, 2), 512);
    // Rounds of 700 instructions, each with the free of its operand.
    let long = |x: &DynTensor, _: usize| {
        (0..700).fold(x.clone(), |x, k| if k % 7 == 3 { x.mul(0.5) } else { x.add(1.0) })
    };
    let (_, segments) = looped(long, 40);
    assert_eq!(settles(&segments, 9) % 14, 0);
    // An inner loop that is found first, and lost at its end.
    let nested = |x: &DynTensor, _: usize| {
        let inner = (0..190).fold(x.clone(), |x, _| x.add(1.0).mul(0.5).neg());
        inner.exp().neg().exp().sqrt()
    };
    let (_, segments) = looped(nested, 40);
    assert_eq!(settles(&segments, 10), 2 * (3 * 190 + 4));
}

#[test]
fn a_loop_that_changes_is_cut_as_before() {
    let body = |x: &DynTensor, i| if i < 2_000 || i % 3 == 0 { x + 1.0 } else { x + 1_i64 };
    let (x, segments) = looped(body, 4_000);
    assert_eq!(x, [4_000.0; 2]);
    assert!(segments.iter().all(|(_, n)| *n <= 600), "{segments:?}");
}

/// A random program over a few tensors, some of it in loops, with boundaries wherever `boundary`
/// says.
fn program(seed: u64, session: &Session, mut boundary: impl FnMut(&Session)) -> Vec<Vec<f64>> {
    let mut source = Source::from_seed(seed);
    let mut live: Vec<DynTensor> = (0..3)
        .map(|k| DynTensor::full([3], 0.25 + f64::from(k), DType::F64).requires_grad())
        .collect();
    let mut read = Vec::new();
    for _ in 0..12 {
        let body: Vec<usize> = (0..1 + source.below(9)).map(|_| source.below(9)).collect();
        for _ in 0..1 + source.below(60) {
            for op in &body {
                let (a, b) = (&live[op % live.len()], &live[(op / 2) % live.len()]);
                let new = match op {
                    0 => (a + b) * 0.5,
                    1 => a * 0.9,
                    2 => a.tanh(),
                    3 => (a - b).abs(),
                    4 => DynTensor::from_vec(vec![0.5, -1.0, 2.0], [3]) * a.detach(),
                    5 => a.detach().sin().requires_grad(),
                    6 => a.maximum(b).cos(),
                    7 => DynTensor::rand([3], DType::F64),
                    _ => a.sum(..) * b * 0.1,
                };
                let at = op % 3;
                live[at] = new;
                boundary(session);
            }
            live[0] = live[0].detach().requires_grad();
            live[0].tanh().sum(..).backward().unwrap();
            live[1] = live[0].grad().unwrap();
        }
        read.push(live[source.below(3)].to_vec().unwrap());
    }
    read
}

#[test]
fn borders_change_no_result() {
    for seed in 0..12 {
        let run = |boundary: &dyn Fn(&Session, &mut Source<'_>)| {
            let (session, _system) = Reference::session();
            session.manual_seed(seed);
            let _current = session.enter();
            let mut chance = Source::from_seed(seed + 100);
            program(seed, &session, |session| boundary(session, &mut chance))
        };
        let want = run(&|_, _| ());
        assert_eq!(run(&|session, _| session.flush()), want);
        assert_eq!(run(&|session, _| session.step()), want);
        let strewn = |session: &Session, chance: &mut Source<'_>| match chance.below(40) {
            0 => session.flush(),
            1 => session.step(),
            _ => (),
        };
        assert_eq!(run(&strewn), want);
    }
}
