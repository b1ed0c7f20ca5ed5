//! A training run that is resumed in another system has the bits of an uninterrupted run, although
//! plans replace instructions at other steps.

use gt::functional::CrossEntropy;
use gt::io::checkpoint;
use gt::optim::schedule::{Scheduler, WarmupCosine};
use gt::prelude::*;

dims! { Batch }

#[derive(Module)]
struct Net {
    fc1: Linear<N<16>, N<64>>,
    norm: LayerNorm<N<64>>,
    drop: Dropout,
    fc2: Linear<N<64>, N<4>>,
}

/// A training run, and its system.
struct Run {
    session: Session,
    net: Net,
    optimizer: AdamW,
    scheduler: Scheduler<WarmupCosine>,
    step: u64,
}

impl Run {
    fn new(seed: u64) -> Result<Run> {
        let session = gt::embedded(1)?;
        session.manual_seed(seed);
        let _entered = session.enter();
        let net = Net::new();
        let mut optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
        let schedule = WarmupCosine { warmup: 5, total: 40, min_factor: 0.1 };
        let scheduler = Scheduler::new(&mut optimizer, schedule);
        Ok(Run { session, net, optimizer, scheduler, step: 0 })
    }

    /// Trains, and returns the losses.
    fn train(&mut self, steps: u64) -> Result<Vec<f64>> {
        let _entered = self.session.enter();
        let mut losses = Vec::new();
        for _ in 0..steps {
            let x: T![Batch, 16] = Tensor::randn_with([32]);
            let classes = (0..32).map(|i| (i + self.step as i64) % 4).collect();
            let classes: T![Batch; Int] = Tensor::from_vec_with(classes, [32]);
            let h = self.net.drop.forward(&self.net.norm.forward(&self.net.fc1.forward(&x)).gelu());
            let options = CrossEntropy { label_smoothing: 0.1, ..CrossEntropy::default() };
            let loss = self.net.fc2.forward(&h).cross_entropy_with(&classes, &options);
            self.optimizer.zero_grad();
            loss.backward()?;
            clip_grad_norm(self.optimizer.parameters(), 1.0);
            self.optimizer.step()?;
            self.scheduler.step(&mut self.optimizer);
            self.step += 1;
            losses.push(loss.as_dyn().item()?);
        }
        Ok(losses)
    }

    fn state(&self) -> Result<[StateDict; 2]> {
        Ok([self.net.state_dict()?, self.optimizer.state_dict()?])
    }
}

#[test]
fn a_run_that_stopped_has_the_bits_of_one_that_did_not() -> Result<()> {
    let file = std::env::temp_dir().join(format!("gt-resume-{}.safetensors", std::process::id()));
    let mut whole = Run::new(1)?;
    let losses = whole.train(40)?;
    let mut first = Run::new(1)?;
    let begun = first.train(17)?;
    checkpoint::save(
        &file,
        &[
            ("model", &first.net),
            ("optimizer", &first.optimizer),
            ("scheduler", &first.scheduler),
            ("rng", &first.session),
            ("step", &first.step),
        ],
    )?;
    first.session.close();
    let mut second = Run::new(99)?;
    checkpoint::load(
        &file,
        &mut [
            ("model", &mut second.net),
            ("optimizer", &mut second.optimizer),
            ("scheduler", &mut second.scheduler),
            ("rng", &mut second.session),
            ("step", &mut second.step),
        ],
    )?;
    let rest = second.train(23)?;
    assert_eq!([begun, rest].concat(), losses);
    assert!(second.state()? == whole.state()?, "weights or moments differ");
    std::fs::remove_file(&file).ok();
    Ok(())
}
