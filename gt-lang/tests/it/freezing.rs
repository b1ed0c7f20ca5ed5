//! Freezing: frozen leaves cost no gradient and stay as they are. Initialization by name.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use gt::autograd;
use gt::prelude::*;

use crate::run;

#[derive(Module)]
struct Net {
    backbone: Linear<N<4>, N<8>>,
    head: Linear<N<8>, N<2>>,
}

fn net() -> (Net, T![3, 4]) {
    (Net::new(), Tensor::randn())
}

impl Net {
    fn forward(&self, x: &T![3, 4]) -> T![3, 2] {
        seq!(x => self.backbone, Relu, self.head)
    }
}

/// How many instructions a backward pass records.
fn cost(net: &Net, x: &T![3, 4]) -> u64 {
    let loss = net.forward(x).square().mean();
    let value = || DynTensor::zeros([1], DType::F32).value_id().unwrap().0;
    let before = value();
    loss.backward().unwrap();
    value() - before
}

#[test]
fn frozen_parameters_cost_no_gradient_and_stay() {
    run(|| {
        let (net, x) = net();
        let whole = cost(&net, &x);
        net.zero_grad();
        net.backbone.requires_grad_(false);
        let part = cost(&net, &x);
        assert!(part < whole, "{part} instructions, {whole} for all");
        assert!(net.backbone.weight.grad().is_none() && net.head.weight.grad().is_some());
        assert_eq!((net.parameters().len(), net.backbone.parameter_count()), (4, 40));

        let before = net.backbone.weight.to_vec::<f32>().unwrap();
        let config = AdamWConfig { weight_decay: 0.5, ..Default::default() };
        AdamW::new(net.parameters(), config).step().unwrap();
        assert_eq!(net.backbone.weight.to_vec::<f32>().unwrap(), before);
        let trained: Vec<DynTensor> =
            net.parameters().into_iter().filter(DynTensor::is_tracked).collect();
        assert_eq!(trained.len(), 2);

        net.backbone.requires_grad_(true);
        cost(&net, &x);
        assert!(net.backbone.weight.grad().is_some());
    });
}

#[test]
fn a_leaf_frozen_after_its_use_gathers_nothing() {
    run(|| {
        let w = DynTensor::ones([2], DType::F32).requires_grad();
        let loss = w.square().sum(..);
        w.requires_grad_(false).unwrap();
        assert!(w.clone().is_leaf() && !w.clone().is_tracked());
        assert!(!format!("{w}").contains("requires_grad"), "{w}");
        loss.backward().unwrap();
        assert!(w.grad().is_none());
        let error = w.square().sum(..).backward().unwrap_err();
        assert_eq!(error.message(), "backward: the tensor, f32[], requires no gradient");
        let error = autograd::grad(&loss, &[&w]).unwrap_err();
        assert!(error.message().ends_with("requires no gradient: it is frozen"), "{error}");
        let error = loss.requires_grad_(false).unwrap_err();
        assert!(error.message().starts_with("requires_grad_: only a leaf"), "{error}");
    });
}

fn moments(p: &DynTensor) -> (f64, f64) {
    (p.mean(..).item().unwrap(), p.std(..).item().unwrap())
}

#[test]
fn distributions_have_the_moments_of_their_formulas() {
    run(|| {
        let weight = DynTensor::zeros([200, 100, 1, 2], DType::F32).requires_grad();
        let near = |want: f64| {
            let (mean, std) = moments(&weight);
            assert!(
                mean.abs() < 0.02 * want && (std / want - 1.0).abs() < 0.02,
                "{mean} {std} {want}"
            );
        };
        let (fan_in, fan_out) = (200.0_f64, 400.0_f64);
        init::xavier_uniform(&weight).unwrap();
        near((2.0 / (fan_in + fan_out)).sqrt());
        init::xavier_normal_with(&weight, init::Nonlinearity::Tanh).unwrap();
        near(5.0 / 3.0 * (2.0 / (fan_in + fan_out)).sqrt());
        init::kaiming_uniform(&weight, init::Kaiming::default()).unwrap();
        near((2.0 / fan_in).sqrt());
        let how = init::Kaiming { mode: init::Fan::Out, nonlinearity: init::Nonlinearity::Relu };
        init::kaiming_normal(&weight, how).unwrap();
        near((2.0 / fan_out).sqrt());
        // Between -2 and 2 deviations: 0.8796 of them.
        init::trunc_normal(&weight, 0.0, 0.5, [-1.0, 1.0]).unwrap();
        near(0.5 * 0.879_62);
        let (low, high) = (weight.min(..).item().unwrap(), weight.max(..).item().unwrap());
        assert!((-1.0..-0.9).contains(&low) && (0.9..=1.0).contains(&high), "{low} {high}");
    });
}

#[test]
fn orthogonal_rows_and_columns() {
    run(|| {
        for sizes in [vec![24, 24], vec![5, 2, 9], vec![40, 3]] {
            let weight = DynTensor::zeros(&sizes, DType::F32).requires_grad();
            init::orthogonal(&weight, 2.0).unwrap();
            let w = weight.detach().flatten(1, -1);
            let gram = if w.size(0) < w.size(1) { w.matmul(&w.t()) } else { w.t().matmul(&w) };
            let error = (&gram - DynTensor::eye(gram.size(0), DType::F32) * 4.0).abs().max(..);
            assert!(error.item().unwrap() < 1e-4, "{sizes:?}: {}", error.item().unwrap());
        }
        // To the last digits of the dtype.
        let weight = DynTensor::zeros([5, 7], DType::F64).requires_grad();
        init::orthogonal(&weight, 1.0).unwrap();
        let error = weight.matmul(&weight.t()) - DynTensor::eye(5, DType::F64);
        assert!(error.abs().max(..).item().unwrap() < 1e-13);
    });
}

#[test]
fn parameters_are_initialized_by_name() {
    run(|| {
        let (net, _) = net();
        net.apply(|name, p| match name.ends_with("bias") {
            true => init::ones(p),
            false => init::constant(p, 0.25),
        })
        .unwrap();
        assert_eq!(net.head.bias.as_ref().unwrap().to_vec::<f32>().unwrap(), [1.0; 2]);
        assert_eq!(net.head.weight.to_vec::<f32>().unwrap(), [0.25; 16]);
        let error = net.apply(|_, p| init::xavier_uniform(p)).unwrap_err();
        assert_eq!(error.message(), "xavier_uniform: f32[8] has no inputs and outputs");
        let names: Vec<String> = net.named_modules().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["", "backbone", "head"]);
    });
}
