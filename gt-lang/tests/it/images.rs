//! Layers over images, lines and sequences against PyTorch's: states that PyTorch saved, its
//! outputs, gradients and running statistics.

use gt::autograd::grad;
use gt::functional::{Convolution, PadMode, Pooling, conv2d};
use gt::nn::Layers;
use gt::prelude::*;

use crate::run;
use crate::saved::{self, Case, close, loaded};

dims! { Batch, Len, Height, Width }

type Image<const C: usize> = Tensor<(Batch, N<C>, Height, Width)>;

fn case(name: &'static str, check: impl FnOnce(&Case)) {
    saved::case("images.pth", name, check);
}

#[test]
fn convolutions_are_pytorchs() {
    let plain = Convolution::default();
    case("conv1d", |case| {
        let how =
            Convolution { stride: [1, 2], padding: [0, 2], dilation: [1, 2], groups: 2, ..plain };
        let layer = loaded(case, Conv1d::<N<4>, N<6>>::with_kernel(3, how));
        let y = layer.forward(&case.typed::<(Batch, N<4>, Len)>());
        case.check(y.as_dyn(), Some(&layer));
    });
    case("conv2d", |case| {
        let how = Convolution { stride: [2, 1], padding: [1, 0], ..plain };
        let layer = loaded(case, Conv2d::<N<3>, N<5>>::with_kernel([3, 2], how));
        case.check(layer.forward(&Image::<3>::from_dyn(case.x.clone())).as_dyn(), Some(&layer));
        assert_eq!(layer.describe(), "Conv2d(3 x 5, kernel [3, 2])");
    });
    case("conv_transpose2d", |case| {
        let how = Convolution {
            stride: [2; 2],
            padding: [1; 2],
            output_padding: [1; 2],
            groups: 2,
            ..plain
        };
        let layer = loaded(case, ConvTranspose2d::<N<4>, N<6>>::with_kernel([3; 2], how));
        case.check(layer.forward(&Image::<4>::from_dyn(case.x.clone())).as_dyn(), Some(&layer));
    });
}

/// Kernels of few places and of many, over images and lines: values and gradients.
#[test]
fn channels_by_themselves_are_convolutions_of_one_group() {
    let sizes =
        [(3, 2, 1, 1, 1), (7, 7, 1, 1, 3), (9, 5, 2, 1, 2), (6, 7, 1, 2, 4), (1, 65, 1, 1, 0)];
    run(|| {
        for (tall, broad, stride, dilation, around) in sizes {
            let each = 1 + stride;
            let x = DynTensor::randn([2, 3, 16, 10 + broad], DType::F64).requires_grad();
            let w = DynTensor::randn([3 * each, 1, tall, broad], DType::F64).requires_grad();
            let (stride, dilation, padding) = ([stride; 2], [dilation; 2], [around; 2]);
            let how = Convolution { stride, dilation, padding, ..Convolution::default() };
            let whole = conv2d(&x, &w, None, Convolution { groups: 3, ..how });
            let channel = |c: i64| {
                let kernels = w.narrow(0, c * each as i64, each);
                conv2d(&x.narrow(1, c, 1), &kernels, None, how)
            };
            let apart = DynTensor::cat((0..3).map(channel), 1);
            let weights = DynTensor::randn(whole.sizes(), DType::F64);
            let gradients = |y: &DynTensor| grad(&(y * &weights).sum(..), &[&x, &w]).unwrap();
            let (ours, theirs) = (gradients(&whole), gradients(&apart));
            for (a, b) in [(&whole, &apart), (&ours[0], &theirs[0]), (&ours[1], &theirs[1])] {
                let off = (a - b).abs().max(..).item().unwrap();
                assert!(off < 1e-12 * b.abs().max(..).item().unwrap(), "{tall}x{broad}: {off}");
            }
        }
    });
}

/// The inputs are halves of small integers, so that windows hold equal elements.
#[test]
fn pooling_is_pytorchs_where_elements_are_equal_too() {
    case("max_pool2d", |case| {
        let layer = MaxPool2d(Pooling { stride: [2; 2], padding: [1; 2], ..Pooling::of([3; 2]) });
        case.check(layer.forward(&Image::<3>::from_dyn(case.x.clone())).as_dyn(), None);
    });
    case("avg_pool2d", |case| {
        let layer = AvgPool2d(Pooling { stride: [1; 2], padding: [1; 2], ..Pooling::of([2; 2]) });
        case.check(layer.forward(&Image::<3>::from_dyn(case.x.clone())).as_dyn(), None);
    });
}

#[test]
fn normalizations_are_pytorchs() {
    case("batch_norm", |case| {
        let mut layer = loaded(case, BatchNorm::<N<3>>::new());
        let y = layer.forward(&Image::<3>::from_dyn(case.x.clone()));
        case.check(y.as_dyn(), Some(&layer));
        for (name, tensor) in layer.named_tensors().iter().filter(|(_, t)| !t.is_leaf()) {
            close(tensor, &case.host(&format!("after.{name}")).to_f64(), name);
        }
        layer.eval();
        let still = layer.named_tensors().len();
        let _ = layer.forward(&Image::<3>::from_dyn(case.x.clone())).as_dyn().to_host().unwrap();
        assert_eq!((still, layer.parameters().len()), (5, 2));
    });
    case("group_norm", |case| {
        let layer = loaded(case, GroupNorm::<N<6>>::with_groups(2));
        case.check(layer.forward(&Image::<6>::from_dyn(case.x.clone())).as_dyn(), Some(&layer));
    });
    case("rms_norm", |case| {
        let layer = loaded(case, RmsNorm::<N<5>>::new());
        case.check(layer.forward(&case.typed::<(Batch, N<5>)>()).as_dyn(), Some(&layer));
    });
}

#[test]
fn recurrent_layers_are_pytorchs() {
    let two = Layers { count: 2, dropout: 0.0 };
    case("lstm", |case| {
        let layer = loaded(case, Lstm::<N<4>, N<3>>::with_layers(two));
        let x = case.typed::<(Batch, Len, N<4>)>();
        let (y, state) = layer.forward(&x, None);
        close(state.hidden.as_dyn(), &case.host("state.last").to_f64(), "the last state");
        case.check(y.as_dyn(), Some(&layer));
        // In two parts, the state handed on.
        let part =
            |from, to| Tensor::<(Batch, Len, N<4>)>::from_dyn(case.x.slice((.., range(from, to))));
        let (first, state) = layer.forward(&part(0, 2), None);
        let (second, _) = layer.forward(&part(2, 5), Some(&state));
        let whole = DynTensor::cat([first.as_dyn(), second.as_dyn()], 1);
        close(&whole, &case.host("y").to_f64(), "in two parts");
    });
    case("gru", |case| {
        let layer = loaded(case, Gru::<N<4>, N<3>>::with_layers(two));
        let (y, last) = layer.forward(&case.typed::<(Batch, Len, N<4>)>(), None);
        close(last.as_dyn(), &case.host("state.last").to_f64(), "the last state");
        case.check(y.as_dyn(), Some(&layer));
    });
}

#[test]
fn recurrent_layers_that_read_both_ways_are_pytorchs() {
    let two = Layers { count: 2, dropout: 0.0 };
    case("lstm_bidirectional", |case| {
        let layer = loaded(case, Lstm::<N<4>, N<3>, N<6>>::bidirectional(two));
        let (y, state) = layer.forward(&case.typed::<(Batch, Len, N<4>)>(), None);
        close(state.hidden.as_dyn(), &case.host("state.last").to_f64(), "the last state");
        close(state.cell.as_dyn(), &case.host("state.cell").to_f64(), "the last cells");
        case.check(y.as_dyn(), Some(&layer));
        let (again, _) = layer.forward(&case.typed::<(Batch, Len, N<4>)>(), Some(&state));
        close(again.as_dyn(), &case.host("state.again").to_f64(), "from the last state");
        assert_eq!(layer.describe(), "Lstm(4 -> 3, 2 layers, bidirectional)");
    });
    case("gru_bidirectional", |case| {
        let layer = loaded(case, Gru::<N<4>, N<3>, N<6>>::bidirectional(two));
        let (y, last) = layer.forward(&case.typed::<(Batch, Len, N<4>)>(), None);
        close(last.as_dyn(), &case.host("state.last").to_f64(), "the last state");
        case.check(y.as_dyn(), Some(&layer));
        let (again, _) = layer.forward(&case.typed::<(Batch, Len, N<4>)>(), Some(&last));
        close(again.as_dyn(), &case.host("state.again").to_f64(), "from the last state");
    });
}

#[test]
fn resizing_is_pytorchs() {
    case("upsample_bilinear2d", |case| {
        case.check(&functional::upsample_bilinear2d(&case.x, [7, 5]), None);
    });
    case("adaptive_avg_pool2d", |case| {
        case.check(&functional::adaptive_avg_pool2d(&case.x, [3, 4]), None);
    });
    case("adaptive_avg_pool2d of more", |case| {
        case.check(&functional::adaptive_avg_pool2d(&case.x, [5, 2]), None);
    });
    case("pixel_shuffle", |case| case.check(&functional::pixel_shuffle(&case.x, 2), None));
    for (name, mode) in [
        ("reflect", PadMode::Reflect),
        ("replicate", PadMode::Replicate),
        ("circular", PadMode::Circular),
    ] {
        case(name, |case| {
            case.check(&functional::pad_with(&case.x, [(0, 3), (2, 1)], mode), None);
        });
    }
    run(|| {
        let x = DynTensor::arange(0, 12, 1, DType::F32).reshape([1, 1, 3, 4]);
        let mirrored = functional::pad_with(&x, [(3, 0)], PadMode::Reflect);
        assert_eq!(mirrored.shape().sizes(), [1, 1, 3, 7]);
        let error =
            functional::pad_with(&x, [(3, 0), (0, 0)], PadMode::Reflect).to_host().unwrap_err();
        assert!(error.message().starts_with("pad: 3 and 0 elements around axis 2"), "{error}");
        let wide = functional::upsample_nearest2d(&x, [1, 2]).to_vec::<f32>().unwrap();
        assert_eq!(wide[..6], [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        let means = functional::adaptive_avg_pool2d(&x, [1, 2]).to_vec::<f32>().unwrap();
        assert_eq!(means, [4.5, 6.5]);
    });
}

#[test]
fn parts_are_chosen_by_truth() {
    run(|| {
        let x =
            DynTensor::from_vec(vec![3.0_f32, -1.0, 2.0, -5.0, 0.0, 7.0], [2, 3]).requires_grad();
        let chosen = x.masked_select(&x.gt(0.0)).unwrap();
        assert_eq!(chosen.to_vec::<f32>().unwrap(), [3.0, 2.0, 7.0]);
        chosen.square().sum(..).backward().unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [6.0, 0.0, 4.0, 0.0, 0.0, 14.0]);
        let places = x.nonzero().unwrap();
        assert_eq!(places.to_vec::<i64>().unwrap(), [0, 0, 0, 1, 0, 2, 1, 0, 1, 2]);
        let none = x.masked_select(&x.gt(100.0)).unwrap();
        assert_eq!(none.shape().sizes(), [0]);
        let (largest, at) = x.max_along(-1);
        assert_eq!(largest.to_vec::<f32>().unwrap(), [3.0, 7.0]);
        assert_eq!(at.to_vec::<i64>().unwrap(), [0, 2]);
        assert_eq!(DynTensor::eye(3, DType::F32).diag().sum(..).item().unwrap(), 3.0);
        let line = DynTensor::linspace(-1.0, 1.0, 5, DType::F32);
        assert_eq!(line.to_vec::<f32>().unwrap(), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        let grid = DynTensor::meshgrid([&line, &x.slice(0)]);
        assert_eq!(grid[1].shape().sizes(), [5, 3]);
    });
}
