//! `Trainer`: the bits of a loop written by hand, of a run that was stopped and goes on, and what
//! it says of settings that are wrong.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use gt::data::{StreamConfig, StreamLoader, array};
use gt::logger::Tracker;
use gt::optim::schedule::{LambdaLr, PlateauMode, WarmupCosine};
use gt::prelude::*;
use gt::reference::Reference;
use gt::trainer::{EarlyStopping, Epoch, Interval, Outcome, Stop};
use gt_ir::HostTensor;

use crate::run;

dims! { Batch }

/// With a layer that draws random numbers in training.
#[derive(Module)]
struct Net {
    fc1: Linear<N<3>, N<8>>,
    #[module(init = Dropout::new(0.25))]
    dropout: Dropout,
    fc2: Linear<N<8>, One>,
}

impl Net {
    fn loss(&self, batch: &[DynTensor]) -> T![] {
        let x: T![Batch, 3] = Tensor::from_dyn(batch[0].clone());
        let y: T![Batch, 1] = Tensor::from_dyn(batch[1].clone());
        seq!(&x => self.fc1, Tanh, self.dropout, self.fc2).mse_loss(&y)
    }
}

const SCHEDULE: WarmupCosine = WarmupCosine { warmup: 3, total: 20, min_factor: 0.1 };

/// The examples: 26 of them.
fn rows() -> Vec<HostTensor> {
    let x: Vec<f32> = (0..78).map(|i| (i as f32 * 0.7).sin()).collect();
    let y = x.chunks(3).map(|row| row.iter().sum::<f32>()).collect();
    vec![array(x, [26, 3]).unwrap(), array::<f32>(y, [26, 1]).unwrap()]
}

/// Batches of 4: six of them an epoch, and one of two examples.
fn loader() -> DataLoader {
    let config = LoaderConfig { batch_size: 4, shuffle: Shuffle::Seed(5), ..Default::default() };
    DataLoader::new(TensorDataset::new(rows()).unwrap(), config).unwrap()
}

fn optimizer(net: &Net) -> AdamW {
    AdamW::new(net.parameters(), AdamWConfig { lr: 0.03, ..Default::default() })
}

/// The measure of the model on all examples, which draws nothing as dropout is off.
fn measure(net: &Net) -> Result<f64> {
    net.loss(&rows().into_iter().map(DynTensor::from_host).collect::<Vec<_>>()).item()
}

/// What a training leaves: losses of the batches, measures of the epochs, and the parameters.
#[derive(Debug, PartialEq)]
struct Left {
    losses: Vec<f32>,
    measures: Vec<f64>,
    means: Vec<f64>,
    state: StateDict,
}

fn by_hand(epochs: u64, parts: usize) -> Left {
    let mut net = Net::new();
    let mut optimizer = optimizer(&net);
    let mut scheduler = schedule::Scheduler::new(&mut optimizer, SCHEDULE);
    let mut loader = loader();
    let (mut losses, mut measures, mut means) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..epochs {
        let batches: Result<Vec<_>> = loader.epoch().collect();
        let batches = batches.unwrap();
        let mut total: T![] = Tensor::zeros();
        for group in batches.chunks(parts) {
            optimizer.zero_grad();
            for batch in group {
                let loss = net.loss(batch);
                total += loss.detach();
                losses.push(loss.item().unwrap() as f32);
                (loss / parts as f64).backward().unwrap();
            }
            clip_grad_norm(&net.parameters(), 0.5);
            optimizer.step().unwrap();
            scheduler.step(&mut optimizer);
        }
        means.push(total.item().unwrap() / batches.len() as f64);
        net.eval();
        measures.push(no_grad(|| measure(&net)).unwrap());
        net.train();
    }
    Left { losses, measures, means, state: net.state_dict().unwrap() }
}

/// What the trainer of these tests does, its losses in a list.
fn trainer<'a>(
    net: &'a mut Net,
    optimizer: &'a mut AdamW,
    losses: &'a mut Vec<DynTensor>,
) -> Trainer<'a, Net> {
    let loss = |net: &Net, batch: &[DynTensor]| {
        let loss = net.loss(batch);
        losses.push(loss.detach().into_dyn());
        loss
    };
    Trainer::new(net, optimizer, loss)
        .schedule(SCHEDULE, Interval::Step)
        .clip_grad_norm(0.5)
        .validate("all", measure)
}

/// Trains in a session of its own: what it leaves, and its outcome.
fn trained(set: impl for<'a> FnOnce(Trainer<'a, Net>) -> Trainer<'a, Net>) -> (Left, Outcome) {
    run(|| {
        let mut net = Net::new();
        let mut optimizer = optimizer(&net);
        let (mut losses, ends) = (Vec::new(), Arc::new(Mutex::new(Vec::<Epoch>::new())));
        let sink = ends.clone();
        let call = move |epoch: &Epoch, _: &Net| {
            sink.lock().unwrap().push(epoch.clone());
            Ok(())
        };
        let trainer = trainer(&mut net, &mut optimizer, &mut losses).on_epoch(call);
        let outcome = set(trainer).fit(&mut loader()).unwrap();
        let losses = losses.iter().map(|loss| loss.item().unwrap() as f32).collect();
        let ends = ends.lock().unwrap();
        let left = Left {
            losses,
            measures: ends.iter().map(|end| end.metrics["all"]).collect(),
            means: ends.iter().map(|end| end.loss).collect(),
            state: net.state_dict().unwrap(),
        };
        (left, outcome)
    })
}

#[test]
fn losses_and_parameters_have_the_bits_of_a_loop_by_hand() {
    for parts in [1, 3] {
        let wanted = run(|| by_hand(3, parts));
        let (left, outcome) = trained(|trainer| trainer.epochs(3).accumulate(parts));
        assert_eq!(left, wanted);
        let last = Epoch {
            epochs: 3,
            steps: 3 * 7_u64.div_ceil(parts as u64),
            loss: wanted.means[2],
            metrics: [("all".to_owned(), wanted.measures[2])].into(),
        };
        assert_eq!(outcome, Outcome { stop: Stop::Finished, last });
        assert!(wanted.measures[2] < wanted.measures[0], "{:?}", wanted.measures);
    }
}

#[test]
fn a_run_that_goes_on_has_the_bits_of_one_that_never_stopped() {
    for parts in [1, 2, 3] {
        let folder = tempfile::tempdir().unwrap();
        let whole = trained(|trainer| trainer.epochs(3).accumulate(parts)).0;
        for stop in 0..=whole.losses.len() / parts {
            let file = folder.path().join(format!("{stop}.safetensors"));
            let mut asked = 0;
            let first = trained(|trainer| {
                going_on(trainer, &file, parts).stop_when(move || {
                    asked += 1;
                    asked > stop
                })
            });
            let is_over = first.1.stop == Stop::Finished;
            assert_eq!(is_over, first.0.means.len() == 3, "stopped before step {stop}");
            let second = trained(|trainer| going_on(trainer, &file, parts));
            let losses = [first.0.losses, second.0.losses].concat();
            let measures = [first.0.measures, second.0.measures].concat();
            let means = [first.0.means, second.0.means].concat();
            let left = Left { losses, measures, means, state: second.0.state };
            assert_eq!(left, whole, "stopped before step {stop}");
            assert_eq!(second.1.stop, Stop::Finished);
            assert_eq!(second.1.last.metrics["all"], whole.measures[2]);
        }
    }
}

/// A trainer that writes this file and goes on from it.
fn going_on<'a>(trainer: Trainer<'a, Net>, file: &Path, parts: usize) -> Trainer<'a, Net> {
    trainer.epochs(3).accumulate(parts).checkpoint(file, 2).resume()
}

#[test]
fn the_last_checkpoint_before_a_failure_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.safetensors");
    let whole = trained(|trainer| trainer.max_steps(12)).0;
    run(|| {
        let mut net = Net::new();
        let mut optimizer = optimizer(&net);
        let mut losses = Vec::new();
        let failing = trainer(&mut net, &mut optimizer, &mut losses)
            .max_steps(12)
            .checkpoint(&file, 5)
            .on_epoch(|_, _| Err(failure()));
        assert!(failing.fit(&mut loader()).unwrap_err().message().contains("the disk is full"));
    });
    let (left, outcome) = trained(|trainer| trainer.max_steps(12).checkpoint(&file, 5).resume());
    // Steps 5 to 11 of 12: the checkpoint is of after step 5.
    assert_eq!(left.losses, whole.losses[5..]);
    assert_eq!((left.measures, left.means), (whole.measures, whole.means));
    assert_eq!(left.state, whole.state);
    // The second epoch ends with step 12, its last being five steps long.
    assert_eq!((outcome.last.epochs, outcome.last.steps), (2, 12));
    // All steps are done, so the epoch that ended with them is measured again and nothing else.
    let (left, again) = trained(|trainer| trainer.max_steps(12).checkpoint(&file, 5).resume());
    assert_eq!((left.losses.len(), again), (0, outcome));
}

fn failure() -> Error {
    Error::new(gt::ErrorKind::Data, "the disk is full", std::panic::Location::caller())
}

#[test]
fn a_measure_that_does_not_get_better_ends_the_training() {
    let measures = [0.5, 0.6, 0.55, 0.61, 0.605, 0.612, 0.9];
    let stopped = |patience, min_delta, resumed: Option<&Path>| {
        run(|| {
            let mut net = Net::new();
            let mut optimizer = optimizer(&net);
            let mut losses = Vec::new();
            let mut next = measures.into_iter();
            let how = EarlyStopping { mode: PlateauMode::Max, patience, min_delta };
            let mut trainer = trainer(&mut net, &mut optimizer, &mut losses)
                .epochs(7)
                .validate("share", move |_| Ok(next.next().unwrap()))
                .early_stopping("share", how);
            if let Some(file) = resumed {
                trainer = trainer.checkpoint(file, 1000).resume();
            }
            let outcome = trainer.fit(&mut loader()).unwrap();
            (outcome.stop, outcome.last.epochs, outcome.last.metrics["share"])
        })
    };
    assert_eq!(stopped(1, 0.0, None), (Stop::Early, 3, 0.55));
    assert_eq!(stopped(2, 0.0, None), (Stop::Finished, 7, 0.9));
    // 0.61 is better than 0.6 by less than 0.02.
    assert_eq!(stopped(4, 0.02, None), (Stop::Early, 6, 0.612));
    // What has ended early has ended.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.safetensors");
    let first = stopped(1, 0.0, Some(&file));
    assert_eq!(stopped(1, 0.0, Some(&file)), first);
}

#[test]
fn a_loss_that_is_not_a_number_is_not_better() {
    run(|| {
        let mut net = Net::new();
        let mut optimizer = optimizer(&net);
        let loss = |net: &Net, batch: &[DynTensor]| net.loss(batch) * f64::NAN;
        let trainer = Trainer::new(&mut net, &mut optimizer, loss).epochs(50);
        let outcome = trainer.early_stopping("loss", EarlyStopping::default()).fit(&mut loader());
        let outcome = outcome.unwrap();
        assert_eq!((outcome.stop, outcome.last.epochs), (Stop::Early, 3));
    });
}

/// The points that were told, and how many of them were brought away.
#[derive(Clone, Default)]
struct Points(Arc<Mutex<Vec<String>>>);

impl Tracker for Points {
    fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        self.0.lock().unwrap().push(format!("{step}: {}", names.join(" ")));
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        self.0.lock().unwrap().push("flush".to_owned());
        Ok(())
    }
}

#[test]
fn trackers_are_told_losses_rates_and_measures() {
    let points = Points::default();
    trained(|trainer| trainer.epochs(2).track(points.clone()).log_every(7));
    let told = points.0.lock().unwrap().clone();
    // The fourteen losses are told every seven steps, so none is left at the ends of the epochs.
    let wanted =
        ["7: loss lr", "7: lr all", "flush", "14: loss lr", "14: lr all", "flush", "flush"];
    assert_eq!(told, wanted);
    let points = Points::default();
    trained(|trainer| trainer.accumulate(2).track(points.clone()).log_every(3));
    // Of seven batches, six are told of after three steps. The fourth step has one batch.
    assert_eq!(points.0.lock().unwrap()[..2], ["3: loss lr", "4: loss lr all"]);
}

#[test]
fn the_curves_are_of_the_whole_run() {
    let folder = tempfile::tempdir().unwrap();
    let curves = |name: &str| RunLogger::new(folder.path().join(name), &["loss", "all"], 1);
    let read = |name: &str| std::fs::read(folder.path().join(name).join("run.csv")).unwrap();
    trained(|trainer| trainer.epochs(3).track(curves("whole").unwrap()));
    let file = folder.path().join("run.safetensors");
    for epochs in [1, 3] {
        let log = curves("parts").unwrap();
        trained(|trainer| trainer.epochs(epochs).track(log).checkpoint(&file, 100).resume());
    }
    assert_eq!(read("parts"), read("whole"));
}

#[test]
fn schedules_go_on_by_epochs_where_that_is_asked_for() {
    run(|| {
        let mut net = Net::new();
        let mut optimizer = optimizer(&net);
        let rates = Arc::new(Mutex::new(Vec::new()));
        let sink = rates.clone();
        let halved = LambdaLr(|step| {
            sink.lock().unwrap().push(step);
            0.5_f64.powi(step as i32)
        });
        let trainer = Trainer::new(&mut net, &mut optimizer, |net: &Net, batch| net.loss(batch));
        trainer.epochs(2).schedule(halved, Interval::Epoch).fit(&mut loader()).unwrap();
        assert_eq!(*rates.lock().unwrap(), [0, 1, 2]);
        assert_eq!(optimizer.lr(), 0.0075);
    });
}

#[test]
fn streams_are_loaders_as_well() {
    run(|| {
        let mut net = Net::new();
        let mut optimizer = optimizer(&net);
        let rows = |_epoch| {
            (0..).map(|i: i32| Ok(vec![array(vec![i as f32; 3], [3])?, array(vec![0.0_f32], [1])?]))
        };
        let config = StreamConfig { batch_size: 4, ..Default::default() };
        let mut loader = StreamLoader::new(rows, config).unwrap();
        let trainer = Trainer::new(&mut net, &mut optimizer, |net: &Net, batch| net.loss(batch));
        let outcome = trainer.max_steps(5).fit(&mut loader).unwrap();
        assert_eq!((outcome.last.epochs, outcome.last.steps), (1, 5));
        assert_eq!(loader.state_dict().unwrap().number::<i64>("batch").unwrap(), 5);
    });
}

/// The error of a trainer with these settings, which computes no loss.
fn error(set: impl for<'a> FnOnce(Trainer<'a, Net>) -> Trainer<'a, Net>) -> String {
    run(|| {
        let mut net = Net::new();
        let mut optimizer = optimizer(&net);
        let mut losses = Vec::new();
        let error = set(trainer(&mut net, &mut optimizer, &mut losses)).fit(&mut loader());
        assert!(losses.is_empty(), "it trains with settings that are wrong");
        error.unwrap_err().to_string().replace(file!(), "FILE")
    })
}

#[test]
fn settings_that_are_wrong_are_told_at_once() {
    let told = |error: String, wanted: &str, hint: &str| {
        assert!(error.starts_with(&format!("trainer: {wanted}\n  at FILE:")), "{error}");
        assert!(error.ends_with(&format!("  hint: {hint}")), "{error}");
    };
    let at_least = "give it at least 1";
    told(error(|t| t.accumulate(0)), "`accumulate` is given 0", at_least);
    told(error(|t| t.checkpoint("x", 0)), "`checkpoint` is given 0", at_least);
    told(error(|t| t.log_every(0)), "`log_every` is given 0", at_least);
    told(error(|t| t.resume()), "`resume` without a file", "name it by `checkpoint`");
    let watched = error(|t| t.early_stopping("al", EarlyStopping::default()));
    told(watched, "`early_stopping` watches `al`, which nothing measures", "there are: loss, all");
    let reserved = "`loss` is the mean loss of an epoch, and `lr` the learning rate";
    told(error(|t| t.validate("all", measure)), "two measures are called `all`", reserved);
    told(error(|t| t.validate("lr", measure)), "two measures are called `lr`", reserved);
}

#[test]
fn errors_of_the_parts_end_the_training() {
    run(|| {
        let mut net = Net::new();
        let mut sgd = Sgd::new(net.parameters(), SgdConfig::default());
        let none: Vec<HostTensor> = vec![array::<f32>(vec![], [0, 3]).unwrap()];
        let dataset = TensorDataset::new(none).unwrap();
        let mut empty = DataLoader::new(dataset, LoaderConfig::default()).unwrap();
        let loss = |net: &Net, batch: &[DynTensor]| net.loss(batch);
        let error = Trainer::new(&mut net, &mut sgd, loss).fit(&mut empty).unwrap_err();
        assert_eq!(error.message(), "trainer: the loader has no batch");
        let each = |net: &Net, batch: &[DynTensor]| net.fc1.forward(&batch[0]);
        let error = Trainer::new(&mut net, &mut sgd, each).fit(&mut loader()).unwrap_err();
        assert!(error.message().contains("backward"), "{error}");
        let trainer = Trainer::new(&mut net, &mut sgd, loss).validate("all", |_| Err(failure()));
        let error = trainer.fit(&mut loader()).unwrap_err();
        assert_eq!(error.message(), "the disk is full");
    });
}

#[test]
fn a_checkpoint_of_another_model_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.safetensors");
    trained(|trainer| trainer.checkpoint(&file, 100));
    let (session, _system) = Reference::session();
    let _entered = session.enter();
    let mut other: Linear<N<3>, One> = Linear::new();
    let mut sgd = Sgd::new(other.parameters(), SgdConfig::default());
    let before = other.state_dict().unwrap();
    let loss = |net: &Linear<N<3>, One>, batch: &[DynTensor]| {
        net.forward(&Tensor::<shape![Batch, 3]>::from_dyn(batch[0].clone())).mean()
    };
    let trainer = Trainer::new(&mut other, &mut sgd, loss).checkpoint(&file, 100).resume();
    let error = trainer.fit(&mut loader()).unwrap_err();
    assert!(error.message().contains("model: the state does not fit"), "{error}");
    assert_eq!(other.state_dict().unwrap(), before);
}
