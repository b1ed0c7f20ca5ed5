//! The functions of `gt::functional`, and the normalizations that are methods.

use gt::DynTensor;
use gt::functional::*;

use super::movement::around;
use super::rows;
use crate::arguments::{Arguments, Outcome, absent};

rows! {
    "nn.functional.mse_loss", "input target size_average=None reduce=None reduction=mean" => |a| mse_loss_with(a.x()?, a.t("target")?, reduction(a)?);
    "nn.functional.l1_loss", "input target size_average=None reduce=None reduction=mean" => |a| l1_loss_with(a.x()?, a.t("target")?, reduction(a)?);
    "nn.functional.smooth_l1_loss", "input target size_average=None reduce=None reduction=mean beta=1.0" => |a| smooth_l1_loss_with(a.x()?, a.t("target")?, a.float("beta")?, reduction(a)?);
    "nn.functional.huber_loss", "input target reduction=mean delta=1.0" => |a| huber_loss(a.x()?, a.t("target")?, a.float("delta")?, reduction(a)?);
    "nn.functional.cross_entropy", "input target weight=None size_average=None ignore_index=-100 reduce=None reduction=mean label_smoothing=0.0" => |a| classes(a, cross_entropy_with)?;
    "nn.functional.nll_loss", "input target weight=None size_average=None ignore_index=-100 reduce=None reduction=mean" => |a| classes(a, nll_loss_with)?;
    "nn.functional.binary_cross_entropy", "input target weight=None size_average=None reduce=None reduction=mean" => |a| binary_cross_entropy_with(a.x()?, a.t("target")?, a.maybe("weight")?, reduction(a)?);
    "nn.functional.binary_cross_entropy_with_logits", "input target weight=None size_average=None reduce=None reduction=mean pos_weight=None" => |a| logits(a)?;
    "nn.functional.kl_div", "input target size_average=None reduce=None reduction=mean log_target=False" => |a| kl_div(a.x()?, a.t("target")?, form(a), reduction(a)?);
    "nn.functional.gaussian_nll_loss", "input target var full=False eps=1e-6 reduction=mean" => |a| gaussian_nll_loss(a.x()?, a.t("target")?, a.t("var")?, &GaussianNll { full: a.truth("full"), eps: a.float("eps")?, reduction: reduction(a)? });
    "nn.functional.poisson_nll_loss", "input target log_input=True full=False size_average=None eps=1e-8 reduce=None reduction=mean" => |a| poisson_nll_loss(a.x()?, a.t("target")?, &PoissonNll { log_input: a.truth("log_input"), full: a.truth("full"), eps: a.float("eps")?, reduction: reduction(a)? });
    "nn.functional.margin_ranking_loss", "input other target margin=0 size_average=None reduce=None reduction=mean" => |a| margin_ranking_loss(a.x()?, a.t("other")?, a.t("target")?, a.float("margin")?, reduction(a)?);
    "nn.functional.triplet_margin_loss", "input positive negative margin=1.0 p=2 eps=1e-6 swap=False size_average=None reduce=None reduction=mean" => |a| triplet_margin_loss(a.x()?, a.t("positive")?, a.t("negative")?, &triplet(a)?);
    "nn.functional.triplet_margin_with_distance_loss", "input positive negative distance_function=None margin=1.0 swap=False reduction=mean" => |a| triplet_margin_with_distance_loss(a.x()?, a.t("positive")?, a.t("negative")?, |x, y| pairwise_distance(x, y, 2.0, 1e-6), &TripletMargin { margin: a.float("margin")?, swap: a.truth("swap"), reduction: reduction(a)?, ..TripletMargin::default() });
    "nn.functional.hinge_embedding_loss", "input target margin=1.0 size_average=None reduce=None reduction=mean" => |a| hinge_embedding_loss(a.x()?, a.t("target")?, a.float("margin")?, reduction(a)?);
    "nn.functional.soft_margin_loss", "input target size_average=None reduce=None reduction=mean" => |a| soft_margin_loss(a.x()?, a.t("target")?, reduction(a)?);
    "nn.functional.multi_margin_loss", "input target p=1 margin=1.0 weight=None size_average=None reduce=None reduction=mean" => |a| multi_margin_loss(a.x()?, a.t("target")?, &MultiMargin { p: a.float("p")?, margin: a.float("margin")?, weight: a.maybe("weight")?, reduction: reduction(a)? });
    "nn.functional.multilabel_margin_loss", "input target size_average=None reduce=None reduction=mean" => |a| multilabel_margin_loss(a.x()?, a.t("target")?, reduction(a)?);
    "nn.functional.multilabel_soft_margin_loss", "input target weight=None size_average=None reduce=None reduction=mean" => |a| multilabel_soft_margin_loss(a.x()?, a.t("target")?, a.maybe("weight")?, reduction(a)?);
    "nn.functional.cosine_embedding_loss", "input other target margin=0 size_average=None reduce=None reduction=mean" => |a| cosine_embedding_loss(a.x()?, a.t("other")?, a.t("target")?, a.float("margin")?, reduction(a)?);
    "nn.functional.ctc_loss", "input targets input_lengths target_lengths blank=0 reduction=mean zero_infinity=False" => |a| ctc(a)?;
    "nn.functional.scaled_dot_product_attention", "input key value attn_mask=None dropout_p=0.0 is_causal=False scale=None enable_gqa=False" => |a| attention(a)?;
    "nn.functional.conv1d", "input weight bias=None stride=1 padding=0 dilation=1 groups=1" => |a| conv1d(a.x()?, a.t("weight")?, a.maybe("bias")?, convolution(a)?);
    "nn.functional.conv2d", "input weight bias=None stride=1 padding=0 dilation=1 groups=1" => |a| conv2d(a.x()?, a.t("weight")?, a.maybe("bias")?, convolution(a)?);
    "nn.functional.conv3d", "input weight bias=None stride=1 padding=0 dilation=1 groups=1" => |a| conv3d(a.x()?, a.t("weight")?, a.maybe("bias")?, volumes(a)?);
    "nn.functional.conv_transpose1d", "input weight bias=None stride=1 padding=0 output_padding=0 groups=1 dilation=1" => |a| conv_transpose1d(a.x()?, a.t("weight")?, a.maybe("bias")?, convolution(a)?);
    "nn.functional.conv_transpose2d", "input weight bias=None stride=1 padding=0 output_padding=0 groups=1 dilation=1" => |a| conv_transpose2d(a.x()?, a.t("weight")?, a.maybe("bias")?, convolution(a)?);
    "nn.functional.max_pool1d", "input kernel_size stride=None padding=0 dilation=1 ceil_mode=False return_indices=False" => |a| pooled(a, max_pool1d)?;
    "nn.functional.max_pool2d", "input kernel_size stride=None padding=0 dilation=1 ceil_mode=False return_indices=False" => |a| max_pool2d(a.x()?, windows(a)?);
    "nn.functional.avg_pool1d", "input kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True" => |a| pooled(a, avg_pool1d)?;
    "nn.functional.avg_pool2d", "input kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True divisor_override=None" => |a| avg_pool2d(a.x()?, means(a)?);
    "nn.functional.max_pool3d", "input kernel_size stride=None padding=0 dilation=1 ceil_mode=False return_indices=False" => |a| max_pool3d(a.x()?, windows(a)?);
    "nn.functional.avg_pool3d", "input kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True divisor_override=None" => |a| avg_pool3d(a.x()?, means(a)?);
    "nn.functional.adaptive_avg_pool2d", "input output_size" => |a| adaptive_avg_pool2d(a.x()?, a.pair("output_size")?);
    "nn.functional.layer_norm", "input normalized_shape weight=None bias=None eps=1e-5" => |a| layer_norm(a)?;
    "nn.functional.rms_norm", "input normalized_shape weight=None eps=None" => |a| rms_norm(a)?;
    "nn.functional.group_norm", "input num_groups weight=None bias=None eps=1e-5" => |a| group_norm(a)?;
    "nn.functional.instance_norm", "input running_mean=None running_var=None weight=None bias=None use_input_stats=True momentum=0.1 eps=1e-5" => |a| instance(a)?;
    "nn.functional.batch_norm", "input running_mean running_var weight=None bias=None training=False momentum=0.1 eps=1e-5" => |a| batch(a)?;
    "nn.functional.normalize", "input p=2.0 dim=1 eps=1e-12" => |a| normalize(a.x()?, a.float("p")?, a.int("dim")?, a.float("eps")?);
    "nn.functional.cosine_similarity", "input x2 dim=1 eps=1e-8" => |a| cosine_similarity(a.x()?, a.t("x2")?, a.int("dim")?, a.float("eps")?);
    "nn.functional.pairwise_distance", "input x2 p=2.0 eps=1e-6 keepdim=False" => |a| pairwise_distance(a.x()?, a.t("x2")?, a.float("p")?, a.float("eps")?);
    "nn.functional.pad/reflect", "input pad mode=constant value=None" => |a| pad_with(a.x()?, pads(a)?, PadMode::Reflect);
    "nn.functional.pad/replicate", "input pad mode=constant value=None" => |a| pad_with(a.x()?, pads(a)?, PadMode::Replicate);
    "nn.functional.pad/circular", "input pad mode=constant value=None" => |a| pad_with(a.x()?, pads(a)?, PadMode::Circular);
    "nn.functional.interpolate/nearest", "input size=None scale_factor=None mode=nearest align_corners=None recompute_scale_factor=None antialias=False" => |a| upsample_nearest2d(a.x()?, factors(a)?);
    "nn.functional.upsample_nearest", "input size=None scale_factor=None" => |a| upsample_nearest2d(a.x()?, factors(a)?);
    "nn.functional.interpolate/bilinear", "input size=None scale_factor=None mode=nearest align_corners=None recompute_scale_factor=None antialias=False" => |a| bilinear(a)?;
    "nn.functional.interpolate/bicubic", "input size=None scale_factor=None mode=nearest align_corners=None recompute_scale_factor=None antialias=False" => |a| bicubic(a)?;
    "nn.functional.pixel_unshuffle", "input downscale_factor" => |a| pixel_unshuffle(a.x()?, a.size("downscale_factor")?);
    "nn.functional.pixel_shuffle", "input upscale_factor" => |a| pixel_shuffle(a.x()?, a.size("upscale_factor")?);
    "einsum", "operands equation" => |a| einsum(a.text("equation"), a.list("operands")?);
}

fn triplet(a: &Arguments<'_>) -> Outcome<TripletMargin> {
    Ok(TripletMargin {
        margin: a.float("margin")?,
        p: a.float("p")?,
        eps: a.float("eps")?,
        swap: a.truth("swap"),
        reduction: reduction(a)?,
    })
}

fn reduction(a: &Arguments<'_>) -> Outcome<Reduction> {
    match a.text("reduction") {
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        "batchmean" => Ok(Reduction::BatchMean),
        "none" => Ok(Reduction::None),
        other => absent(format!("the reduction {other}")),
    }
}

/// Lengths are a list or a tensor.
fn ctc(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let lengths = |name: &str| match a.value(name).as_array() {
        Some(all) => {
            let n = all.len();
            a.ints(name).map(|all| DynTensor::from_vec(all, [n]))
        }
        None => a.t(name).cloned(),
    };
    if a.t("targets")?.rank() + 1 != a.x()?.rank() {
        return absent("targets one after the other");
    }
    let (zero_infinity, reduction) = (a.truth("zero_infinity"), reduction(a)?);
    let how = Ctc { blank: a.int("blank")?, zero_infinity, reduction };
    let (inputs, targets) = (lengths("input_lengths")?, lengths("target_lengths")?);
    Ok(ctc_loss(a.x()?, a.t("targets")?, &inputs, &targets, &how))
}

/// Losses over classes, which are axis 1 in PyTorch and the last axis in GT.
fn classes(
    a: &Arguments<'_>,
    loss: fn(&DynTensor, &DynTensor, &CrossEntropy) -> DynTensor,
) -> Outcome<DynTensor> {
    let (x, target) = (a.x()?, a.t("target")?);
    if target.dtype().is_float() {
        return absent("probabilities as target");
    }
    let label_smoothing =
        if a.is_none("label_smoothing") { 0.0 } else { a.float("label_smoothing")? };
    let options = CrossEntropy {
        weight: a.maybe("weight")?.cloned(),
        ignore_index: Some(a.int("ignore_index")?),
        label_smoothing,
        reduction: reduction(a)?,
    };
    let scores = if x.rank() > 2 { x.movedim(1, -1) } else { x.clone() };
    Ok(loss(&scores, target, &options))
}

fn logits(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let options = BceWithLogits {
        weight: a.maybe("weight")?.cloned(),
        pos_weight: a.maybe("pos_weight")?.cloned(),
        reduction: reduction(a)?,
    };
    Ok(binary_cross_entropy_with_logits_with(a.x()?, a.t("target")?, &options))
}

fn form(a: &Arguments<'_>) -> KlTarget {
    if a.truth("log_target") { KlTarget::Logarithms } else { KlTarget::Probabilities }
}

fn attention(a: &Arguments<'_>) -> Outcome<DynTensor> {
    // Key and value with fewer heads need no argument in GT.
    let _ = a.truth("enable_gqa");
    let scale = if a.is_none("scale") { None } else { Some(a.float("scale")?) };
    let how = Attention { mask: a.maybe("attn_mask")?, causal: a.truth("is_causal"), scale };
    Ok(scaled_dot_product_attention_with(a.x()?, a.t("key")?, a.t("value")?, how))
}

fn convolution(a: &Arguments<'_>) -> Outcome<Convolution> {
    let size = |i: i64| a.t("weight").map(|weight| weight.size(i).saturating_sub(1));
    let dilation = a.pair("dilation")?;
    let padding = match a.text("padding") {
        "" => a.pair("padding")?,
        "valid" => [0; 2],
        _ => {
            let around = [dilation[0] * size(-2)?, dilation[1] * size(-1)?];
            if around.iter().any(|n| n % 2 == 1) {
                return absent("more padding on one side than on the other");
            }
            around.map(|n| n / 2)
        }
    };
    let output_padding =
        if a.is_none("output_padding") { [0; 2] } else { a.pair("output_padding")? };
    let (stride, groups) = (a.pair("stride")?, a.size("groups")?);
    Ok(Convolution { stride, padding, dilation, groups, output_padding, same: false })
}

/// A convolution of volumes.
fn volumes(a: &Arguments<'_>) -> Outcome<Convolution<3>> {
    let same = a.text("padding") == "same";
    let padding = match a.text("padding") {
        "" => a.each("padding")?,
        _ => [0; 3],
    };
    Ok(Convolution {
        stride: a.each("stride")?,
        padding,
        same,
        dilation: a.each("dilation")?,
        groups: a.size("groups")?,
        ..Convolution::default()
    })
}

fn pooling<const N: usize>(a: &Arguments<'_>) -> Outcome<Pooling<N>> {
    let size = a.each("kernel_size")?;
    let own = !a.is_none("stride") && a.value("stride").as_array().is_none_or(|s| !s.is_empty());
    let stride = if own { a.each("stride")? } else { size };
    Ok(Pooling { stride, padding: a.each("padding")?, ..Pooling::of(size) })
}

/// Windows of planes and volumes, whose last may be cut off.
fn windows<const N: usize>(a: &Arguments<'_>) -> Outcome<Pooling<N>> {
    Ok(Pooling { ceil_mode: a.truth("ceil_mode"), ..pooling(a)? })
}

/// Windows whose means are taken.
fn means<const N: usize>(a: &Arguments<'_>) -> Outcome<Pooling<N>> {
    Ok(Pooling { count_include_pad: a.truth("count_include_pad"), ..windows(a)? })
}

type OfLines = fn(&DynTensor, usize, usize, usize) -> DynTensor;

fn pooled(a: &Arguments<'_>, of: OfLines) -> Outcome<DynTensor> {
    let how: Pooling = pooling(a)?;
    Ok(of(a.x()?, how.size[1], how.stride[1], how.padding[1]))
}

/// A weight or bias, or the ones or zeros that PyTorch uses in place of an absent one.
fn affine(a: &Arguments<'_>, name: &str, sizes: &[usize]) -> Outcome<DynTensor> {
    let like = a.x()?.dtype();
    let one = name == "weight" || name == "running_var";
    Ok(match a.maybe(name)? {
        Some(tensor) => tensor.clone(),
        None if one => DynTensor::ones(sizes, like),
        None => DynTensor::zeros(sizes, like),
    })
}

fn layer_norm(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let sizes = a.sizes("normalized_shape")?;
    let (weight, bias) = (affine(a, "weight", &sizes)?, affine(a, "bias", &sizes)?);
    Ok(a.x()?.layer_norm(&weight, &bias, a.float("eps")?))
}

fn rms_norm(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let weight = affine(a, "weight", &a.sizes("normalized_shape")?)?;
    let eps = match a.x()?.dtype() {
        _ if !a.is_none("eps") => a.float("eps")?,
        gt::DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    Ok(a.x()?.rms_norm(&weight, eps))
}

fn group_norm(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let channels = [a.x()?.size(1)];
    let (weight, bias) = (affine(a, "weight", &channels)?, affine(a, "bias", &channels)?);
    Ok(a.x()?.group_norm(a.size("num_groups")?, &weight, &bias, a.float("eps")?))
}

/// Running statistics are given and change no result.
fn instance(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let _ = (a.value("running_mean"), a.value("running_var"), a.value("momentum"));
    let channels = [a.x()?.size(1)];
    let (weight, bias) = (affine(a, "weight", &channels)?, affine(a, "bias", &channels)?);
    Ok(instance_norm(a.x()?, &weight, &bias, a.float("eps")?))
}

fn batch(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let channels = [a.x()?.size(1)];
    let (weight, bias) = (affine(a, "weight", &channels)?, affine(a, "bias", &channels)?);
    let (mean, var) = (affine(a, "running_mean", &channels)?, affine(a, "running_var", &channels)?);
    let (running, affine, eps) = ((&mean, &var), (&weight, &bias), a.float("eps")?);
    Ok(match a.truth("training") {
        true => batch_norm(a.x()?, running, affine, a.float("momentum")?, eps).output,
        false => {
            let _ = a.value("momentum");
            batch_norm_eval(a.x()?, running, affine, eps)
        }
    })
}

/// Pads of the last axes. Negative pads are absent.
fn pads(a: &Arguments<'_>) -> Outcome<Vec<(usize, usize)>> {
    // Each row has its own mode.
    let _ = a.text("mode");
    let n = |n: i64| usize::try_from(n).or_else(|_| absent("negative pads"));
    let last = a.ints("pad")?.len() / 2;
    let all = around(a)?;
    let first = all.len().saturating_sub(last);
    all.into_iter().skip(first).map(|(lo, hi)| Ok((n(lo)?, n(hi)?))).collect()
}

/// The factors of enlargement, for sizes that are multiples.
fn factors(a: &Arguments<'_>) -> Outcome<[usize; 2]> {
    let (x, _) = (a.x()?, a.text("mode"));
    if x.rank() != 4 {
        return absent(format!("images of rank {}", x.rank()));
    }
    if a.is_none("size") {
        let factor = a.float("scale_factor")?;
        let whole = factor as usize;
        return if factor == whole as f64 { Ok([whole; 2]) } else { absent("broken factors") };
    }
    let (wanted, here) = (a.pair("size")?, [x.size(-2), x.size(-1)]);
    let multiple = wanted.iter().zip(here).all(|(w, h)| h > 0 && w % h == 0 && w >= &h);
    match multiple {
        true => Ok([wanted[0] / here[0], wanted[1] / here[1]]),
        false => absent("sizes that are no multiples"),
    }
}

fn bilinear(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let _ = a.text("mode");
    if a.truth("align_corners") {
        return absent("align_corners=True");
    }
    if a.is_none("size") || a.x()?.rank() != 4 {
        return absent("a factor instead of a size, or other than images");
    }
    Ok(upsample_bilinear2d(a.x()?, a.pair("size")?))
}

fn bicubic(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let _ = a.text("mode");
    if a.x()?.rank() != 4 || a.x()?.dtype() == gt::DType::U8 {
        return absent("other than images of floats");
    }
    let to = match a.is_none("size") {
        true => Resize::Scale([a.float("scale_factor")?; 2]),
        false => Resize::Size(a.pair("size")?),
    };
    let corners = if a.truth("align_corners") { Corners::Centers } else { Corners::Edges };
    Ok(interpolate(a.x()?, to, Interpolation::Bicubic(corners)))
}
