//! Layers over volumes, tables of rows, and what changes the sizes of images against PyTorch:
//! states that it saved, its outputs and gradients.

use std::collections::BTreeMap;

use gt::functional::{Corners, Interpolation, Resize};
use gt::nn::BagMode;
use gt::prelude::*;

use crate::run;
use crate::saved::{self, Case, close, loaded};

dims! { Batch, Len, Depth, Height, Width }

type Line<const C: usize> = (Batch, N<C>, Len);
type Image<const C: usize> = (Batch, N<C>, Height, Width);
type Volume<const C: usize> = (Batch, N<C>, Depth, Height, Width);

fn case(name: &'static str, check: impl FnOnce(&Case)) {
    saved::case("parts.pth", name, check);
}

#[test]
fn convolutions_of_volumes_are_pytorchs() {
    case("conv3d", |case| {
        let how = Convolution {
            stride: [2, 1, 1],
            padding: [1, 0, 1],
            dilation: [1, 2, 1],
            groups: 2,
            ..Default::default()
        };
        let layer = loaded(case, Conv3d::<N<4>, N<6>>::with_kernel([3, 2, 1], how));
        case.check(layer.forward(&case.typed::<Volume<4>>()).as_dyn(), Some(&layer));
        assert_eq!(layer.describe(), "Conv3d(4 x 6, kernel [3, 2, 1])");
        let one = functional::conv3d(&case.x.slice(0), &layer.weight, layer.bias.as_ref(), how);
        let all = case.host("y").to_f64();
        close(&one, &all[..one.numel()], "without a batch");
    });
    case("conv3d same", |case| {
        let how = Convolution { same: true, ..Default::default() };
        let layer = loaded(case, <Conv3d>::with_sizes(2, 3, [2, 3, 4], how));
        case.check(&layer.forward(&case.x), Some(&layer));
    });
    case("conv_transpose1d", |case| {
        let how = Convolution {
            stride: [1, 2],
            padding: [0, 1],
            output_padding: [0, 1],
            groups: 2,
            ..Default::default()
        };
        let layer = loaded(case, ConvTranspose1d::<N<4>, N<6>>::with_kernel(3, how));
        case.check(layer.forward(&case.typed::<Line<4>>()).as_dyn(), Some(&layer));
    });
}

#[test]
fn convolutions_that_keep_the_size_are_pytorchs() {
    case("conv2d same", |case| {
        let how = Convolution { same: true, dilation: [3, 1], ..Default::default() };
        let layer = loaded(case, Conv2d::<N<2>, N<3>>::with_kernel([2, 3], how));
        case.check(layer.forward(&case.typed::<Image<2>>()).as_dyn(), Some(&layer));
    });
    case("conv1d same", |case| {
        let how = Convolution { same: true, ..Default::default() };
        let layer = loaded(case, Conv1d::<N<2>, N<3>>::with_kernel(4, how));
        case.check(layer.forward(&case.typed::<Line<2>>()).as_dyn(), Some(&layer));
    });
}

#[test]
fn windows_that_do_not_fit_are_told() {
    run(|| {
        let x = DynTensor::ones([1, 2, 5, 5], DType::F32);
        let weight = DynTensor::ones([3, 2, 3, 3], DType::F32);
        let message = |y: DynTensor| y.error().unwrap().message().to_owned();
        let how = Convolution { same: true, stride: [2, 1], ..Default::default() };
        let told = message(functional::conv2d(&x, &weight, None, how));
        assert_eq!(told, "conv2d: zeros keep the size of f32[1,2,5,5] at no stride but 1");
        let told = message(functional::conv_transpose2d(&x, &weight, None, how));
        assert_eq!(told, "conv_transpose2d: zeros that keep the size are of convolutions only");
        let how = Convolution::<3>::default();
        let volume = DynTensor::ones([1, 2, 2, 5, 5], DType::F32);
        for wrong in [weight, DynTensor::ones([3, 2, 3, 3, 3], DType::F32)] {
            let told = message(functional::conv3d(&volume, &wrong, None, how));
            assert!(told.starts_with("conv3d: f32[1,2,2,5,5] and weight f32["), "{told}");
        }
        let told = message(functional::max_pool3d(&x.slice((0, 0)), Pooling::of([2; 3])));
        assert_eq!(told, "max_pool3d: f32[5,5] is no volume");
        let to = Resize::Size([0, 3]);
        let told = message(functional::interpolate(&x, to, Interpolation::Nearest));
        assert_eq!(told, "interpolate: f32[1,2,5,5] cannot be resized to [0, 3]");
    });
}

#[test]
fn pooling_of_volumes_and_of_parts_of_windows_is_pytorchs() {
    case("max_pool3d", |case| {
        let how = Pooling { stride: [1, 2, 2], padding: [1, 1, 0], ..Pooling::of([2, 3, 2]) };
        case.check(MaxPool3d(how).forward(&case.typed::<Volume<2>>()).as_dyn(), None);
    });
    case("avg_pool3d", |case| {
        let how = Pooling {
            stride: [2, 2, 1],
            padding: [1, 1, 0],
            ceil_mode: true,
            ..Pooling::of([2, 3, 2])
        };
        case.check(AvgPool3d(how).forward(&case.typed::<Volume<2>>()).as_dyn(), None);
    });
    let ceil = |size, stride, padding| {
        let whole = Pooling::of(size);
        Pooling { stride, padding, ceil_mode: true, ..whole }
    };
    case("max_pool2d ceil", |case| {
        let layer = MaxPool2d(ceil([3; 2], [2; 2], [1; 2]));
        case.check(layer.forward(&case.typed::<Image<2>>()).as_dyn(), None);
    });
    case("max_pool2d ceil short", |case| {
        case.check(&functional::max_pool2d(&case.x, ceil([2; 2], [3; 2], [1; 2])), None);
    });
    case("avg_pool2d ceil", |case| {
        let layer = AvgPool2d(ceil([3, 2], [2, 3], [1, 0]));
        case.check(layer.forward(&case.typed::<Image<2>>()).as_dyn(), None);
    });
}

/// The mean of what is inside of each window: sums over ones say how much that is.
#[test]
fn means_of_windows_can_leave_the_padding_out() {
    run(|| {
        for ceil_mode in [false, true] {
            let how = Pooling { stride: [2, 3], padding: [1, 2], ..Pooling::of([3, 4]) };
            let how = Pooling { ceil_mode, ..how };
            let without = Pooling { count_include_pad: false, ..how };
            let x = DynTensor::randn([2, 3, 6, 7], DType::F64).requires_grad();
            let pool = |x: &DynTensor| functional::avg_pool2d(x, how);
            let want = pool(&x) / pool(&x.detach().ones_like());
            let found = functional::avg_pool2d(&x, without);
            close(&found, &want.to_vec::<f64>().unwrap(), "planes");
            let weights = found.detach().randn_like();
            let grad = |y: &DynTensor| autograd::grad(&(y * &weights).sum(..), &[&x]).unwrap();
            close(&grad(&found)[0], &grad(&want)[0].to_vec::<f64>().unwrap(), "their gradients");
        }
        let how = Pooling { stride: [2; 3], padding: [1; 3], ..Pooling::of([3, 2, 2]) };
        let x = DynTensor::randn([1, 2, 5, 4, 4], DType::F64);
        let want = functional::avg_pool3d(&x, how) / functional::avg_pool3d(&x.ones_like(), how);
        let without = AvgPool3d(Pooling { count_include_pad: false, ..how });
        close(&without.forward(&x), &want.to_vec::<f64>().unwrap(), "volumes");
        // Halves are added in `f32`.
        let halves = DynTensor::full([1, 1, 3, 3], 40_000.0, DType::F16);
        let without = Pooling { count_include_pad: false, padding: [1; 2], ..Pooling::of([3; 2]) };
        let means = functional::avg_pool2d(&halves, without);
        assert_eq!((means.dtype(), means.item().unwrap()), (DType::F16, 40_000.0));
    });
}

/// Running statistics move towards the means of those of the examples, and are used in evaluation.
#[test]
fn instance_norms_may_keep_running_statistics() {
    run(|| {
        let mut layer = <InstanceNorm>::with_sizes(2).with_running_stats().with_affine();
        let x = DynTensor::randn([3, 2, 4, 5], DType::F32) * 2.0 + 1.0;
        let (mut mean, mut var) = (DynTensor::zeros([2], DType::F32), DynTensor::from([1f32; 2]));
        for scale in [1.0, 3.0] {
            let x = &x * scale;
            let made = layer.forward(&x);
            let alone = <InstanceNorm>::with_sizes(2).forward(&x);
            assert_eq!(made.to_vec::<f32>().unwrap(), alone.to_vec::<f32>().unwrap());
            mean = mean * 0.9 + x.mean([2, 3]).mean(0) * 0.1;
            var = var * 0.9 + x.var([2, 3]).mean(0) * 0.1;
        }
        let state = layer.state_dict().unwrap();
        let names: Vec<&str> = state.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["bias", "num_batches_tracked", "running_mean", "running_var", "weight"]);
        let held = |name: &str| DynTensor::from_host(state.get(name).unwrap().clone());
        let list = |x: &DynTensor| x.to_host().unwrap().to_f64();
        close(&held("running_mean"), &list(&mean), "mean");
        close(&held("running_var"), &list(&var), "variance");
        assert_eq!(layer.parameters().len(), 2);
        layer.eval();
        let [mean, var] = [mean, var].map(|x| x.reshape([2, 1, 1]));
        let want = (&x - mean) / (var + 1e-5).sqrt();
        close(&layer.forward(&x), &list(&want), "evaluation");
        assert_eq!(layer.state_dict().unwrap(), state, "evaluation changes nothing");
        // Another layer goes on with the state.
        let mut other = <InstanceNorm>::with_sizes(2).with_running_stats().with_affine();
        other.load_state_dict(&state).unwrap();
        other.eval();
        let of = |layer: &InstanceNorm| layer.forward(&x).to_vec::<f32>().unwrap();
        assert_eq!(of(&other), of(&layer));
    });
}

#[test]
fn instance_norms_are_pytorchs() {
    case("instance_norm", |case| {
        let layer = InstanceNorm::<N<3>>::new();
        case.check(layer.forward(&case.typed::<Image<3>>()).as_dyn(), Some(&layer));
        assert!(layer.parameters().is_empty());
    });
    case("instance_norm", |case| {
        // Running statistics change nothing in training.
        let layer = InstanceNorm::<N<3>>::new().with_running_stats();
        case.check(layer.forward(&case.typed::<Image<3>>()).as_dyn(), Some(&layer));
    });
    case("instance_norm affine", |case| {
        let layer = InstanceNorm::<N<3>>::new().with_affine().with_eps(0.1);
        let layer = loaded(case, layer);
        case.check(layer.forward(&case.typed::<Line<3>>()).as_dyn(), Some(&layer));
    });
}

#[test]
fn resized_images_are_pytorchs() {
    let centers = Corners::Centers;
    for (name, to, mode) in [
        ("nearest", Resize::Size([5, 7]), Interpolation::Nearest),
        ("nearest scale", Resize::Scale([1.7, 0.5]), Interpolation::Nearest),
        ("bilinear", Resize::Size([5, 3]), Interpolation::Bilinear(centers)),
        ("bilinear scale", Resize::Scale([1.6, 2.3]), Interpolation::Bilinear(Corners::Edges)),
        ("bicubic", Resize::Size([5, 3]), Interpolation::Bicubic(Corners::Edges)),
        ("bicubic corners", Resize::Size([5, 1]), Interpolation::Bicubic(centers)),
    ] {
        case(name, |case| {
            let layer = Upsample { to, mode };
            case.check(layer.forward(&case.typed::<Image<2>>()).as_dyn(), None);
        });
    }
    case("pixel_unshuffle", |case| {
        let y = PixelUnshuffle(2).forward(&case.typed::<Image<3>>());
        case.check(y.as_dyn(), None);
        let back = PixelShuffle(2).forward(&y);
        close(back.as_dyn(), &case.host("x").to_f64(), "there and back");
    });
    case("adaptive", |case| {
        let layer = AdaptiveAvgPool2d([2, 3]);
        case.check(layer.forward(&case.typed::<Image<2>>()).as_dyn(), None);
    });
}

#[test]
fn rows_that_stand_for_nothing_learn_nothing() {
    case("embedding", |case| {
        let table = loaded(case, Embedding::<N<5>, N<3>>::new().with_padding_idx(1));
        let y = table.forward(&case.tensor("words"));
        let weights = DynTensor::arange(0, 36, 1, DType::I64).remainder(7);
        close(&y, &case.host("y").to_f64(), "the rows");
        y.flatten(0, -1).mul(&weights).sum(..).backward().unwrap();
        let slope = table.weight.grad().unwrap();
        close(slope.as_dyn(), &case.host("grads.weight").to_f64(), "the gradient");
        let fresh = Embedding::<N<5>, N<3>>::new().with_padding_idx(1);
        let row = fresh.weight.as_dyn().slice(1);
        assert_eq!(row.to_vec::<f32>().unwrap(), [0.0; 3]);
        assert_eq!(fresh.parameters().len(), 1);
        let beyond = Embedding::<N<5>, N<3>>::new().with_padding_idx(5);
        assert!(beyond.weight.error().is_some());
    });
}

#[test]
fn bags_of_rows_are_pytorchs() {
    for (name, mode, padding) in [
        ("bag sum", BagMode::Sum, None),
        ("bag mean", BagMode::Mean, None),
        ("bag max", BagMode::Max, None),
        ("bag padded sum", BagMode::Sum, Some(1)),
        ("bag padded mean", BagMode::Mean, Some(1)),
        ("bag padded max", BagMode::Max, Some(1)),
    ] {
        case(name, |case| {
            let mut table = EmbeddingBag::<N<5>, N<3>>::new().with_mode(mode);
            if let Some(row) = padding {
                table = table.with_padding_idx(row);
            }
            let table = loaded(case, table);
            let words = case.tensor("words");
            let (flat, offsets) = (words.flatten(0, -1), case.tensor("offsets"));
            let typed = Tensor::<(Batch, Len), Int>::from_dyn(words);
            let mut outs = vec![
                table.forward(&typed).as_dyn().flatten(0, -1),
                table.forward_offsets(&flat, &offsets, None).flatten(0, -1),
            ];
            let weighted = table.forward_offsets(&flat, &offsets, Some(&case.x));
            match mode {
                BagMode::Sum => outs.push(weighted.flatten(0, -1)),
                BagMode::Mean | BagMode::Max => assert!(weighted.error().is_some()),
            }
            if mode == BagMode::Sum {
                case.check(&DynTensor::cat(&outs, 0), Some(&table));
            } else {
                let y = DynTensor::cat(&outs, 0);
                close(&y, &case.host("y").to_f64(), name);
                let weights = DynTensor::arange(0, y.numel() as i64, 1, DType::I64).remainder(7);
                y.mul(&weights).sum(..).backward().unwrap();
                let slope = table.weight.grad().unwrap();
                close(slope.as_dyn(), &case.host("grads.weight").to_f64(), name);
            }
        });
    }
}

#[test]
fn channels_are_dropped_whole_in_training() {
    run(|| {
        let x = DynTensor::ones([8, 50, 3, 2], DType::F32).requires_grad();
        let mut layer = Dropout2d::new(0.5);
        let y = layer.forward(&x);
        let kept = y.ne(0.0).to_dtype(DType::F32);
        let whole = kept.mean([-2, -1]).to_vec::<f32>().unwrap();
        assert!(whole.iter().all(|share| *share == 0.0 || *share == 1.0));
        let n_kept = whole.iter().filter(|share| **share == 1.0).count();
        assert!((150..250).contains(&n_kept), "{n_kept} of 400");
        y.sum(..).backward().unwrap();
        close(&x.grad().unwrap(), &y.to_host().unwrap().to_f64(), "the gradient");
        layer.eval();
        assert!(layer.forward(&x).is(&x));
        let line = Dropout1d::new(0.5).forward(&x.slice((.., .., 0)));
        let rows = line.ne(0.0).to_dtype(DType::F32).mean(-1).to_vec::<f32>().unwrap();
        assert!(rows.iter().all(|share| *share == 0.0 || *share == 1.0));
    });
}

#[derive(Module)]
struct Experts {
    by_name: BTreeMap<String, Box<dyn Module>>,
}

#[test]
fn parts_have_the_names_of_their_keys() {
    run(|| {
        let mut by_name: BTreeMap<String, Box<dyn Module>> = BTreeMap::new();
        by_name.insert("text".into(), Box::new(<Linear>::with_sizes(3, 2)));
        by_name.insert("drop".into(), Box::new(Dropout::new(0.5)));
        let mut net = Experts { by_name };
        net.eval();
        let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["by_name.text.weight", "by_name.text.bias"]);
        let modules: Vec<String> = net.named_modules().into_iter().map(|(name, _)| name).collect();
        assert_eq!(modules, ["", "by_name", "by_name.drop", "by_name.text"]);
    });
}
