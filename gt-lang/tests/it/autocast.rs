//! Mixed precision against PyTorch's on the CPU: dtypes on the way, loss and gradients; its scopes,
//! and the scaler of losses.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::path::Path;

use gt::functional as f;
use gt::io::pth;
use gt::optim::{GradScaler, GradScalerConfig};
use gt::prelude::*;

use crate::run;

#[derive(Module)]
struct Net {
    wide: Linear<N<6>, N<8>>,
    norm: LayerNorm<N<8>>,
    out: Linear<N<8>, N<5>>,
}

impl Net {
    fn forward(&self, x: &T![7, 6]) -> T![7, 5] {
        self.out.forward(&self.norm.forward(&self.wide.forward(x)).gelu())
    }
}

/// The names of PyTorch's sequence.
fn renamed(saved: &StateDict) -> StateDict {
    let mut own = StateDict::new();
    for (name, tensor) in saved.iter() {
        let (part, rest) = name.split_once('.').unwrap();
        let part = match part {
            "0" => "wide",
            "1" => "norm",
            _ => "out",
        };
        own.insert(format!("{part}.{rest}"), tensor.clone());
    }
    own
}

fn saved() -> StateDict {
    pth::load(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/autocast.pth")).unwrap()
}

/// What PyTorch made its step of.
struct Step {
    net: Net,
    x: T![7, 6],
    target: T![7; Int],
}

fn step(saved: &StateDict) -> Step {
    let mut net = Net::new();
    net.load_state_dict(&renamed(&saved.part("state"))).unwrap();
    let host = |what: &str| DynTensor::from_host(saved.get(what).unwrap().clone());
    Step { net, x: Tensor::from_dyn(host("x")), target: Tensor::from_dyn(host("target")) }
}

#[test]
fn a_step_is_pytorchs_within_the_precision_of_bf16() {
    let saved = saved();
    run(|| {
        let Step { net, x, target } = step(&saved);
        let loss = autocast(DType::Bf16, || net.forward(&x).cross_entropy(&target));
        let want = saved.get("loss").unwrap().to_f64()[0];
        assert!((loss.item().unwrap() - want).abs() < 1e-2 * want, "{loss:?} is not {want}");
        loss.backward().unwrap();
        let grads = renamed(&saved.part("grads"));
        for (name, tensor) in net.named_parameters() {
            let grad = tensor.grad().unwrap();
            assert_eq!(grad.dtype(), DType::F32, "{name}");
            let (got, want) =
                (grad.to_host().unwrap().to_f64(), grads.get(&name).unwrap().to_f64());
            let size = want.iter().map(|w| w * w).sum::<f64>().sqrt();
            let off = got.iter().zip(&want).map(|(g, w)| (g - w).powi(2)).sum::<f64>().sqrt();
            assert!(off < 0.03 * size, "{name}: off by {off} of {size}");
        }
    });
}

/// PyTorch's dtypes, but that norms and softmax run in `f32`, as its list for CUDA has it and that
/// for CPUs has not.
#[test]
fn dtypes_on_the_way_are_pytorchs() {
    let saved = saved();
    let fixture = include_str!("../fixtures/autocast.json");
    let fixture: serde_json::Value = serde_json::from_str(fixture).unwrap();
    run(|| {
        let Step { net, x, .. } = step(&saved);
        let x = x.as_dyn();
        let ones = |sizes: &[usize]| DynTensor::ones(sizes, DType::F32);
        let mut made: Vec<(&str, DynTensor)> = Vec::new();
        autocast(DType::Bf16, || {
            let h = net.wide.forward(&Tensor::<(N<7>, N<6>)>::from_dyn(x.clone())).into_dyn();
            let logits = net.forward(&Tensor::from_dyn(x.clone())).into_dyn();
            let q = h.reshape([1, 1, 7, 8]);
            made = vec![
                ("gelu", h.gelu()),
                ("relu", h.relu()),
                ("attention", f::scaled_dot_product_attention(&q, &q, &q)),
                ("matmul", x.matmul(&x.t())),
                (
                    "conv",
                    f::conv1d(
                        &x.unsqueeze(0),
                        &ones(&[2, 7, 3]),
                        Some(&ones(&[2])),
                        Default::default(),
                    ),
                ),
                ("mse", f::mse_loss(&h, &h.mul(2.0))),
                ("mixed", h.add(&ones(&[8]))),
                ("prod", h.prod(..)),
                ("linear", h),
                ("logits", logits.clone()),
                ("island", no_autocast(|| x.matmul(&x.t()))),
            ];
            assert_eq!(logits.softmax(-1).dtype(), DType::F32);
            assert_eq!(
                net.norm
                    .forward(&Tensor::<(N<7>, N<8>)>::from_dyn(made[8].1.clone()))
                    .as_dyn()
                    .dtype(),
                DType::F32
            );
            let exact = x.to_dtype(DType::F64);
            assert_eq!(exact.matmul(&exact.t()).dtype(), DType::F64);
        });
        for (name, tensor) in made {
            let want = match fixture["dtypes"][name].as_str().unwrap() {
                "bfloat16" => DType::Bf16,
                "float32" => DType::F32,
                other => panic!("{other}"),
            };
            assert_eq!((name, tensor.dtype()), (name, want));
            tensor.to_host().unwrap();
        }
        let error = autocast(DType::I64, || x.matmul(&x.t())).to_host().unwrap_err();
        assert!(error.message().contains("autocast: matmul cannot run in i64"), "{error}");
    });
}

/// A line learned by two layers, products in a narrow float.
fn learn(dtype: DType, scaler: &mut GradScaler) -> (f64, f64) {
    run(|| {
        let (first, second) = (Linear::<N<4>, N<16>>::new(), Linear::<N<16>, N<1>>::new());
        let x: T![32, 4] = Tensor::randn();
        let target = (&x.sum_axis::<1>() * 0.5 + 0.1).into_dyn().unsqueeze(-1);
        let mut params = first.parameters();
        params.extend(second.parameters());
        let mut optimizer = Adam::new(params, AdamConfig { lr: 0.02, ..Default::default() });
        let mut losses = Vec::new();
        for _ in 0..60 {
            let loss = autocast(dtype, || {
                let y = second.forward(&first.forward(&x).relu());
                f::mse_loss(y.as_dyn(), &target)
            });
            optimizer.zero_grad();
            scaler.scale(&loss).backward().unwrap();
            scaler.step(&mut optimizer).unwrap();
            scaler.update();
            losses.push(loss.item().unwrap());
        }
        (losses[0], losses[losses.len() - 1])
    })
}

#[test]
fn training_learns_in_narrow_floats() {
    for dtype in [DType::Bf16, DType::F16] {
        let mut scaler = GradScaler::default();
        let (first, last) = learn(dtype, &mut scaler);
        assert!(last < 0.1 * first, "{dtype}: {first} to {last}");
    }
}

#[test]
fn a_scale_too_large_leaves_steps_out_until_it_fits() {
    let config = GradScalerConfig { init_scale: 1e9, growth_interval: 4, ..Default::default() };
    let mut scaler = GradScaler::new(config);
    let (first, last) = learn(DType::F16, &mut scaler);
    assert!(scaler.get_scale() < 1e9 && last < first, "{} {first} {last}", scaler.get_scale());
    let state = scaler.state_dict().unwrap();
    let mut again = GradScaler::default();
    again.load_state_dict(&state).unwrap();
    assert_eq!(again.get_scale(), scaler.get_scale());
}

/// What `backward` computes again runs in the dtypes of the forward pass.
#[test]
fn a_checkpoint_remembers_the_precision() {
    run(|| {
        let x = DynTensor::randn([3, 3], DType::F32).requires_grad();
        let part = |x: &[DynTensor]| x[0].matmul(&x[0]).relu().to_dtype(DType::F32).square();
        let whole = |again: bool| {
            x.zero_grad();
            let y = autocast(DType::Bf16, || match again {
                true => gt::autograd::checkpoint(part, &[&x]),
                false => part(std::slice::from_ref(&x)),
            });
            y.sum(..).backward().unwrap();
            x.grad().unwrap().to_vec::<f32>().unwrap()
        };
        assert_eq!(whole(true), whole(false));
    });
}
