//! Optimizers, schedules and losses against PyTorch: the values that `tests/fixtures/make.py`
//! computed with it.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use gt::functional::*;
use gt::optim::schedule::*;
use gt::optim::*;
use gt::prelude::*;
use serde_json::Value;

use crate::run;

fn fixture(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[track_caller]
fn close(got: &[f64], want: &[f64], what: &str) {
    let near = got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-9 * (1e-3 + w.abs()));
    assert!(near && got.len() == want.len(), "{what}: {got:?} is not {want:?}");
}

/// The settings of a case, with what it does not say left to the default.
struct Settings<'a>(&'a Value);

impl Settings<'_> {
    fn number(&self, name: &str, default: f64) -> f64 {
        self.0.get(name).map_or(default, |v| v.as_f64().unwrap())
    }

    fn whole(&self, name: &str, default: u64) -> u64 {
        self.0.get(name).map_or(default, |v| v.as_u64().unwrap())
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|v| v.as_bool().unwrap())
    }
}

/// Two groups, the second with half the learning rate, and the settings by their names.
fn grouped<R: Rule + 'static>(
    settings: &Value,
    (a, b): (&DynTensor, &DynTensor),
    config: R,
) -> Box<dyn Optimizer> {
    let groups = [(vec![a.clone()], config.clone()), (vec![b.clone()], config)];
    let mut optimizer = Grouped::with_groups(groups);
    for group in 0..2 {
        for (name, value) in settings.as_object().unwrap() {
            match value {
                Value::Number(_) => optimizer.set(group, name, value.as_f64().unwrap()).unwrap(),
                Value::Array(pair) => {
                    let word = if name == "betas" { "beta" } else { name };
                    for (i, value) in pair.iter().enumerate() {
                        let value = value.as_f64().unwrap();
                        optimizer.set(group, &format!("{word}{}", i + 1), value).unwrap();
                    }
                }
                _ => assert!(value.is_boolean()),
            }
        }
    }
    let half = optimizer.lr() / 2.0;
    optimizer.set(1, "lr", half).unwrap();
    Box::new(optimizer)
}

fn optimizer(name: &str, s: &Settings<'_>, a: &DynTensor, b: &DynTensor) -> Box<dyn Optimizer> {
    let amsgrad = if s.flag("amsgrad") { Amsgrad::On } else { Amsgrad::Off };
    let nesterov = if s.flag("nesterov") { Nesterov::On } else { Nesterov::Off };
    let centered = if s.flag("centered") { Centered::On } else { Centered::Off };
    let (s, both) = (s.0, (a, b));
    match name {
        "sgd" => grouped(s, both, SgdConfig { nesterov, ..SgdConfig::default() }),
        "adam" => grouped(s, both, AdamConfig { amsgrad, ..AdamConfig::default() }),
        "adamw" => grouped(s, both, AdamWConfig { amsgrad, ..AdamWConfig::default() }),
        "rmsprop" => grouped(s, both, RmsPropConfig { centered, ..RmsPropConfig::default() }),
        "adagrad" => grouped(s, both, AdagradConfig::default()),
        "lion" => grouped(s, both, LionConfig::default()),
        "radam" => grouped(s, both, RAdamConfig::default()),
        "nadam" => {
            let is_decoupled = s.get("decoupled_weight_decay").is_some();
            let decay = if is_decoupled { Decay::Decoupled } else { Decay::Gradient };
            grouped(s, both, NAdamConfig { decay, ..NAdamConfig::default() })
        }
        "adafactor" => grouped(s, both, AdafactorConfig::default()),
        other => panic!("{other}"),
    }
}

fn leaves() -> (DynTensor, DynTensor) {
    let leaf = |data: &[f64]| DynTensor::from_slice(data, [data.len()]).requires_grad();
    (leaf(&[0.7, -1.2, 0.05]), leaf(&[0.3, -0.4, 1.1, 0.9]))
}

fn one_step(optimizer: &mut dyn Optimizer, a: &DynTensor, b: &DynTensor, step: usize) {
    optimizer.zero_grad();
    let own = |x: &DynTensor| (x.pow(4) / 4.0 + x).sum(..);
    let both = a.sum(..) * b.sum(..) * (step as f64).sin();
    (own(a) + own(b) + both).backward().unwrap();
    optimizer.step().unwrap();
}

fn values(a: &DynTensor, b: &DynTensor) -> Vec<f64> {
    DynTensor::cat([a, b], 0).to_vec().unwrap()
}

#[test]
fn optimizers_are_pytorchs_and_go_on_after_a_restart() {
    let cases = fixture(include_str!("../fixtures/optimizers.json"));
    for case in cases.as_array().unwrap() {
        let (name, settings) = (case["name"].as_str().unwrap(), Settings(&case["settings"]));
        let what = format!("{name} {}", case["settings"]);
        run(|| {
            let (mut a, mut b) = leaves();
            let mut opt = optimizer(name, &settings, &a, &b);
            for step in 1..=40 {
                one_step(opt.as_mut(), &a, &b, step);
                if let Some(want) = case["steps"].get(step.to_string()) {
                    close(&values(&a, &b), &numbers(want), &format!("{what} step {step}"));
                }
                if step == 17 {
                    // Another optimizer of other leaves, which knows the state only.
                    let state = opt.state_dict().unwrap();
                    (a, b) = (a.detach().requires_grad(), b.detach().requires_grad());
                    opt = optimizer(name, &settings, &a, &b);
                    opt.load_state_dict(&state).unwrap();
                    assert_eq!(opt.state_dict().unwrap(), state, "{what}");
                }
            }
        });
    }
}

#[test]
fn adafactor_of_matrices_is_pytorchs_and_goes_on_after_a_restart() {
    let want = fixture(include_str!("../fixtures/adafactor.json"));
    run(|| {
        let a = DynTensor::from([[0.7, -1.2, 0.05], [0.3, -0.4, 1.1]]).requires_grad();
        let b = [[[0.9, 0.2], [-0.6, 0.1]], [[0.4, 1.3], [0.3, -0.7]]];
        let b = DynTensor::from(b).requires_grad();
        let config = AdafactorConfig { lr: 0.1, weight_decay: 0.1, ..Default::default() };
        let mut optimizer = Adafactor::new([a.clone(), b.clone()], config);
        for step in 1..=20 {
            one_step(&mut optimizer, &a, &b, step);
            if step == 7 {
                let state = optimizer.state_dict().unwrap();
                let rows = state.get("state.1.row_var").unwrap().ty();
                assert_eq!(rows.to_string(), "f64[2,2,1]");
                optimizer = Adafactor::new([a.clone(), b.clone()], config);
                optimizer.load_state_dict(&state).unwrap();
                let turned = Adafactor::new([b.clone(), a.clone()], config).load_state_dict(&state);
                let text = turned.unwrap_err().to_string();
                assert!(text.contains("state.0.row_var: is f64[2,2,1], but"), "{text}");
            }
        }
        close(&a.to_vec::<f64>().unwrap(), &numbers(&want["a"]), "a");
        close(&b.to_vec::<f64>().unwrap(), &numbers(&want["b"]), "b");
    });
}

#[test]
fn lbfgs_is_pytorchs_and_goes_on_after_a_restart() {
    let cases = fixture(include_str!("../fixtures/lbfgs.json"));
    for case in cases.as_array().unwrap() {
        let settings = Settings(&case["settings"]);
        let is_searching = case["settings"].get("line_search_fn").is_some();
        let d = LbfgsConfig::default();
        let config = LbfgsConfig {
            lr: settings.number("lr", d.lr),
            max_iter: settings.whole("max_iter", 20) as usize,
            max_eval: case["settings"].get("max_eval").map(|n| n.as_u64().unwrap() as usize),
            history_size: settings.whole("history_size", 100) as usize,
            line_search: if is_searching { LineSearch::StrongWolfe } else { LineSearch::None },
            ..d
        };
        run(|| {
            let (a, b) = leaves();
            let valley = || {
                let (early, late) = (a.narrow(0, 0, 2), a.narrow(0, 1, 2));
                let steep = (&late - early.square()).square() * 100.0;
                (steep + (1.0 - early).square()).sum(..) + b.pow(4).sum(..)
            };
            let weights = DynTensor::from([1.0, 2.0, 3.0]);
            let bowl = || {
                (a.square() * &weights).sum(..) + b.square().sum(..) + a.sum(..) * b.sum(..) / 8.0
            };
            let loss = || if case["name"] == "valley" { valley() } else { bowl() };
            let mut optimizer = Lbfgs::new([a.clone(), b.clone()], config);
            for (i, want) in case["steps"].as_array().unwrap().iter().enumerate() {
                let before = optimizer.step(loss).unwrap();
                let want = numbers(want);
                let what = format!("{} {} step {i}", case["name"], case["settings"]);
                let got = [vec![before], values(&a, &b)].concat();
                let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 1e-6 * (1e-3 + w.abs());
                assert!(got.iter().zip(&want).all(near), "{what}: {got:?} is not {want:?}");
                if i == 2 {
                    let state = optimizer.state_dict().unwrap();
                    optimizer = Lbfgs::new([a.clone(), b.clone()], config);
                    optimizer.load_state_dict(&state).unwrap();
                    assert_eq!(optimizer.state_dict().unwrap(), state, "{what}");
                }
            }
        });
    }
}

#[test]
fn lbfgs_says_what_it_cannot_optimize() {
    run(|| {
        let x = DynTensor::from([1.0, 2.0]).requires_grad();
        let mut none = Lbfgs::new([], LbfgsConfig::default());
        let error = none.step(|| x.square().sum(..)).unwrap_err();
        assert_eq!(error.message(), "lbfgs: there are no parameters");
        let mut optimizer = Lbfgs::new([x.clone(), x.clone()], LbfgsConfig::default());
        assert_eq!(optimizer.parameters().len(), 1);
        assert!(optimizer.step(|| x.square()).is_err(), "no single number");
        assert!(optimizer.step(|| x.detach().sum(..)).is_err(), "no parameter");
        // A loss that is no number moves nothing for ever.
        assert!(optimizer.step(|| (x.sum(..) * f64::NAN).sum(..)).unwrap().is_nan());
        let state = Lbfgs::new([x.clone()], LbfgsConfig::default()).state_dict().unwrap();
        let mut other = state.clone();
        other.insert(
            "state.0.d",
            HostTensor::from_vec(vec![0.0; 3], "[3]".parse().unwrap()).unwrap(),
        );
        let error = optimizer.load_state_dict(&other).unwrap_err().to_string();
        assert!(error.contains("missing: state.0.prev_flat_grad"), "{error}");
        assert!(error.contains("state.0.d: is f64[2], but the state has f64[3]"), "{error}");
    });
}

#[test]
fn ctc_is_pytorchs() {
    let data = fixture(include_str!("../fixtures/ctc.json"));
    let (targets, inputs) = ([[1i64, 1, 2], [3, 2, 1], [2, 0, 0], [1, 2, 3]], [6i64, 4, 5, 2]);
    run(|| {
        let (mut targets, inputs) = (DynTensor::from(targets), DynTensor::from(inputs));
        let lengths = DynTensor::from([3i64, 3, 0, 3]);
        for case in data["cases"].as_array().unwrap() {
            let reduction = match case["reduction"].as_str().unwrap() {
                "none" => Reduction::None,
                "sum" => Reduction::Sum,
                _ => Reduction::Mean,
            };
            let how =
                Ctc { blank: case["blank"].as_i64().unwrap(), zero_infinity: true, reduction };
            let x = DynTensor::from_vec(numbers(&data["x"]), [6, 4, 5]).requires_grad();
            let loss = ctc_loss(&x.log_softmax(-1), &targets, &inputs, &lengths, &how);
            loss.sum(..).backward().unwrap();
            let what = format!("{how:?}");
            close(&loss.to_vec::<f64>().unwrap(), &numbers(&case["loss"]), &what);
            close(&x.grad().unwrap().to_vec::<f64>().unwrap(), &numbers(&case["grad"]), &what);
            // What is behind a target does not matter.
            targets = targets.slice_assign((2, ..), -7);
        }
        let x = DynTensor::from_vec(numbers(&data["x"]), [6, 4, 5]).log_softmax(-1);
        let plain = Ctc { reduction: Reduction::None, ..Ctc::default() };
        let all = ctc_loss(&x, &targets, &inputs, &lengths, &plain).to_vec::<f64>().unwrap();
        assert_eq!(all[3], f64::INFINITY, "three labels in two inputs");
        let at = |x: &DynTensor| x.slice(0);
        let first = at(&x.transpose(0, 1));
        let one = ctc_loss(&first, &at(&targets), &at(&inputs), &at(&lengths), &plain);
        close(&one.to_vec::<f64>().unwrap(), &all[..1], "without a batch");
        let zero = DynTensor::from([0i64; 4]);
        let nothing = ctc_loss(&x, &targets, &zero, &zero, &plain).to_vec::<f64>().unwrap();
        assert_eq!(nothing, [0.0; 4], "nothing of nothing");
        let text = ctc_loss(&x, &at(&targets), &inputs, &lengths, &plain).error().unwrap();
        assert!(text.message().starts_with("ctc_loss: got f64[6,4,5], i64[3], i64[4]"), "{text}");
    });
}

#[test]
fn muon_is_pytorchs() {
    let cases = fixture(include_str!("../fixtures/muon.json"));
    for case in cases.as_array().unwrap() {
        let settings = Settings(&case["settings"]);
        let nesterov = match case["settings"].get("nesterov") {
            Some(_) => Nesterov::Off,
            None => Nesterov::On,
        };
        let d = MuonConfig::default();
        let config = MuonConfig {
            lr: settings.number("lr", d.lr),
            momentum: settings.number("momentum", d.momentum),
            weight_decay: settings.number("weight_decay", d.weight_decay),
            nesterov,
        };
        run(|| {
            let a = DynTensor::from([[0.7, -1.2, 0.05], [0.3, -0.4, 1.1]]).requires_grad();
            let b = DynTensor::from([[0.9, 0.2], [-0.6, 0.1], [0.4, 1.3]]).requires_grad();
            let mut optimizer = Muon::new([a.clone(), b.clone()], config);
            for step in 1..=20 {
                optimizer.zero_grad();
                let own = |x: &DynTensor| (x.pow(4) / 4.0 + x).sum(..);
                let both = a.matmul(&b).sum(..) * f64::from(step).sin();
                (own(&a) + own(&b) + both).backward().unwrap();
                optimizer.step().unwrap();
            }
            let near = |x: &DynTensor, want: &Value| {
                let got = x.to_vec::<f64>().unwrap();
                let apart = got.iter().zip(numbers(want)).map(|(g, w)| (g - w).abs());
                assert!(apart.fold(0.0, f64::max) < 1e-6, "{}: {got:?}", case["settings"]);
            };
            near(&a, &case["a"]);
            near(&b, &case["b"]);
        });
    }
}

#[test]
fn schedules_follow_each_other() {
    let warm_up = LinearLr { start_factor: 0.25, end_factor: 1.0, total_iters: 3 };
    let schedule = SequentialLr::new(warm_up)
        .then(3, ExponentialLr { gamma: 0.5 })
        .then(5, PolynomialLr { total_iters: 2, power: 1.0 });
    let rates: Vec<f64> = (0..8).map(|step| schedule.lr(1.0, step)).collect();
    assert_eq!(rates, [0.25, 0.5, 0.75, 1.0, 0.5, 1.0, 0.5, 0.0]);
    // A milestone before the last one is the last one's.
    let schedule = schedule.then(2, ExponentialLr { gamma: 0.25 });
    let rates: Vec<f64> = (4..7).map(|step| schedule.lr(1.0, step)).collect();
    assert_eq!(rates, [0.5, 1.0, 0.25]);
    assert_eq!(format!("{schedule:?}"), "SequentialLr { begins: [0, 3, 5, 5], .. }");
}

fn schedule(name: &str, s: &Settings<'_>) -> Box<dyn Schedule> {
    match name {
        "step" => {
            Box::new(StepLr { step_size: s.whole("step_size", 0), gamma: s.number("gamma", 0.) })
        }
        "multi_step" => Box::new(MultiStepLr {
            milestones: numbers(&s.0["milestones"]).into_iter().map(|at| at as u64).collect(),
            gamma: s.number("gamma", 0.),
        }),
        "exponential" => Box::new(ExponentialLr { gamma: s.number("gamma", 0.) }),
        "linear" => Box::new(LinearLr {
            start_factor: s.number("start_factor", 0.),
            end_factor: s.number("end_factor", 0.),
            total_iters: s.whole("total_iters", 0),
        }),
        "constant" => Box::new(ConstantLr {
            factor: s.number("factor", 0.),
            total_iters: s.whole("total_iters", 0),
        }),
        "multiplicative" => Box::new(MultiplicativeLr(|step| 1.0 - 1.0 / (step as f64 + 3.0))),
        "chained" => {
            let first = ConstantLr { factor: 0.3, total_iters: 4 };
            Box::new(ChainedLr::new(first).with(ExponentialLr { gamma: 0.9 }))
        }
        "cosine" => Box::new(CosineAnnealingLr {
            t_max: s.whole("T_max", 0),
            eta_min: s.number("eta_min", 0.),
        }),
        "warmup_cosine" => Box::new(WarmupCosine {
            warmup: s.whole("warmup", 0),
            total: s.whole("total", 0),
            min_factor: s.number("min_factor", 0.),
        }),
        "polynomial" => Box::new(PolynomialLr {
            total_iters: s.whole("total_iters", 0),
            power: s.number("power", 0.),
        }),
        "warm_restarts" => Box::new(CosineAnnealingWarmRestarts {
            t_0: s.whole("T_0", 0),
            t_mult: s.whole("T_mult", 1),
            eta_min: s.number("eta_min", 0.),
        }),
        "cyclic" => Box::new(CyclicLr {
            max_lr: s.number("max_lr", 0.),
            step_size_up: s.whole("step_size_up", 0),
            step_size_down: s.whole("step_size_down", 0),
            height: match s.0["mode"].as_str().unwrap() {
                "triangular" => CycleHeight::Same,
                "triangular2" => CycleHeight::Halved,
                _ => CycleHeight::Decaying(s.number("gamma", 0.)),
            },
            cycle_momentum: match s.0.get("base_momentum") {
                Some(_) => CycleMomentum::Between(
                    s.number("base_momentum", 0.),
                    s.number("max_momentum", 0.),
                ),
                None => CycleMomentum::Off,
            },
        }),
        "one_cycle" => {
            let d = OneCycleLr::new(s.number("max_lr", 0.), s.whole("total_steps", 0));
            let anneal =
                if s.0.get("anneal_strategy").is_some() { Anneal::Linear } else { Anneal::Cos };
            Box::new(OneCycleLr {
                pct_start: s.number("pct_start", d.pct_start),
                div_factor: s.number("div_factor", d.div_factor),
                final_div_factor: s.number("final_div_factor", d.final_div_factor),
                anneal,
                ..d
            })
        }
        other => panic!("{other}"),
    }
}

/// A schedule chosen at run time.
struct Chosen(Box<dyn Schedule>);

impl Schedule for Chosen {
    fn lr(&self, base: f64, step: u64) -> f64 {
        self.0.lr(base, step)
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        self.0.momentum(step)
    }
}

fn plateau(s: &Settings<'_>) -> ReduceLrOnPlateau {
    let mode = if s.0["mode"] == "max" { PlateauMode::Max } else { PlateauMode::Min };
    let mut plateau = ReduceLrOnPlateau::new(mode);
    plateau.factor = s.number("factor", plateau.factor);
    plateau.patience = s.whole("patience", plateau.patience);
    plateau.cooldown = s.whole("cooldown", 0);
    plateau.min_lr = s.number("min_lr", 0.0);
    let threshold = s.number("threshold", 1e-4);
    plateau.threshold = match s.0.get("threshold_mode") {
        Some(_) => Threshold::Absolute(threshold),
        None => Threshold::Relative(threshold),
    };
    plateau
}

#[test]
fn schedules_are_pytorchs_and_go_on_after_a_restart() {
    let cases = fixture(include_str!("../fixtures/schedules.json"));
    for case in cases.as_array().unwrap() {
        let (name, settings) = (case["name"].as_str().unwrap(), Settings(&case["settings"]));
        let rows = case["rows"].as_array().unwrap();
        let ((a, b), config) =
            (leaves(), SgdConfig { lr: 0.5, momentum: 0.9, ..SgdConfig::default() });
        let mut opt =
            Sgd::with_groups([(vec![a], config), (vec![b], SgdConfig { lr: 0.1, ..config })]);
        let check = |opt: &mut Sgd, i: usize| {
            let all = [opt.setting(0, "lr"), opt.setting(1, "lr"), opt.setting(0, "momentum")];
            let want = numbers(&rows[i]);
            let got: Vec<f64> = all.into_iter().flatten().take(want.len()).collect();
            close(&got, &want, &format!("{name} {} step {i}", case["settings"]));
        };
        if name == "plateau" {
            let mut scheduler = plateau(&settings);
            for (i, metric) in numbers(&case["metrics"]).into_iter().enumerate() {
                let state = scheduler.state_dict().unwrap();
                scheduler = plateau(&settings);
                scheduler.load_state_dict(&state).unwrap();
                scheduler.step(metric, &mut opt);
                check(&mut opt, i);
            }
            continue;
        }
        let mut scheduler = Scheduler::new(&mut opt, Chosen(schedule(name, &settings)));
        for i in 0..rows.len() {
            check(&mut opt, i);
            if i == 10 {
                let state = scheduler.state_dict().unwrap();
                scheduler = Scheduler::new(&mut opt, Chosen(schedule(name, &settings)));
                scheduler.load_state_dict(&state).unwrap();
            }
            scheduler.step(&mut opt);
        }
    }
}

/// The tensors that losses are computed of.
struct Data(Value);

impl Data {
    fn get(&self, name: &str, shape: &[usize]) -> DynTensor {
        DynTensor::from_vec(numbers(&self.0[name]), shape)
    }

    fn matrix(&self, name: &str) -> DynTensor {
        self.get(name, &[4, 3])
    }

    fn loss(&self, name: &str, x: &DynTensor, reduction: Reduction) -> DynTensor {
        let m = |name: &str| self.matrix(name);
        let w = || Some(self.get("w", &[3]));
        let classes = DynTensor::from_slice(&[2_i64, 0, 1, 2], [4]);
        let some = DynTensor::from_slice(&[2_i64, -100, 1, -100], [4]);
        let deep = DynTensor::from_slice(&[2_i64, 0, 1, 1, 0, 2, 2, -100], [4, 2]);
        let plain = CrossEntropy { reduction, ..CrossEntropy::default() };
        let ignore = CrossEntropy { weight: w(), ignore_index: Some(-100), ..plain.clone() };
        let smooth = |label_smoothing, options: &CrossEntropy| CrossEntropy {
            label_smoothing,
            ..options.clone()
        };
        let weighted = CrossEntropy { weight: w(), ..plain.clone() };
        match name {
            "mse" => mse_loss_with(x, &m("y"), reduction),
            "l1" => l1_loss_with(x, &m("y"), reduction),
            "smooth_l1" => smooth_l1_loss_with(x, &m("y"), 1.0, reduction),
            "smooth_l1 0.3" => smooth_l1_loss_with(x, &m("y"), 0.3, reduction),
            "huber" => huber_loss(x, &m("y"), 0.6, reduction),
            "bce" => binary_cross_entropy_with(x, &m("q"), None, reduction),
            "bce weight" => binary_cross_entropy_with(x, &m("q"), w().as_ref(), reduction),
            "bce_logits" => binary_cross_entropy_with_logits_with(
                x,
                &m("q"),
                &BceWithLogits { reduction, ..BceWithLogits::default() },
            ),
            "bce_logits pos" => binary_cross_entropy_with_logits_with(
                x,
                &m("q"),
                &BceWithLogits { reduction, weight: w(), pos_weight: w().map(|w| w * 2.0) },
            ),
            "ce" => cross_entropy_with(x, &classes, &plain),
            "ce weight" => cross_entropy_with(x, &classes, &weighted),
            "ce ignore" => cross_entropy_with(x, &some, &ignore),
            "ce smooth" => cross_entropy_with(x, &classes, &smooth(0.2, &plain)),
            "ce all" => cross_entropy_with(x, &some, &smooth(0.2, &ignore)),
            "ce deep" => cross_entropy_with(x, &deep, &smooth(0.1, &ignore)),
            "nll" => nll_loss_with(x, &classes, &plain),
            "nll all" => nll_loss_with(x, &some, &ignore),
            "kl" => kl_div(x, &m("softmax_y"), KlTarget::Probabilities, reduction),
            "kl log" => kl_div(x, &m("log_q"), KlTarget::Logarithms, reduction),
            other => self.ranking_loss(other, x, reduction),
        }
    }

    /// Losses of likelihoods, margins and angles.
    fn ranking_loss(&self, name: &str, x: &DynTensor, reduction: Reduction) -> DynTensor {
        let m = |name: &str| self.matrix(name);
        let (gaussian, poisson) = (GaussianNll::default(), PoissonNll::default());
        let like = DynTensor::from([1i64, -1, 1, -1]);
        match name {
            "gaussian" => {
                gaussian_nll_loss(x, &m("y"), &m("q"), &GaussianNll { reduction, ..gaussian })
            }
            "gaussian var" => {
                let options = GaussianNll { eps: 0.4, reduction, ..gaussian };
                gaussian_nll_loss(&m("x"), &m("y"), x, &options)
            }
            "gaussian rows" => {
                let options = GaussianNll { full: true, reduction, ..gaussian };
                gaussian_nll_loss(x, &m("y"), &m("q").slice((.., 0)), &options)
            }
            "poisson" => poisson_nll_loss(x, &m("p"), &PoissonNll { reduction, ..poisson }),
            "poisson rates" => {
                let options = PoissonNll { log_input: false, eps: 0.1, reduction, ..poisson };
                poisson_nll_loss(x, &m("q"), &options)
            }
            "poisson full" => {
                let options = PoissonNll { full: true, reduction, ..poisson };
                poisson_nll_loss(x, &(m("p") * 4.0), &options)
            }
            "margin" => {
                let order = m("q").gt(0.5).to_dtype(DType::F64) * 2.0 - 1.0;
                margin_ranking_loss(x, &m("y"), &order, 0.3, reduction)
            }
            "triplet" => {
                let options = TripletMargin { margin: 0.7, reduction, ..Default::default() };
                triplet_margin_loss(x, &m("y"), &m("p"), &options)
            }
            "triplet swap" => {
                let options =
                    TripletMargin { p: 3.0, eps: 0.01, swap: true, reduction, margin: 2.0 };
                triplet_margin_loss(x, &m("y"), &m("p"), &options)
            }
            "cosine small" => {
                cosine_embedding_loss(&(x * 1e-6), &(m("y") * 1e-6), &like, 0.1, reduction)
            }
            "cosine" => cosine_embedding_loss(x, &m("y"), &like, 0.1, reduction),
            other => self.margin_loss(other, x, reduction),
        }
    }

    /// Losses of margins between classes, and of several labels.
    fn margin_loss(&self, name: &str, x: &DynTensor, reduction: Reduction) -> DynTensor {
        let (m, w) = (|name: &str| self.matrix(name), self.get("w", &[3]));
        let classes = DynTensor::from([2_i64, 0, 1, 2]);
        let labels = DynTensor::from([[2_i64, 0, -1], [1, -1, 0], [-1, 2, 1], [0, 1, 2]]);
        let signs = DynTensor::from([[1_i64, -1, 0], [-1, -1, 1], [1, 0, 1], [1, -1, 1]]);
        let plain = MultiMargin { reduction, ..Default::default() };
        match name {
            "multi_margin" => multi_margin_loss(x, &classes, &plain),
            "multi_margin all" => {
                let options = MultiMargin { p: 2.0, margin: 0.7, weight: Some(&w), ..plain };
                multi_margin_loss(x, &classes, &options)
            }
            "multilabel_margin" => multilabel_margin_loss(x, &labels, reduction),
            "multilabel_soft" => multilabel_soft_margin_loss(x, &m("q"), None, reduction),
            "multilabel_soft weight" => {
                multilabel_soft_margin_loss(x, &m("q"), Some(&w), reduction)
            }
            "soft_margin" => soft_margin_loss(x, &m("y").sign(), reduction),
            "hinge" => hinge_embedding_loss(x, &signs, 0.8, reduction),
            "triplet own" => {
                let options =
                    TripletMargin { margin: 0.7, swap: true, reduction, ..Default::default() };
                let distance = |a: &DynTensor, b: &DynTensor| (a - b).abs().sum(-1);
                triplet_margin_with_distance_loss(x, &m("y"), &m("p"), distance, &options)
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn losses_and_their_gradients_are_pytorchs() {
    run(|| {
        let data = Data(fixture(include_str!("../fixtures/losses.json")));
        for case in data.0["cases"].as_array().unwrap() {
            let name = case["name"].as_str().unwrap();
            let reduction = match case["reduction"].as_str().unwrap() {
                "mean" => Reduction::Mean,
                "sum" => Reduction::Sum,
                "batchmean" => Reduction::BatchMean,
                _ => Reduction::None,
            };
            let input = match name {
                "ce deep" => data.get("z", &[4, 2, 3]),
                _ if name.starts_with("kl") || name.starts_with("nll") => data.matrix("log_p"),
                "bce" | "bce weight" | "gaussian var" | "poisson rates" => data.matrix("p"),
                _ => data.matrix("x"),
            };
            let x = input.requires_grad();
            let loss = data.loss(name, &x, reduction);
            let what = format!("{name} {}", case["reduction"]);
            close(&loss.to_vec().unwrap(), &numbers(&case["loss"]), &what);
            loss.sum(..).backward().unwrap();
            close(&x.grad().unwrap().to_vec().unwrap(), &numbers(&case["grad"]), &what);
        }
    });
}

/// What halves are computed in is no part of the result: others keep the dtype they promote to.
#[test]
fn functions_of_several_steps_keep_the_dtype_their_operands_promote_to() {
    let of = |dtype| DynTensor::ones([3], dtype);
    for (a, b, wanted) in [
        (DType::F32, DType::F64, DType::F64),
        (DType::Bf16, DType::F32, DType::F32),
        (DType::Bf16, DType::Bf16, DType::Bf16),
        (DType::F16, DType::F16, DType::F16),
        (DType::F32, DType::F32, DType::F32),
    ] {
        let (a, b) = (of(a), of(b));
        let losses = gt::functional::binary_cross_entropy_with_logits(&a, &b);
        let cosine = gt::functional::cosine_similarity(&a, &b, 0, 1e-8);
        for y in [a.lerp(&b, 0.5), losses, cosine] {
            assert_eq!((y.error().is_none(), y.dtype()), (true, wanted));
        }
    }
    let whole = of(DType::I64);
    let cubes = whole.norm_p(3.0, ..);
    assert_eq!((cubes.dtype(), whole.lerp(&whole, 0.5).dtype()), (DType::F32, DType::F32));
    assert!((cubes.item().unwrap() - 3.0_f64.powf(1.0 / 3.0)).abs() < 1e-6);
}
