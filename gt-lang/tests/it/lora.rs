//! LoRA: what learns over a frozen linear layer.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use gt::nn::load_matching;
use gt::prelude::*;

use crate::run;
use crate::saved::close;

dims! { Batch }

type Layer = Lora<N<6>, N<4>>;

fn layer(how: LoraConfig) -> (Layer, Tensor<(Batch, N<6>)>) {
    (Lora::over(Linear::new(), how), Tensor::randn_with([5]))
}

fn numbers(x: &DynTensor) -> Vec<f64> {
    x.to_host().unwrap().to_f64()
}

/// A step that moves both matrices.
fn learn(layer: &Layer, x: &Tensor<(Batch, N<6>)>) {
    let learns = layer.parameters().into_iter().filter(DynTensor::is_tracked);
    let mut optimizer = Sgd::new(learns, SgdConfig { lr: 0.5, ..Default::default() });
    for _ in 0..3 {
        optimizer.zero_grad();
        layer.forward(x).square().mean().backward().unwrap();
        optimizer.step().unwrap();
    }
}

#[test]
fn matrices_learn_and_the_base_stays() {
    run(|| {
        let how = LoraConfig { rank: 2, alpha: 3.0, ..Default::default() };
        let (layer, x) = layer(how);
        let base = layer.base_layer.clone();
        let first = numbers(base.forward(&x).as_dyn());
        assert_eq!(numbers(layer.forward(&x).as_dyn()), first, "at first it is its base");
        learn(&layer, &x);
        assert_eq!(numbers(base.forward(&x).as_dyn()), first);
        assert!(base.weight.grad().is_none());
        let moved = layer.lora_b.matmul(&layer.lora_a) * 1.5;
        let want = base.forward(&x).as_dyn() + x.as_dyn().matmul(&moved.t());
        close(layer.forward(&x).as_dyn(), &numbers(&want), "alpha / rank");
        assert!(moved.abs().max(..).item().unwrap() > 1e-3);
        assert_eq!(layer.describe(), "Lora(6 -> 4, rank 2)");
    });
}

#[test]
fn what_was_learned_goes_into_the_weight_and_out_again() {
    run(|| {
        let (mut layer, x) = layer(LoraConfig { rank: 2, ..Default::default() });
        learn(&layer, &x);
        let weight = numbers(layer.base_layer.weight.as_dyn());
        let want = numbers(layer.forward(&x).as_dyn());
        layer.merge().unwrap();
        layer.merge().unwrap();
        assert!(layer.is_merged());
        close(layer.forward(&x).as_dyn(), &want, "merged");
        assert_ne!(numbers(layer.base_layer.weight.as_dyn()), weight);
        layer.unmerge().unwrap();
        close(layer.base_layer.weight.as_dyn(), &weight, "unmerged");
        close(layer.forward(&x).as_dyn(), &want, "unmerged");
        let linear = layer.into_linear().unwrap();
        close(linear.forward(&x).as_dyn(), &want, "as a linear layer");
        assert!(linear.weight.as_dyn().is_tracked());
    });
}

#[test]
fn adapters_have_the_names_of_peft_and_are_saved_by_them() {
    run(|| {
        let (one, x) = layer(LoraConfig { rank: 2, ..Default::default() });
        learn(&one, &x);
        let state = one.state_dict().unwrap();
        let names: Vec<&str> = state.iter().map(|(name, _)| name).collect();
        let all = ["base_layer.bias", "base_layer.weight", "lora_A.weight", "lora_B.weight"];
        assert_eq!(names, all);
        let mut adapter = StateDict::new();
        for (name, tensor) in state.iter().filter(|(name, _)| name.contains("lora_")) {
            adapter.insert(name, tensor.clone());
        }
        let mut two: Layer =
            Lora::over(one.base_layer.clone(), LoraConfig { rank: 2, ..Default::default() });
        let rest = load_matching(&mut two, &adapter).unwrap();
        assert_eq!(rest.missing, ["base_layer.weight", "base_layer.bias"]);
        close(two.forward(&x).as_dyn(), &numbers(one.forward(&x).as_dyn()), "the same adapter");
    });
}

#[test]
fn inputs_are_dropped_on_the_way_to_the_matrices_only() {
    run(|| {
        let (mut layer, x) = layer(LoraConfig { rank: 2, dropout: 0.5, ..Default::default() });
        let base = numbers(layer.base_layer.forward(&x).as_dyn());
        assert_eq!(numbers(layer.forward(&x).as_dyn()), base);
        learn(&layer, &x);
        let (a, b) = (layer.forward(&x), layer.forward(&x));
        assert_ne!(numbers(a.as_dyn()), numbers(b.as_dyn()));
        layer.eval();
        let (a, b) = (layer.forward(&x), layer.forward(&x));
        assert_eq!(numbers(a.as_dyn()), numbers(b.as_dyn()));
        let none: Layer = Lora::over(Linear::new(), LoraConfig { rank: 0, ..Default::default() });
        let error = none.forward(&x).as_dyn().to_host().unwrap_err();
        assert_eq!(error.message(), "Lora: a rank of 0 learns nothing");
    });
}
