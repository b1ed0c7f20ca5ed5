//! Plans as users see them: a program gives the same results with and without plans, and reports
//! them.

use gt::prelude::*;
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::tier::{Tiers, When};

use crate::process::Process;

const DIGITS: &str = "examples/digits";

#[test]
fn training_gives_the_same_losses_with_plans_and_without_and_says_what_became_one() {
    let run = |tier, verbose| {
        let words = ["--json", "--seed", "7", "--epochs", "10"];
        let env = [("GT_TIER", tier), ("GT_VERBOSE", verbose)];
        Process::start_with(DIGITS, &words, &env).finish()
    };
    let [eager, planned] = ["0", "1"].map(|tier| run(tier, "1"));
    let losses = |stdout: &str| {
        let lines = stdout.lines().filter(|line| line.contains("\"epoch\""));
        lines.map(|line| line.split(",\"samples").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (said, nothing) = (planned.stderr.clone(), eager.stderr.clone());
    assert_eq!(losses(&planned.good()), losses(&eager.good()));
    assert!(said.contains("gt: segment ") && said.contains(" -> plan p"), "{said}");
    assert!(!nothing.contains("gt: segment"), "{nothing}");
    assert!(!run("1", "0").stderr.contains("gt: segment"));
}

#[test]
fn a_tier_that_is_none_is_told() {
    let run = Process::start_with(DIGITS, &["--epochs", "1"], &[("GT_TIER", "7")]).finish();
    let (_, said) = run.bad();
    assert!(said.contains("GT_TIER=7 has no meaning: it is 0 or 1"), "{said}");
}

dims! { Batch }

#[derive(Module)]
struct Net {
    first: Linear<N<6>, N<9>>,
    second: Linear<N<9>, N<4>>,
}

impl Net {
    fn loss(&self, x: &T![Batch, 6]) -> T![] {
        let y = self.second.forward(&self.first.forward(x).tanh());
        (&y * &y).mean()
    }
}

/// The losses of training and of the evaluations in it, and the number of segments that ran as
/// plans.
fn train(when: When) -> (Vec<u64>, u64) {
    let system = System::start_with(1, Tiers::compiled(when), Log::off()).unwrap();
    let session = Session::with_backend(system.session());
    let _current = session.enter();
    session.manual_seed(3);
    let net = Net::new();
    let mut optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
    let mut losses = Vec::new();
    for epoch in 0..4 {
        for n in 0..10 {
            // The last batch is smaller.
            let rows = if n == 9 { 3 } else { 5 };
            let data: Vec<f32> =
                (0..rows * 6).map(|i| (i * (n + 2) + epoch) as f32 % 7.0 - 3.0).collect();
            let x: T![Batch, 6] = Tensor::from_vec(data);
            let loss = net.loss(&x);
            optimizer.zero_grad();
            loss.backward().unwrap();
            optimizer.step().unwrap();
            losses.push(loss.item().unwrap().to_bits());
        }
        for n in 0..3 {
            let data: Vec<f32> = (0..30).map(|i| (i + n) as f32 / 9.0).collect();
            let x: T![Batch, 6] = Tensor::from_vec(data);
            losses.push(no_grad(|| net.loss(&x)).item().unwrap().to_bits());
        }
    }
    (losses, session.stats().unwrap().total().launches)
}

#[test]
fn alternating_loops_all_become_plans() {
    let [eager, blocking, background] = [When::Never, When::Blocking, When::Background].map(train);
    assert_eq!(eager.0, blocking.0);
    assert_eq!(eager.0, background.0);
    assert_eq!(eager.1, 0);
    assert!(blocking.1 > 30, "{} launches", blocking.1);
}

/// The losses of training on batches of 8 sizes that come in no order, and the number of plans and
/// of segments that ran as plans.
fn resized(when: When) -> (Vec<u64>, [u64; 2]) {
    let system = System::start_with(1, Tiers::compiled(when), Log::off()).unwrap();
    let session = Session::with_backend(system.session());
    let _current = session.enter();
    session.manual_seed(4);
    let net = Net::new();
    let mut optimizer = Sgd::new(net.parameters(), SgdConfig { lr: 0.1, ..Default::default() });
    let losses = (0..80_usize).map(|n| {
        let rows = 1 + n * n * n / 7 % 8;
        let data: Vec<f32> = (0..rows * 6).map(|i| (i * (n + 2)) as f32 % 7.0 - 3.0).collect();
        let x: T![Batch, 6] = Tensor::from_vec(data);
        let loss = net.loss(&x);
        optimizer.zero_grad();
        loss.backward().unwrap();
        optimizer.step().unwrap();
        loss.item().unwrap().to_bits()
    });
    let losses = losses.collect();
    let stats = session.stats().unwrap();
    (losses, [stats.workers[0].plans, stats.total().launches])
}

#[test]
fn batches_of_many_sizes_have_one_plan_for_each_size() {
    let [eager, blocking, background] =
        [When::Never, When::Blocking, When::Background].map(resized);
    assert_eq!(eager.0, blocking.0);
    assert_eq!(eager.0, background.0);
    let [plans, launches] = blocking.1;
    assert!((8..=9).contains(&plans), "the sizes of two steps made {plans} plans");
    assert!(launches > 70, "{launches} launches");
}
