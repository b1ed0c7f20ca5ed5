//! Training that stops and goes on: states of models, strictness, checkpoints, and the bits after a
//! restart.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::path::Path;

use gt::io::{checkpoint, safetensors};
use gt::nn::{Buffer, load_matching};
use gt::optim::schedule::{OneCycleLr, Scheduler};
use gt::optim::{Ema, clip_grad_norm};
use gt::prelude::*;
use gt::reference::Reference;
use gt_ir::testing::Source;

use crate::models::{Batch, Mlp};
use crate::run;

/// All of a run that a checkpoint holds.
struct Run {
    session: Session,
    net: Mlp,
    optimizer: AdamW,
    scheduler: Scheduler<OneCycleLr>,
    ema: Ema,
    step: u64,
}

impl Run {
    /// A run in a session of its own.
    fn new(seed: u64) -> Run {
        let (session, _) = Reference::session();
        session.manual_seed(seed);
        let _entered = session.enter();
        let net = Mlp::new();
        let mut optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
        let scheduler = Scheduler::new(&mut optimizer, OneCycleLr::new(0.05, 20));
        let ema = Ema::new(net.parameters(), 0.9);
        Run { session, net, optimizer, scheduler, ema, step: 0 }
    }

    fn train(&mut self, steps: u64) {
        let _entered = self.session.enter();
        for _ in 0..steps {
            let x: T![Batch, 4] = Tensor::randn_with([8]);
            let classes: T![Batch; Int] =
                Tensor::from_vec_with((0..8).map(|i| (i + self.step as i64) % 2).collect(), [8]);
            self.optimizer.zero_grad();
            self.net.forward(&x).cross_entropy(&classes).backward().unwrap();
            clip_grad_norm(self.optimizer.parameters(), 0.5);
            self.optimizer.step().unwrap();
            self.scheduler.step(&mut self.optimizer);
            self.ema.update();
            self.step += 1;
        }
    }

    fn save(&self, path: &Path) {
        let parts: [(&str, &dyn Stateful); 6] = [
            ("model", &self.net),
            ("optimizer", &self.optimizer),
            ("scheduler", &self.scheduler),
            ("ema", &self.ema),
            ("rng", &self.session),
            ("step", &self.step),
        ];
        checkpoint::save(path, &parts).unwrap();
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        checkpoint::load(
            path,
            &mut [
                ("model", &mut self.net),
                ("optimizer", &mut self.optimizer),
                ("scheduler", &mut self.scheduler),
                ("ema", &mut self.ema),
                ("rng", &mut self.session),
                ("step", &mut self.step),
            ],
        )
    }

    /// Everything, to the bit.
    fn all(&self) -> Vec<StateDict> {
        let parts: [&dyn Stateful; 6] =
            [&self.net, &self.optimizer, &self.scheduler, &self.ema, &self.session, &self.step];
        parts.iter().map(|part| part.state_dict().unwrap()).collect()
    }
}

#[test]
fn ten_steps_a_restart_and_ten_more_are_twenty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut whole = Run::new(1);
    whole.train(20);
    let mut first = Run::new(1);
    first.train(10);
    first.save(&path);
    let mut second = Run::new(77);
    second.load(&path).unwrap();
    assert_eq!(second.all(), first.all());
    second.train(10);
    assert_eq!(second.all(), whole.all());
    // One that trained before forgets it all.
    let mut third = Run::new(5);
    third.train(13);
    third.load(&path).unwrap();
    third.train(10);
    assert_eq!(third.all(), whole.all());
}

#[test]
fn a_damaged_checkpoint_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut run = Run::new(1);
    run.train(3);
    run.save(&path);
    let (bytes, saved) = (std::fs::read(&path).unwrap(), run.all());
    run.train(2);
    let before = run.all();
    let mut source = Source::from_seed(4);
    for _ in 0..150 {
        let mut damaged = bytes.clone();
        if source.chance(1, 3) {
            damaged.truncate(source.below(bytes.len()));
        } else {
            let at = source.below(bytes.len());
            damaged[at] ^= 1 << source.below(8);
        }
        std::fs::write(&path, &damaged).unwrap();
        let error = run.load(&path).unwrap_err();
        assert!(error.message().contains("run.safetensors"), "{error}");
    }
    assert_eq!(run.all(), before);
    std::fs::write(&path, &bytes).unwrap();
    run.load(&path).unwrap();
    assert_eq!(run.all(), saved);
    // A part that fits none of it: the others are not restored either.
    let (mut step, mut other) = (7_u64, run.session.clone());
    let error = checkpoint::load(&path, &mut [("step", &mut step), ("model", &mut other)]);
    assert!(error.unwrap_err().message().contains("model: the state has no number `seed`"));
    assert_eq!(step, 7);
}

#[test]
fn an_optimizer_of_pytorch_goes_on_here() {
    run(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/whole.pth");
        let saved = gt::io::pth::load(path).unwrap();
        let shapes: [&[usize]; 6] = [&[4, 3], &[4], &[4], &[4], &[2, 4], &[2]];
        let leaf = |shape: &&[usize]| DynTensor::zeros(*shape, DType::F32).requires_grad();
        let mut optimizer = AdamW::new(shapes.iter().map(leaf), AdamWConfig::default());
        optimizer.load_state_dict(&saved.part("optimizer")).unwrap();
        assert_eq!((optimizer.lr(), optimizer.setting(0, "beta2")), (0.01, Some(0.999)));
        let state = optimizer.state_dict().unwrap();
        assert_eq!(state.number::<i64>("state.5.step").unwrap(), 1);
        assert_eq!(state.get("state.4.exp_avg"), saved.get("optimizer.state.4.exp_avg"));
        let mut other = Sgd::new(shapes.iter().map(leaf), SgdConfig::default());
        let error = other.load_state_dict(&saved.part("optimizer")).unwrap_err();
        assert!(error.message().contains("unexpected: state.0.exp_avg"), "{error}");
    });
}

#[derive(Module)]
struct Counted {
    fc: Linear<N<2>, N<3>>,
    mean: Buffer<(N<3>,)>,
    scale: T![3],
}

fn counted() -> Counted {
    Counted { fc: Linear::new(), mean: Buffer::new(&Tensor::zeros()), scale: Tensor::ones() }
}

#[test]
fn models_are_restored_strictly_and_wholly() {
    run(|| {
        let (mut a, b) = (counted(), counted());
        b.mean.set(&Tensor::from_vec(vec![1.0_f32, 2.0, 3.0]));
        let state = b.state_dict().unwrap();
        let names: Vec<&str> = state.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["fc.bias", "fc.weight", "mean", "scale"]);
        let parameters = a.parameters();
        a.load_state_dict(&state).unwrap();
        assert_eq!(a.state_dict().unwrap(), state);
        assert!(parameters.iter().zip(a.parameters()).all(|(old, new)| old.is(&new)));
        // Everything that does not fit is told, and nothing is changed.
        let mut wrong = StateDict::new();
        wrong.insert("fc.weight", Tensor::<(N<2>,)>::ones().as_dyn().to_host().unwrap());
        wrong.insert("mean", Tensor::<(N<3>,)>::ones().as_dyn().to_host().unwrap());
        wrong.insert("scale", Tensor::<(N<3>,)>::zeros().as_dyn().to_host().unwrap());
        wrong.insert_number("extra", 1.0);
        let error = a.load_state_dict(&wrong).unwrap_err();
        assert_eq!(
            error.message(),
            "model: the state does not fit\n  missing: fc.bias\n  unexpected: extra\n  fc.weight: \
             is f32[3,2], but the state has f32[2]\n  scale: a constant of the model, which \
             differs; make it an `nn::Buffer`"
        );
        assert_eq!(a.state_dict().unwrap(), state);
        // What they have in common is taken, if asked for.
        let mut part = StateDict::new();
        part.insert("mean", Tensor::<(N<3>,)>::ones().as_dyn().to_host().unwrap());
        part.insert_number("extra", 1.0);
        let unmatched = load_matching(&mut a, &part).unwrap();
        assert_eq!(unmatched.missing, ["fc.weight", "fc.bias", "scale"]);
        assert_eq!(unmatched.unexpected, ["extra"]);
        assert_eq!(a.mean.get().as_dyn().to_vec::<f32>().unwrap(), [1.0; 3]);
    });
}

#[test]
fn floats_take_the_models_dtype() {
    run(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut net = Linear::<N<2>, N<1>>::new();
        let state: StateDict =
            [("weight", vec![0.5, 0.25], vec![1, 2]), ("bias", vec![2.0], vec![1])]
                .map(|(name, data, sizes): (_, Vec<f64>, Vec<usize>)| {
                    let half = DynTensor::from_vec(data, sizes).to_dtype(DType::Bf16);
                    (name.to_owned(), half.to_host().unwrap())
                })
                .into_iter()
                .collect();
        safetensors::save(folder.path().join("m"), &state).unwrap();
        net.load_state_dict(&safetensors::map(folder.path().join("m")).unwrap()).unwrap();
        assert_eq!(net.weight.as_dyn().to_vec::<f32>().unwrap(), [0.5, 0.25]);
    });
}
