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
    n_samples: usize,
}

impl Data {
    fn new() -> Data {
        Data {
            a: DynTensor::from([[0.3, 1.5, 2.0], [0.7, 4.0, 0.9]]),
            b: DynTensor::from([[0.5, 0.8, 3.0], [1.2, 2.0, 0.4]]),
            c: DynTensor::from([0.9, 1.1, 0.6]),
            d: DynTensor::from([[1.4], [0.2]]),
            values: serde_json::from_str(include_str!("../fixtures/distributions.json")).unwrap(),
            n_samples: 20_000,
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
        self.close(name, "kl", &one.kl_divergence(two));
        self.check_alone(name, one, value);
    }

    /// [`Self::check`] of a distribution without a divergence.
    #[track_caller]
    fn check_alone(&self, name: &str, one: &impl Distribution, value: &DynTensor) {
        self.close(name, "log_prob", &one.log_prob(value));
        match self.values[name].get("entropy") {
            Some(_) => self.close(name, "entropy", &one.entropy()),
            None => assert!(one.entropy().error().is_some(), "{name}"),
        }
        self.close(name, "mean", &one.mean());
        self.close(name, "variance", &one.variance());
        let n = self.n_samples;
        let drawn = one.sample([n / 2, 2]);
        assert!(!drawn.is_tracked());
        assert_eq!(drawn.sizes(), [&[n / 2, 2], &one.mean().sizes()[..]].concat(), "{name}");
        assert_eq!(one.sample([]).sizes(), one.mean().sizes(), "{name}");
        let drawn = drawn.to_dtype(DType::F64);
        let (mean, variance) = (drawn.mean([0, 1]), drawn.var([0, 1]));
        let spread = (one.variance() / n as f64).sqrt();
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
fn distributions_of_counts_are_pytorchs() {
    run(|| {
        // Each takes many proposals.
        let data = Data { n_samples: 4000, ..Data::new() };
        let (a, b) = (&data.a, &data.b);
        let p = &(a / 5.0);
        let value = (a * 2.0).floor();
        data.check("poisson", &Poisson::new(a), &Poisson::new(b), &value);
        let (one, two) = (Poisson::new(&(a * 20.0)), Poisson::new(&(b * 30.0)));
        data.check("poisson many", &one, &two, &(a * 21.0).floor());
        let (one, two) = (Binomial::from_probs(7, p), Binomial::from_logits(7, b));
        data.check("binomial", &one, &two, &(p * 6.0).floor());
        let (one, two) = (Binomial::from_probs(90, p), Binomial::from_logits(90, b));
        data.check("binomial many", &one, &two, &(p * 95.0).floor());
        let fewer = Binomial::from_probs(89, p);
        assert_eq!(one.kl_divergence(&fewer).min(..).item().unwrap(), f64::INFINITY);
        assert!(fewer.kl_divergence(&one).error().is_some());
        let counts = DynTensor::from([[1.0, 3.0, 1.0], [0.0, 5.0, 0.0]]);
        let one = Multinomial::from_probs(5, p);
        data.check_alone("multinomial", &one, &counts);
        assert_eq!(one.sample([4]).sum(-1).to_vec::<f64>().unwrap(), [5.0; 8]);
        // Nothing and everything for sure.
        let sure = Binomial::from_probs(70, &DynTensor::from([0.0, 1.0])).sample([50]);
        assert_eq!(sure.sum(0).to_vec::<f64>().unwrap(), [0.0, 3500.0]);
        assert_eq!(Poisson::new(&DynTensor::from(0.0)).sample([99]).max(..).item().unwrap(), 0.0);
    });
}

/// Each has its own number of trials, as if it were alone.
#[test]
fn numbers_of_trials_may_differ() {
    run(|| {
        let counts = [4_usize, 90, 0];
        let n = DynTensor::from(counts.map(|n| n as i64));
        let p = DynTensor::from([[0.3, 0.6, 0.5], [0.9, 0.1, 0.2]]);
        let all = Binomial::from_probs(&n, &p);
        let other = Binomial::from_logits(&n, &(&p * 0.5));
        let value = DynTensor::from([1.0, 50.0, 0.0]);
        let (log_prob, mean, variance) = (all.log_prob(&value), all.mean(), all.variance());
        let kl = all.kl_divergence(&other);
        for (i, count) in counts.into_iter().enumerate() {
            let at = |x: &DynTensor| x.slice((Index::Ellipsis, i as i64));
            let one = Binomial::from_probs(count, &at(&p));
            let of_one = Binomial::from_logits(count, &(at(&p) * 0.5));
            let same = [
                (at(&log_prob), one.log_prob(&at(&value))),
                (at(&mean), one.mean()),
                (at(&variance), one.variance()),
                (at(&kl), one.kl_divergence(&of_one)),
            ];
            for (found, want) in same {
                assert!(found.allclose(&want, 1e-12, 1e-12).to_vec::<bool>().unwrap()[0]);
            }
        }
        let drawn = all.sample([4000]);
        assert_eq!(drawn.sizes(), [4000, 2, 3]);
        let spread = (all.variance() / 4000.0 + 1e-12).sqrt();
        let apart = ((drawn.mean(0) - all.mean()) / spread).abs().max(..).item().unwrap();
        assert!(apart < 4.5, "the mean is {apart} standard errors off");
        assert!(drawn.le(&n).all(..).to_vec::<bool>().unwrap()[0]);
        // Parameters without the axis of the numbers of trials.
        assert_eq!(Binomial::from_probs(&n, &DynTensor::from(0.5)).sample([2]).sizes(), [2, 3]);
        let more = Binomial::from_probs(&(&n + DynTensor::from([0_i64, 1, -1])), &p);
        let kl: Vec<f64> = all.kl_divergence(&more).to_vec().unwrap();
        assert!(kl[0] == 0.0 && kl[1].is_nan() && kl[2] == f64::INFINITY, "{kl:?}");
        let error = all.entropy().error().unwrap();
        assert!(error.message().starts_with("binomial: the entropies"), "{error}");
    });
}

/// Samples of large means, whose proposals are refused now and then: each count is as likely as it
/// is to be.
#[test]
fn counts_are_as_likely_as_they_are_to_be() {
    run(|| {
        const N: usize = 8000;
        let one = |x: f64| DynTensor::from(x);
        let check = |what: &str, drawn: DynTensor, log_prob: &dyn Fn(&DynTensor) -> DynTensor| {
            let drawn: Vec<f64> = drawn.to_vec().unwrap();
            let support = DynTensor::arange(0, 60, 1, DType::F64);
            let expected: Vec<f64> = (log_prob(&support).exp() * N as f64).to_vec().unwrap();
            // Pearson's statistic of the counts that are expected often enough.
            let (mut statistic, mut n_classes) = (0.0, 0);
            for (count, expected) in expected.iter().enumerate().filter(|(_, n)| **n > 20.0) {
                let found = drawn.iter().filter(|k| **k == count as f64).count() as f64;
                statistic += (found - expected).powi(2) / expected;
                n_classes += 1;
            }
            let bound = f64::from(n_classes) + 5.0 * (2.0 * f64::from(n_classes)).sqrt();
            assert!(n_classes > 3 && statistic < bound, "{what}: {statistic} of {n_classes}");
        };
        for rate in [0.8, 9.9, 10.1, 25.0] {
            let poisson = Poisson::new(&one(rate));
            check(&format!("rate {rate}"), poisson.sample([N]), &|k| poisson.log_prob(k));
        }
        for (n, p) in [(20, 0.3), (50, 0.3), (50, 0.75), (300, 0.03), (300, 0.1)] {
            let binomial = Binomial::from_probs(n, &one(p));
            check(&format!("{n} times {p}"), binomial.sample([N]), &|k| {
                let beyond = k.gt(n as f64);
                let inside = beyond.where_(0.0, k);
                beyond.where_(f64::NEG_INFINITY, &binomial.log_prob(&inside))
            });
        }
    });
}

#[test]
fn distributions_of_vectors_and_of_others_are_pytorchs() {
    run(|| {
        let data = Data::new();
        let (a, b, c, d) = (&data.a, &data.b, &data.c, &data.d);
        let (p, q) = (a / 5.0, b / 5.0);
        data.check("log_normal", &LogNormal::new(&(a / 4.0), c), &LogNormal::new(b, d), b);
        data.check_alone("student_t", &StudentT::new(&(a + 4.5), b, c), a);
        let (one, two) = (OneHotCategorical::from_probs(&p), OneHotCategorical::from_logits(b));
        let classes = DynTensor::from([2i64, 0]).one_hot(3).to_dtype(DType::F64);
        data.check("one_hot", &one, &two, &classes);
        let shares = &q / q.sum(keepdim(-1));
        data.check("dirichlet", &Dirichlet::new(&(a + 0.1)), &Dirichlet::new(b), &shares);
        let (one, two) = (Normal::new(a, c), Normal::new(b, d));
        let (one, two) = (Independent::new(one, 1), Independent::new(two, 1));
        data.check("independent", &one, &two, b);
        let covariance = [[2.0, 0.3, -0.5], [0.3, 1.0, 0.2], [-0.5, 0.2, 0.7]];
        let covariance = DynTensor::from(covariance);
        let tril = DynTensor::from([
            [[1.1, 0.0, 0.0], [0.4, 0.8, 0.0], [0.2, -0.6, 0.9]],
            [[0.5, 0.0, 0.0], [-0.2, 1.4, 0.0], [0.1, 0.3, 0.6]],
        ]);
        let one = MultivariateNormal::from_covariance(a, &covariance);
        let two = MultivariateNormal::from_scale_tril(b, &tril);
        data.check("multivariate", &one, &two, b);
        // Samples vary together as they are to.
        let drawn = one.sample([20_000]).slice((.., 0)) - a.slice(0);
        let found = drawn.t().matmul(&drawn) / 20_000.0;
        let apart = (found - &covariance).abs().max(..).item().unwrap();
        assert!(apart < 0.1, "{apart}");
        let undefined =
            StudentT::new(&DynTensor::from([0.5, 1.5]), &a.slice((0, 0)), &a.slice((0, 1)));
        let (mean, variance) = (undefined.mean(), undefined.variance());
        assert!(mean.to_vec::<f64>().unwrap()[0].is_nan());
        assert_eq!(variance.to_vec::<f64>().unwrap()[1], f64::INFINITY);
    });
}

#[test]
fn gradients_flow_through_samples_of_vectors() {
    run(|| {
        let loc = DynTensor::from([0.5, -1.0]).requires_grad();
        let tril = DynTensor::from([[1.0, 0.0], [0.5, 2.0]]).requires_grad();
        let normal = MultivariateNormal::from_scale_tril(&loc, &tril);
        let drawn = normal.rsample([50]);
        let grads = autograd::grad(&drawn.sum(..), &[&loc, &tril]).unwrap();
        assert_eq!(grads[0].to_vec::<f64>().unwrap(), [50.0; 2]);
        let noise = linalg::solve(&tril.detach(), &(drawn.detach() - loc.detach()).t()).sum(-1);
        let apart = (grads[1].slice(0) - noise).abs().max(..).item().unwrap();
        assert!(apart < 1e-9, "{apart}");
        let log = LogNormal::new(&loc, &loc.exp()).rsample([3]);
        log.sum(..).backward().unwrap();
        assert!(loc.grad().is_some());
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

/// The regularized lower incomplete gamma function, by its series, and the density times `x`.
fn gamma_below(a: f64, x: f64) -> (f64, f64) {
    let log_gamma = DynTensor::from(a).lgamma().item().unwrap();
    let density = (a * x.ln() - x - log_gamma).exp();
    let (mut term, mut sum) = (1.0 / a, 0.0);
    for n in 1..3000 {
        sum += term;
        term *= x / (a + f64::from(n));
    }
    (density * sum, density)
}

/// The gradient of a sample is that of the inverse of the distribution function: by differences of
/// the latter.
#[test]
fn samples_of_gamma_move_with_their_concentration() {
    run(|| {
        for a in [0.05, 0.6, 1.0, 3.0, 12.0, 150.0] {
            let shape = DynTensor::full([40], a, DType::F64).requires_grad();
            let drawn = Gamma::new(&shape, &DynTensor::from(2.0)).rsample([]);
            let grad = autograd::grad(&drawn.sum(..), &[&shape]).unwrap();
            let (drawn, grad): (Vec<f64>, Vec<f64>) =
                (drawn.to_vec().unwrap(), grad[0].to_vec().unwrap());
            for (x, got) in drawn.into_iter().map(|x| 2.0 * x).zip(grad).filter(|(x, _)| *x > 1e-30)
            {
                let h = a * 1e-4;
                let moved = gamma_below(a + h, x).0 - gamma_below(a - h, x).0;
                let want = -moved / (2.0 * h) / gamma_below(a, x).1 * x / 2.0;
                assert!((got / want - 1.0).abs() < 1e-5, "{a}, {x}: {got} is not {want}");
            }
        }
    });
}

/// Gradients of means of functions of samples, of which the means are known.
#[test]
fn gradients_flow_through_samples_that_are_found_by_refusing() {
    run(|| {
        const N: usize = 20_000;
        let leaf = |x: f64| DynTensor::full((), x, DType::F32).requires_grad();
        let check = |what: &str, mean: DynTensor, by: &[&DynTensor], want: &[f64]| {
            let grads = autograd::grad(&mean, by).unwrap();
            for (grad, want) in grads.iter().zip(want) {
                let got = grad.item().unwrap();
                assert!((got - want).abs() < 0.05 * (1.0 + want.abs()), "{what}: {got}, {want}");
            }
        };
        let (a, b) = (leaf(0.4), leaf(1.5));
        // E x^2 = a (a + 1) / b^2
        let second = Gamma::new(&a, &b).rsample([N]).square().mean(..);
        check("gamma", second, &[&a, &b], &[1.8 / 2.25, -2.0 * 0.56 / 3.375]);
        // E x = a / (a + b)
        let mean = Beta::new(&a, &b).rsample([N]).mean(..);
        check("beta", mean, &[&a, &b], &[1.5 / 3.61, -0.4 / 3.61]);
        let weights = DynTensor::from([0.5f32, 1.0, 2.5]).requires_grad();
        let first = Dirichlet::new(&weights).rsample([N]).slice((.., 0)).mean(..);
        let grad = autograd::grad(&first, &[&weights]).unwrap().remove(0);
        let apart = (grad - DynTensor::from([3.5f32 / 16.0, -0.5 / 16.0, -0.5 / 16.0])).abs();
        assert!(apart.max(..).item().unwrap() < 0.01);
        // E |x - loc|^2 = scale^2 df / (df - 2)
        let (df, loc, scale) = (leaf(9.0), leaf(0.5), leaf(2.0));
        let drawn = StudentT::new(&df, &loc, &scale).rsample([N]);
        let second = (drawn - 0.5).square().mean(..);
        check("student_t", second, &[&df, &loc, &scale], &[-8.0 / 49.0, 0.0, 36.0 / 7.0]);
        // One distribution of several, and halves.
        let shape = DynTensor::ones([3, 2], DType::F16).requires_grad();
        let joined = Independent::new(Gamma::new(&shape, &shape.ones_like()), 1).rsample([4]);
        assert_eq!((joined.sizes(), joined.dtype()), (vec![4, 3, 2], DType::F16));
        let grad = autograd::grad(&joined.sum(..), &[&shape]).unwrap().remove(0);
        assert!(grad.dtype() == DType::F16 && grad.min(..).item().unwrap() > 0.0);
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
