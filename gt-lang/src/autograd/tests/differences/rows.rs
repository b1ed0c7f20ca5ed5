//! Gradient cases of activations, statistics, normalizations, attention, and of parts replaced.

use gt_ir::Op;
use gt_ir::attr::{Attention as Kind, AttentionGrad, AttentionInput};

use super::{Case, Domain, DynTensor, Rng, case};
use crate::control::{cond, scan};
use crate::core::{Arg, keepdim, step};
use crate::functional::{self as f, Attention};

type Unary = fn(&DynTensor) -> DynTensor;

pub(super) fn cases(rng: &mut Rng) -> Vec<Case> {
    let mut cases = pointwise(rng);
    cases.extend(statistics());
    cases.extend(normalizations());
    cases.extend(attention());
    cases.extend(parts(rng));
    cases.extend(windows());
    cases.extend(volumes());
    cases
}

fn pointwise(rng: &mut Rng) -> Vec<Case> {
    use Domain::*;
    let each: &[(&str, Domain, Unary)] = &[
        ("silu", Any, DynTensor::silu),
        ("softplus", Any, DynTensor::softplus),
        ("log_sigmoid", Any, DynTensor::log_sigmoid),
        ("log2", Positive, DynTensor::log2),
        ("log10", Positive, DynTensor::log10),
        ("exp2", Any, DynTensor::exp2),
        ("leaky_relu", NotZero, |x| x.leaky_relu(0.1)),
        ("elu", NotZero, |x| x.elu(1.5)),
        ("clamp_min", NotZero, |x| x.clamp_min(0.05)),
        ("clamp_max", NotZero, |x| x.clamp_max(0.05)),
        ("reciprocal", NotZero, DynTensor::reciprocal),
        ("tan", Any, |x| x.mul(0.5).tan()),
        ("hardswish", Any, DynTensor::hardswish),
        ("mish", Any, DynTensor::mish),
        ("log1p", Positive, DynTensor::log1p),
        ("expm1", Any, DynTensor::expm1),
        ("atan", Any, DynTensor::atan),
        ("remainder", Positive, |x| x.remainder(7.0)),
        ("asin", Any, |x| x.mul(0.6).asin()),
        ("acos", Any, |x| x.mul(0.6).acos()),
        ("sinh", Any, DynTensor::sinh),
        ("cosh", Any, DynTensor::cosh),
        ("asinh", Any, DynTensor::asinh),
        ("acosh", Positive, |x| x.add(1.0).acosh()),
        ("atanh", Any, |x| x.mul(0.6).atanh()),
        ("erfc", Any, |x| x.mul(2.0).add(1.0).erfc()),
        ("erfinv", Any, |x| x.mul(0.6).erfinv()),
        ("lgamma", NotZero, DynTensor::lgamma),
        ("digamma", Positive, DynTensor::digamma),
        ("logit", Positive, |x| x.mul(0.45).logit()),
        ("frac", Positive, |x| x.mul(0.4).frac()),
    ];
    let mut cases: Vec<Case> = each
        .iter()
        .map(|&(name, domain, f)| case(name, &[(&rng.shape(0), domain)], move |x| f(&x[0])))
        .collect();
    let prelu: [(&[usize], Domain); 2] = [(&[2, 3], NotZero), (&[3], Any)];
    cases.push(case("prelu", &prelu, |x| x[0].leaky_relu(&x[1])));
    let two: [(&[usize], Domain); 2] = [(&[2, 3], NotZero), (&[3], NotZero)];
    cases.push(case("atan2", &two, |x| x[0].atan2(&x[1])));
    cases.push(case("remainder by y", &two, |x| {
        x[0].mul(0.1).add(5.0).remainder(&x[1].mul(0.1).add(3.0))
    }));
    cases.push(case("fmod by y", &two, |x| x[0].mul(0.1).sub(5.0).fmod(&x[1].mul(0.1).add(3.0))));
    cases.push(case("logaddexp", &two, |x| x[0].logaddexp(&x[1])));
    cases.push(case("hypot", &two, |x| x[0].hypot(&x[1])));
    cases.push(case("xlogy", &two, |x| x[0].xlogy(&x[1].square())));
    let bounds: [(&[usize], Domain); 3] = [(&[2, 3], Any), (&[3], Positive), (&[2, 1], Positive)];
    cases.push(case("clamp between tensors", &bounds, |x| x[0].clamp(&x[1].neg(), &x[2])));
    cases
}

/// Positions of which one is named twice, and one never.
fn to() -> DynTensor {
    DynTensor::from_vec(vec![2_i64, 0, 2, 1, 1, 1], [2, 3])
}

fn at(places: [i64; 2]) -> DynTensor {
    DynTensor::from_vec(places.to_vec(), [2])
}

fn statistics() -> Vec<Case> {
    use Domain::*;
    let each: &[(&str, Unary)] = &[
        ("var of two axes", |x| x.var_with([0, -1], 0.0)),
        ("var, keep", |x| x.var(keepdim(1))),
        ("std", |x| x.std(..)),
        ("logsumexp", |x| x.logsumexp([0, 2])),
        ("logsumexp, keep", |x| x.logsumexp(keepdim(-1))),
        ("prod", |x| x.prod(1)),
        ("prod all", |x| x.prod(..)),
        ("cumsum", |x| x.cumsum(1)),
        ("cumprod", |x| x.cumprod(-2)),
        ("sort", |x| x.sort(1, true).0),
        ("topk", |x| x.topk(2, 1).0),
        ("median", |x| x.median(1).0),
        ("cummax", |x| x.cummax(1).0),
        ("cummin", |x| x.cummin(-1).0),
        ("quantile", |x| x.quantile(0.3, 1)),
        ("kthvalue", |x| x.kthvalue(2, 1).0),
        ("diagonal", |x| x.diagonal(-1)),
        ("trace", DynTensor::trace),
        ("tile", |x| x.tile([2, 1])),
        ("norm", |x| x.norm(1)),
        ("norm all", |x| x.norm(..)),
        ("norm 3", |x| x.norm_p(3.0, -1)),
        ("norm 1", |x| x.norm_p(1.0, [0, 1])),
        ("norm inf", |x| x.norm_p(f64::INFINITY, 0)),
        ("normalize", |x| f::normalize(x, 2.0, 1, 1e-12)),
    ];
    let mut cases: Vec<Case> = each
        .iter()
        .map(|&(name, f)| case(name, &[(&[2, 3, 2], NotZero)], move |x| f(&x[0])))
        .collect();
    let two: [(&[usize], Domain); 2] = [(&[2, 3], Any), (&[2, 3], Any)];
    cases.push(case("cosine_similarity", &two, |x| f::cosine_similarity(&x[0], &x[1], 1, 1e-8)));
    cases.push(case("cross", &two, |x| x[0].cross(&x[1], 1)));
    cases.push(case("kron", &two, |x| x[0].kron(&x[1])));
    cases.push(case("tensordot", &two, |x| x[0].tensordot(&x[1], &[1], &[-1])));
    cases.push(case("cdist", &two, |x| x[0].cdist(&(&x[1] + 4.0), 2.0)));
    use f::ScatterReduce::{Amax, Amin, Mean, Prod, Sum};
    for how in [Sum, Mean, Prod, Amax, Amin] {
        let scattered =
            move |own: bool| move |x: &[DynTensor]| x[0].scatter_reduce(1, &to(), &x[1], how, own);
        cases.push(case(format!("scatter_reduce {how:?}"), &two, scattered(true)));
        cases.push(case(format!("scatter_reduce {how:?}, without"), &two, scattered(false)));
    }
    cases.push(case("mode", &two[..1], |x| x[0].mode(1).0));
    let labels = || DynTensor::from_vec(vec![1_i64, 1, 0], [1, 3]);
    let length = |n: i64| DynTensor::from_vec(vec![n], [1]);
    let ctc = move |x: &[DynTensor]| {
        let how = f::Ctc { blank: 2, ..f::Ctc::default() };
        f::ctc_loss(&x[0].log_softmax(-1), &labels(), &length(5), &length(2), &how)
    };
    cases.push(case("ctc_loss", &[(&[5, 1, 3], Any)], ctc));
    let put: [(&[usize], Domain); 2] = [(&[4, 3], Any), (&[2, 3], Any)];
    cases.push(case("index_put", &put, |x| x[0].index_put(&[&at([3, 0])], &x[1])));
    let add = |x: &[DynTensor]| x[0].index_put_accumulate(&[&at([-1, 3])], &x[1]);
    cases.push(case("index_put, adding", &put, add));
    cases.push(case("pairwise_distance", &two, |x| f::pairwise_distance(&x[0], &x[1], 2.0, 1e-6)));
    cases
}

fn normalizations() -> Vec<Case> {
    use Domain::*;
    let rms: [(&[usize], Domain); 2] = [(&[2, 2, 3], Any), (&[2, 3], Any)];
    let group: [(&[usize], Domain); 3] = [(&[2, 4, 3], Any), (&[4], Any), (&[4], Any)];
    let batch: [(&[usize], Domain); 5] =
        [(&[3, 2, 2], Any), (&[2], Any), (&[2], Positive), (&[2], Any), (&[2], Any)];
    vec![
        case("rms_norm", &rms, |x| x[0].rms_norm(&x[1], 1e-5)),
        case("group_norm", &group, |x| x[0].group_norm(2, &x[1], &x[2], 1e-5)),
        case("instance_norm", &group, |x| f::instance_norm(&x[0], &x[1], &x[2], 1e-5)),
        case("batch_norm with given statistics", &batch, |x| {
            f::batch_norm_eval(&x[0], (&x[1], &x[2]), (&x[3], &x[4]), 1e-3)
        }),
        case("batch_norm", &group, |x| {
            let (mean, var) = (x[1].detach().zeros_like(), x[1].detach().ones_like());
            f::batch_norm(&x[0], (&mean, &var), (&x[1], &x[2]), 0.1, 1e-3).output
        }),
    ]
}

fn attention() -> Vec<Case> {
    use Domain::*;
    type Attend = fn(&DynTensor, &DynTensor, &DynTensor) -> DynTensor;
    let each: &[(&str, Attend)] = &[
        ("attention", |q, k, v| f::scaled_dot_product_attention(q, k, v)),
        ("causal attention", |q, k, v| {
            let how = Attention { causal: true, ..Attention::default() };
            f::scaled_dot_product_attention_with(q, k, v, how)
        }),
        ("masked attention", |q, k, v| {
            // The second query sees nothing.
            let mask = DynTensor::from_vec(vec![1_i64, 0, 1, 0, 0, 0], [2, 3]).ne(0);
            let how = Attention { mask: Some(&mask), scale: Some(0.7), ..Attention::default() };
            f::scaled_dot_product_attention_with(q, k, v, how)
        }),
    ];
    let shapes: [(&[usize], Domain); 3] = [(&[4, 2, 2], Any), (&[2, 3, 2], Any), (&[2, 3, 1], Any)];
    let mut cases: Vec<Case> = each
        .iter()
        .map(|&(name, f)| case(name, &shapes, move |x| f(&x[0], &x[1], &x[2])))
        .collect();
    let biased: [(&[usize], Domain); 4] =
        [(&[2, 2], Any), (&[3, 2], Any), (&[3, 2], Any), (&[3], Any)];
    cases.push(case("attention with a bias", &biased, |x| {
        let how = Attention { mask: Some(&x[3]), ..Attention::default() };
        f::scaled_dot_product_attention_with(&x[0], &x[1], &x[2], how)
    }));
    let back: [(&[usize], Domain); 4] =
        [(&[2, 2, 1], Any), (&[2, 2, 2], Any), (&[2, 3, 2], Any), (&[2, 3, 1], Any)];
    cases.push(case("the gradient of attention", &back, |x| {
        let operands: Vec<Arg<'_>> = x.iter().map(Arg::Tensor).collect();
        let [q, k, v] = AttentionInput::ALL.map(|of| {
            let op = Op::ScaledDotProductAttentionGrad(AttentionGrad { kind: Kind::Causal, of });
            DynTensor::record(op, &[&operands[..], &[Arg::from(0.7)]].concat())
        });
        q + k.sum(0).sum(0) + v.sum(0).sum(0)
    }));
    cases.push(case("rotary_embedding", &[(&[2, 3, 4], Any)], |x| {
        let positions = DynTensor::arange(1, 4, 1, gt_ir::DType::I64);
        let (cos, sin) = f::rotary_tables(&positions, 4, 100.0);
        f::rotary_embedding(&x[0], &cos.to_dtype(x[0].dtype()), &sin.to_dtype(x[0].dtype()))
    }));
    cases
}

fn parts(rng: &mut Rng) -> Vec<Case> {
    use Domain::*;
    let each: &[(&str, Unary)] = &[
        ("tril", |x| x.tril(0)),
        ("triu", |x| x.triu(-1)),
        ("flip", |x| x.flip([0, 2])),
        ("roll", |x| x.roll(-1, 2)),
        ("repeat", |x| x.repeat([2, 1, 3, 1])),
        ("repeat_interleave", |x| x.repeat_interleave(2, 1)),
        ("movedim", |x| x.movedim(0, -1)),
        ("unflatten", |x| x.unflatten(2, [2, 2])),
        ("split_sizes", |x| &x.split_sizes([1, 3], 2)[1] * 2.0),
        ("pad", |x| x.pad([(0, 0), (1, 2), (-1, 1)], 3.0)),
        ("einsum", |x| f::einsum("bij,kij->bk", [x, x])),
        ("einsum of a diagonal", |x| f::einsum("ii->i", [&x.sum(0).narrow(1, 0, 3)])),
    ];
    let mut cases: Vec<Case> =
        each.iter().map(|&(name, f)| case(name, &[(&[2, 3, 4], Any)], move |x| f(&x[0]))).collect();
    let two: [(&[usize], Domain); 2] = [(&[3, 5], Any), (&[2, 2], Any)];
    cases.push(case("slice_assign", &two, |x| x[0].slice_assign((1.., step(1.., 3)), &x[1])));
    let row: [(&[usize], Domain); 2] = [(&[3, 5], Any), (&[1], Any)];
    cases.push(case("slice_assign of a row", &row, |x| x[0].slice_assign((1, 2..4), &x[1])));
    let loops: [(&[usize], Domain); 3] = [(&[2], Any), (&[3, 2], Any), (&[2], Any)];
    cases.push(case("scan", &loops, |x| {
        let round = |carried: &[DynTensor], slices: &[DynTensor]| {
            let y = (&carried[0] * &x[2]).tanh() + slices[0].square();
            (vec![y.clone()], vec![&y * &slices[0], y.exp()])
        };
        let (last, all) = scan(round, &[&x[0]], &[&x[1]]).unwrap();
        DynTensor::cat([&last[0], &(&all[0] + &all[1]).reshape([6])], 0)
    }));
    cases.push(case("cond", &two, |x| {
        let condition = x[0].sum(..).gt(&x[1].sum(..)); // True of some of the operands.
        let on_true = |y: &[DynTensor]| vec![y[0].sum(..) * &y[1], y[1].exp()];
        let on_false = |y: &[DynTensor]| vec![y[0].square().mean(..) + &y[1], y[1].sin()];
        let all = cond(&condition, on_true, on_false, &[&x[0], &x[1]]).unwrap();
        &all[0] * &all[1]
    }));
    let three: [(&[usize], Domain); 2] = [(&[3, 2], Any), (&[2, 2], Any)];
    cases.push(case("index_copy", &three, |x| {
        x[0].index_copy(0, &DynTensor::from_vec(vec![2_i64, 0], [2]), &x[1])
    }));
    cases.push(case("scatter", &three, |x| {
        x[0].scatter(0, &DynTensor::from_vec(vec![2_i64, 0, 1, 1], [2, 2]), &x[1])
    }));
    let index = rng.index(3, &[2, 2]);
    let other = rng.index(4, &[2]);
    cases.push(case("picked", &[(&[2, 3, 4], Any)], move |x| x[0].slice((.., &index, &other))));
    cases
}

/// Volumes, and images of other sizes.
fn volumes() -> Vec<Case> {
    use Domain::*;
    let each: &[(&str, Unary)] = &[
        ("max_pool2d, rounded up", |x| {
            f::max_pool2d(x, f::Pooling { ceil_mode: true, ..f::Pooling::of([2, 3]) })
        }),
        ("avg_pool2d, rounded up", |x| {
            f::avg_pool2d(x, f::Pooling { ceil_mode: true, ..f::Pooling::of([2, 3]) })
        }),
        ("max_pool3d", |x| f::max_pool3d(x, f::Pooling::of([2, 2, 2]))),
        ("avg_pool3d", |x| f::avg_pool3d(x, f::Pooling::of([2, 3, 1]))),
        ("bilinear", |x| {
            let mode = f::Interpolation::Bilinear(f::Corners::Centers);
            f::interpolate(x, f::Resize::Size([3, 7]), mode)
        }),
        ("bicubic", |x| {
            let mode = f::Interpolation::Bicubic(f::Corners::Edges);
            f::interpolate(x, f::Resize::Scale([1.5, 0.7]), mode)
        }),
        ("pixel_unshuffle", |x| f::pixel_unshuffle(&x.narrow(-1, 0, 4).narrow(-2, 1, 4), 2)),
    ];
    let mut cases: Vec<Case> = each
        .iter()
        .map(|&(name, f)| case(name, &[(&[2, 2, 5, 5], Any)], move |x| f(&x[0])))
        .collect();
    let volume: [(&[usize], Domain); 3] =
        [(&[2, 4, 4, 3, 3], Any), (&[2, 2, 2, 2, 1], Any), (&[2], Any)];
    let deep = f::Convolution {
        stride: [1, 2, 1],
        padding: [1, 0, 1],
        dilation: [2, 1, 1],
        groups: 2,
        ..Default::default()
    };
    cases.push(case("conv3d", &volume, move |x| f::conv3d(&x[0], &x[1], Some(&x[2]), deep)));
    let image: [(&[usize], Domain); 3] = [(&[2, 2, 4, 3], Any), (&[3, 2, 2, 2], Any), (&[3], Any)];
    let same = f::Convolution { same: true, ..Default::default() };
    cases.push(case("conv2d, same", &image, move |x| f::conv2d(&x[0], &x[1], Some(&x[2]), same)));
    cases
}

fn windows() -> Vec<Case> {
    use Domain::*;
    let each: &[(&str, Unary)] = &[
        ("unfold", |x| x.unfold(-1, 3, 1)),
        ("unfold, dilated", |x| x.unfold_dilated(2, 2, 2, 3)),
        ("max_pool2d", |x| f::max_pool2d(x, f::Pooling::of([2, 2]))),
        ("max_pool2d, padded", |x| {
            f::max_pool2d(
                x,
                f::Pooling { stride: [2, 1], padding: [1, 1], ..f::Pooling::of([3, 2]) },
            )
        }),
        ("avg_pool2d", |x| {
            f::avg_pool2d(
                x,
                f::Pooling { stride: [1, 2], padding: [1, 0], ..f::Pooling::of([2, 3]) },
            )
        }),
        ("max_pool1d", |x| f::max_pool1d(&x.flatten(0, 1), 2, 2, 0)),
    ];
    let mut cases: Vec<Case> = each
        .iter()
        .map(|&(name, f)| case(name, &[(&[2, 2, 5, 5], Any)], move |x| f(&x[0])))
        .collect();
    let windows: &[(&str, &[usize], Unary)] = &[
        ("fold", &[2, 4, 3], |x| x.fold(1, 1, 6)),
        ("fold, apart and dilated", &[3, 2, 3], |x| x.fold_dilated(0, 3, 2, 12)),
        ("fold, not overlapping", &[2, 2, 2], |x| x.fold(-1, 3, 6)),
        ("fold of long windows", &[3, 9], |x| x.fold(0, 2, 14)),
    ];
    cases.extend(
        windows.iter().map(|&(name, sizes, f)| case(name, &[(sizes, Any)], move |x| f(&x[0]))),
    );
    let plain = f::Convolution::default();
    let odd =
        f::Convolution { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 2, ..plain };
    let image: [(&[usize], Domain); 3] = [(&[2, 2, 4, 3], Any), (&[3, 2, 2, 2], Any), (&[3], Any)];
    cases.push(case("conv2d", &image, move |x| f::conv2d(&x[0], &x[1], Some(&x[2]), plain)));
    let grouped: [(&[usize], Domain); 2] = [(&[2, 4, 5, 4], Any), (&[2, 2, 3, 2], Any)];
    cases.push(case("conv2d in groups", &grouped, move |x| f::conv2d(&x[0], &x[1], None, odd)));
    let wide = f::Convolution { padding: [1, 2], dilation: [2, 1], ..plain };
    let around: [(&[usize], Domain); 2] = [(&[2, 2, 5, 4], Any), (&[3, 2, 2, 3], Any)];
    cases.push(case("conv2d, padded", &around, move |x| f::conv2d(&x[0], &x[1], None, wide)));
    let outside = f::Convolution { padding: [2, 0], ..plain };
    cases.push(case("conv2d, padded more than its reach", &around, move |x| {
        f::conv2d(&x[0], &x[1], None, outside)
    }));
    let own: [(&[usize], Domain); 2] = [(&[2, 2, 5, 4], Any), (&[2, 1, 3, 2], Any)];
    for (name, how) in [
        ("conv2d by channel", f::Convolution { padding: [1, 1], groups: 2, ..plain }),
        ("conv2d by channel, with steps", odd),
    ] {
        cases.push(case(name, &own, move |x| f::conv2d(&x[0], &x[1], None, how)));
    }
    let twice: [(&[usize], Domain); 2] = [(&[2, 2, 5, 4], Any), (&[4, 1, 3, 2], Any)];
    cases.push(case("conv2d, two of a channel", &twice, move |x| {
        f::conv2d(&x[0], &x[1], None, odd)
    }));
    let line: [(&[usize], Domain); 2] = [(&[2, 2, 6], Any), (&[2, 2, 3], Any)];
    cases.push(case("conv1d", &line, move |x| f::conv1d(&x[0], &x[1], None, plain)));
    let back: [(&[usize], Domain); 2] = [(&[1, 4, 3, 2], Any), (&[4, 1, 2, 3], Any)];
    let how = f::Convolution {
        stride: [2, 2],
        padding: [0, 1],
        output_padding: [1, 0],
        groups: 2,
        ..plain
    };
    cases.push(case("conv_transpose2d", &back, move |x| {
        f::conv_transpose2d(&x[0], &x[1], None, how)
    }));
    cases
}
