//! Layers over images against PyTorch's: the state that PyTorch saved, its outputs, gradients and running statistics.

use std::path::Path;

use gt::functional::Convolution;
use gt::io::pth;
use gt::prelude::*;

use crate::run;

dims! { Batch }

fn strided() -> Convolution {
    Convolution { stride: [2, 1], padding: [1, 0], ..Convolution::default() }
}

fn dilated() -> Convolution {
    Convolution { dilation: [2, 2], groups: 2, ..Convolution::default() }
}

#[derive(Module)]
struct Net {
    #[module(init = Conv2d::with_kernel([3, 2], strided()))]
    conv1: Conv2d<N<2>, N<4>>,
    norm1: BatchNorm2d<N<4>>,
    #[module(init = Conv2d::without_bias([3, 3], dilated()))]
    conv2: Conv2d<N<4>, N<6>>,
    #[module(init = GroupNorm::with_groups(3))]
    norm2: GroupNorm<N<6>>,
}

impl Net {
    fn forward(&self, x: &T![Batch, 2, 12, 9]) -> T![Batch, 6, ?, ?] {
        seq!(x => self.conv1, self.norm1, Relu, self.conv2, self.norm2)
    }
}

/// PyTorch numbers the parts of a sequence.
fn ours(state: &StateDict) -> StateDict {
    let mut named = StateDict::new();
    for (theirs, name) in [("0", "conv1"), ("1", "norm1"), ("3", "conv2"), ("4", "norm2")] {
        named.nest(name, state.part(theirs));
    }
    named
}

fn close(got: &HostTensor, want: &HostTensor, what: &str) {
    assert_eq!(got.ty().to_string(), want.ty().to_string(), "{what}");
    let (got, want) = (got.to_f64(), want.to_f64());
    let scale = want.iter().fold(1.0_f64, |most, v| most.max(v.abs()));
    let worst = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
    assert!(worst <= 2e-5 * scale, "{what}: off by {worst}");
}

#[test]
fn layers_over_images_are_pytorchs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/images.pth");
    let saved = pth::load(path).unwrap();
    run(|| {
        let of = |name: &str| saved.get(name).unwrap();
        let mut net = Net::new();
        net.load_state_dict(&ours(&saved.part("before"))).unwrap();
        let all = DynTensor::from_host(of("x").clone());
        let forward = |net: &Net, i: i64| {
            let x: T![Batch, 2, 12, 9] = Tensor::from_dyn(all.slice(i));
            net.forward(&x).into_dyn()
        };
        close(&forward(&net, 0).to_host().unwrap(), of("first"), "first");
        let second = forward(&net, 1);
        close(&second.to_host().unwrap(), of("second"), "second");
        let weights = DynTensor::arange(0, 6, 1, DType::F32).reshape([6, 1, 1]);
        second.mul(&weights).sum(..).backward().unwrap();
        let grads = ours(&saved.part("grads"));
        for (name, parameter) in net.named_parameters() {
            close(&parameter.grad().unwrap().to_host().unwrap(), grads.get(&name).unwrap(), &name);
        }
        let (after, state) = (ours(&saved.part("after")), net.state_dict().unwrap());
        assert_eq!(after.len(), state.len());
        after.iter().for_each(|(name, want)| close(state.get(name).unwrap(), want, name));
        net.eval();
        close(&forward(&net, 2).to_host().unwrap(), of("third"), "third");
        // Evaluation remembers nothing.
        let unchanged = net.state_dict().unwrap();
        state.iter().for_each(|(name, want)| assert_eq!(unchanged.get(name), Some(want)));
        let mut rms: RmsNorm<N<9>> = RmsNorm::new();
        let weight = [("weight".to_owned(), of("rms_weight").clone())];
        rms.load_state_dict(&weight.into_iter().collect()).unwrap();
        let x: T![Batch, 2, 12, 9] = Tensor::from_dyn(all.slice(2));
        close(&rms.forward(&x).as_dyn().to_host().unwrap(), of("rms"), "rms");
    });
}

/// PyTorch's default: `U(-b, b)` with `b = 1 / sqrt(numbers a result is a sum of)`.
#[test]
fn kernels_begin_as_pytorchs() {
    run(|| {
        let layer: Conv2d<N<8>, N<64>> = Conv2d::with_kernel([5, 5], dilated());
        assert_eq!(layer.weight.sizes(), [64, 4, 5, 5]);
        let bound = 0.1; // 8 / 2 * 5 * 5 = 100
        for tensor in [layer.weight.as_dyn(), layer.bias.as_ref().unwrap().as_dyn()] {
            let values = tensor.to_vec::<f32>().unwrap();
            let most = values.iter().fold(0.0_f32, |most, v| most.max(v.abs()));
            assert!(most <= bound && most > 0.9 * bound, "{most}");
        }
        assert_eq!(layer.describe(), "Conv2d(8 -> 64, 5x5, dilation 2x2, 2 groups)");
        assert_eq!(Net::new().conv1.describe(), "Conv2d(2 -> 4, 3x2, stride 2x1, padding 1x0)");
        assert_eq!(Net::new().norm2.describe(), "GroupNorm(3 groups of 2)");
    });
}
