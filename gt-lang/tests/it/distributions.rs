//! Distributions against PyTorch's values (`tests/fixtures/make.py`), and samples against the
//! moments of their distributions.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use gt::distributions::*;
use gt::prelude::*;
use serde_json::Value;

use crate::run;

struct Data {
    a: DynTensor,
    b: DynTensor,
    c: DynTensor,
    d: DynTensor,
    values: Value,
}

impl Data {
    fn new() -> Data {
        Data {
            a: DynTensor::from([[0.3, 1.5, 2.0], [0.7, 4.0, 0.9]]),
            b: DynTensor::from([[0.5, 0.8, 3.0], [1.2, 2.0, 0.4]]),
            c: DynTensor::from([0.9, 1.1, 0.6]),
            d: DynTensor::from([[1.4], [0.2]]),
            values: serde_json::from_str(include_str!("../fixtures/distributions.json")).unwrap(),
        }
    }

    #[track_caller]
    fn close(&self, name: &str, what: &str, got: &DynTensor) {
        let want = self.values[name][what].as_array().unwrap();
        let number = |v: &Value| v.as_f64().unwrap_or_else(|| v.as_str().unwrap().parse().unwrap());
        let want: Vec<f64> = want.iter().map(number).collect();
        let got: Vec<f64> = got.to_vec().unwrap();
        let near =
            got.iter().zip(&want).all(|(g, w)| g == w || (g - w).abs() <= 1e-9 * (1.0 + w.abs()));
        assert!(near && got.len() == want.len(), "{name} {what}: {got:?} is not {want:?}");
    }

    /// What PyTorch computed of a distribution, and the moments of many samples.
    #[track_caller]
    fn check<D: Divergence>(&self, name: &str, one: &D, two: &D, value: &DynTensor) {
        self.close(name, "log_prob", &one.log_prob(value));
        self.close(name, "entropy", &one.entropy());
        self.close(name, "mean", &one.mean());
        self.close(name, "variance", &one.variance());
        self.close(name, "kl", &one.kl_divergence(two));
        const N: usize = 20_000;
        let drawn = one.sample([N / 2, 2]);
        assert!(!drawn.is_tracked());
        assert_eq!(drawn.sizes(), [&[N / 2, 2], &one.mean().sizes()[..]].concat(), "{name}");
        assert_eq!(one.sample([]).sizes(), one.mean().sizes(), "{name}");
        let drawn = drawn.to_dtype(DType::F64);
        let (mean, variance) = (drawn.mean([0, 1]), drawn.var([0, 1]));
        let spread = (one.variance() / N as f64).sqrt();
        let apart = ((mean - one.mean()) / spread).abs().max(..).item().unwrap();
        assert!(apart < 4.5, "{name}: the mean is {apart} standard errors off");
        let ratio = (variance / one.variance() - 1.0).abs().max(..).item().unwrap();
        assert!(ratio < 0.12, "{name}: the variance is off by {ratio}");
    }
}

#[test]
fn distributions_are_pytorchs() {
    run(|| {
        let data = Data::new();
        let (a, b, c, d) = (&data.a, &data.b, &data.c, &data.d);
        let (p, q) = (a / 5.0, b / 5.0);
        data.check("normal", &Normal::new(a, c), &Normal::new(b, d), b);
        data.check("laplace", &Laplace::new(a, c), &Laplace::new(b, d), b);
        let wide = Uniform::new(&(a - 1.0), &(a + 2.0));
        data.check("uniform", &Uniform::new(a, &(a + c)), &wide, &(a + 0.1));
        let truth = a.gt(1.0).to_dtype(DType::F64);
        let (one, two) = (Bernoulli::from_probs(&p), Bernoulli::from_logits(b));
        data.check("bernoulli", &one, &two, &truth);
        let classes = DynTensor::from([2i64, 0]);
        let (one, two) = (Categorical::from_probs(&p), Categorical::from_logits(b));
        data.check("categorical", &one, &two, &classes);
        data.check("exponential", &Exponential::new(a), &Exponential::new(b), c);
        data.check("gamma", &Gamma::new(a, c), &Gamma::new(b, d), b);
        data.check("beta", &Beta::new(a, c), &Beta::new(b, d), &q);
    });
}

#[test]
fn gradients_flow_through_samples_and_probabilities() {
    run(|| {
        let (loc, scale) =
            (DynTensor::from(0.5).requires_grad(), DynTensor::from(2.0).requires_grad());
        let normal = Normal::new(&loc, &scale);
        let sample = normal.rsample([1000]);
        let (by_loc, by_scale) = {
            let grads = autograd::grad(&sample.sum(..), &[&loc, &scale]).unwrap();
            (grads[0].item().unwrap(), grads[1].item().unwrap())
        };
        let noise = ((&sample - &loc) / &scale).sum(..).item().unwrap();
        assert_eq!(by_loc, 1000.0);
        assert!((by_scale - noise).abs() < 1e-6, "{by_scale} {noise}");

        // The gradient of the logarithm of a probability: 1 for the class drawn, less all.
        let logits = DynTensor::from([0.1, 0.2, 0.3]).requires_grad();
        let policy = Categorical::from_logits(&logits);
        policy.log_prob(&DynTensor::from(2i64)).backward().unwrap();
        let want = DynTensor::from([0.0, 0.0, 1.0]) - policy.probs();
        let apart = (logits.grad().unwrap() - want).abs().max(..).item().unwrap();
        assert!(apart < 1e-12);
        // A value for each of two draws of each distribution.
        let two = Categorical::from_logits(&DynTensor::zeros([3, 4], DType::F64));
        let drawn = two.sample([2]);
        assert_eq!((drawn.sizes(), two.log_prob(&drawn).sizes()), (vec![2, 3], vec![2, 3]));
    });
}

/// Impossible classes and bounds neither count nor make NaN.
#[test]
fn impossible_values_have_no_probability() {
    run(|| {
        let sure = Categorical::from_probs(&DynTensor::from([0.0, 1.0]));
        assert_eq!(sure.entropy().item().unwrap(), 0.0);
        assert_eq!(sure.log_prob(&DynTensor::from(0i64)).item().unwrap(), f64::NEG_INFINITY);
        assert_eq!(sure.kl_divergence(&sure).item().unwrap(), 0.0);
        let uniform = Uniform::new(&DynTensor::from(0.0), &DynTensor::from(1.0));
        assert_eq!(uniform.log_prob(&DynTensor::from(1.0)).item().unwrap(), f64::NEG_INFINITY);
        let wrong =
            Normal::new(&DynTensor::ones([2], DType::F64), &DynTensor::ones([3], DType::F64));
        assert!(wrong.sample([]).error().unwrap().message().starts_with("add: "));
    });
}

/// Probabilities of 0 and 1 are as sure as PyTorch's, and nothing else is drawn.
#[test]
fn sure_things_have_numbers() {
    run(|| {
        let data = Data::new();
        let sure = DynTensor::from([[0.0, 1.0, 0.0], [1.0, 0.5, 0.25]]);
        let unsure = DynTensor::from([[0.0, 1.0, 0.3], [0.6, 1.0, 0.0]]);
        let (one, two) = (Bernoulli::from_probs(&sure), Bernoulli::from_probs(&unsure));
        let truth = data.a.gt(1.0).to_dtype(DType::F64);
        data.close("bernoulli sure", "log_prob", &one.log_prob(&truth));
        data.close("bernoulli sure", "entropy", &one.entropy());
        data.close("bernoulli sure", "mean", &one.mean());
        data.close("bernoulli sure", "variance", &one.variance());
        data.close("bernoulli sure", "kl", &one.kl_divergence(&two));
        let drawn: Vec<f64> = one.sample([]).to_vec().unwrap();
        assert_eq!(drawn[..4], [0.0, 1.0, 0.0, 1.0]);
        let sure = Bernoulli::from_probs(&DynTensor::from([0.0f32, 1.0]));
        assert!(sure.log_prob(&DynTensor::from([1i64, 0])).to_vec::<f32>().unwrap()[0] < -15.0);
    });
}

/// Samples that are almost surely too small for a float are the smallest, and shares are shares.
#[test]
fn samples_of_small_parameters_are_numbers() {
    run(|| {
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            let small = DynTensor::full((), 0.01, dtype);
            let list = |x: DynTensor| -> Vec<f64> { x.to_dtype(DType::F64).to_vec().unwrap() };
            let drawn = list(Gamma::new(&small, &small.ones_like()).sample([1000]));
            assert!(drawn.iter().all(|&x| x > 0.0 && x.is_finite()), "{dtype}");
            let drawn = list(Beta::new(&small, &small).sample([4000]));
            assert!(drawn.iter().all(|&x| x > 0.0 && x < 1.0), "{dtype}");
            let ones = drawn.iter().filter(|&&x| x > 0.5).count();
            assert!((1700..2300).contains(&ones), "{dtype}: {ones}");
            let one = DynTensor::full((), 1.0, dtype);
            let drawn = list(Laplace::new(&(&one - 1.0), &one).sample([20_000]));
            assert!(drawn.iter().all(|x| x.is_finite()), "{dtype}");
        }
        let late = Exponential::new(&DynTensor::from(2.0)).log_prob(&DynTensor::from([-1.0, 0.0]));
        assert_eq!(late.to_vec::<f64>().unwrap(), [f64::NEG_INFINITY, 2.0f64.ln()]);
        // Gradients at a weight of 1, where the power of the density is 0.
        let one = DynTensor::from(1.0).requires_grad();
        Gamma::new(&one, &DynTensor::from(1.0)).log_prob(&DynTensor::from(2.0)).backward().unwrap();
        let slope = one.grad().unwrap().item().unwrap();
        // log(2) - digamma(1), of which Euler's constant is the negative.
        assert!((slope - (2.0f64.ln() + 0.577_215_664_901_532_9)).abs() < 1e-9, "{slope}");
    });
}
