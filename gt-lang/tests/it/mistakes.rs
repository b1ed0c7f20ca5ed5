//! Mistakes that types cannot see: the next read fails, names the operation and the shapes by their
//! names, and points at the user's line.

use gt::functional::{self as f, Convolution, CrossEntropy, Pooling};
use gt::nn::{AttentionMask, Layers};
use gt::prelude::*;

use crate::run;

dims! { Batch, Seq }

/// The message of a read of what this gives, once it is sure that the error points at this line and
/// has eight lines at most.
macro_rules! mistake {
    ($tensor:expr) => {{
        let (tensor, line) = ($tensor, line!());
        let error = tensor.to_host().err().expect("this is a mistake");
        let text = error.to_string();
        let place = format!("mistakes.rs:{line}:");
        assert!(text.contains(&place), "{place} in {text}");
        assert!(text.lines().count() <= 8, "{text}");
        error.message().to_owned()
    }};
}

/// Zeros of a type as tapes spell it: `f32[Batch=2,3]`.
fn named(ty: &str) -> DynTensor {
    let ty: gt_ir::Type = ty.parse().expect("a type as tapes spell it");
    DynTensor::zeros(ty.shape, ty.dtype)
}

fn zeros(sizes: &[usize]) -> DynTensor {
    DynTensor::zeros(sizes, DType::F32)
}

fn integers(sizes: &[usize]) -> DynTensor {
    DynTensor::zeros(sizes, DType::I64)
}

#[track_caller]
fn says(message: &str, op: &str, shapes: &[&str]) {
    assert!(message.starts_with(op), "{message:?} does not begin with {op:?}");
    for shape in shapes {
        assert!(message.contains(shape), "no {shape} in {message:?}");
    }
}

#[test]
fn shapes_that_do_not_fit() {
    run(|| {
        let (image, kernel) = (zeros(&[2, 3, 8, 8]), zeros(&[4, 1, 3, 3]));
        let message =
            mistake!(gt::functional::conv2d(&image, &kernel, None, Convolution::default()));
        says(&message, "conv2d", &["[2,3,8,8]", "[4,1,3,3]"]);

        let (q, k) = (zeros(&[2, 4, 5, 16]), zeros(&[2, 4, 5, 8]));
        let message = mistake!(gt::functional::scaled_dot_product_attention(&q, &k, &k));
        says(&message, "scaled_dot_product_attention", &["[2,4,5,16]", "[2,4,5,8]"]);
        let k = zeros(&[2, 3, 5, 16]);
        let message = mistake!(gt::functional::scaled_dot_product_attention(&q, &k, &k));
        says(&message, "scaled_dot_product_attention", &["[2,4,5,16]", "[2,3,5,16]"]);

        let message = mistake!(zeros(&[2, 6]).reshape([4, 4]));
        says(&message, "reshape", &["[2,6]", "[4,4]"]);
        let message = mistake!(DynTensor::cat([&zeros(&[2, 3]), &zeros(&[2, 4])], 0));
        says(&message, "cat", &["[2,3]", "[2,4]"]);
        let message = mistake!(gt::functional::mse_loss(&zeros(&[2, 3]), &zeros(&[2, 4])));
        says(&message, "", &["[2,3]", "[2,4]"]);
        let message = mistake!(zeros(&[2, 3]).matmul(&zeros(&[2, 3])));
        says(&message, "matmul", &["[2,3]"]);
        let message = mistake!(gt::functional::cross_entropy(&zeros(&[2, 10]), &integers(&[3])));
        says(&message, "cross_entropy", &["[2,10]", "[3]"]);
        let message = mistake!(zeros(&[3]).expand([2, 4]));
        says(&message, "expand", &["[3]", "[2,4]"]);
        let message = mistake!(zeros(&[3, 2]).sum(2));
        says(&message, "sum", &["[3,2]", "2"]);
    });
}

#[test]
fn dimensions_are_called_by_their_names() {
    run(|| {
        let (x, w) = (named("f32[Batch=2,3]"), named("f32[Width=4,5]"));
        says(&mistake!(x.matmul(&w)), "matmul", &["[Batch=2,3]", "[Width=4,5]"]);
        says(&mistake!(&x + &w), "add", &["[Batch=2,3]", "[Width=4,5]"]);
        let a: T![Batch, 2] = Tensor::from_dyn(zeros(&[3, 2]));
        let b: T![Batch, 2] = Tensor::from_dyn(zeros(&[4, 2]));
        says(&mistake!((&a + &b).into_dyn()), "add", &["Batch=3", "Batch=4"]);
        let place: T![1; Int] = Tensor::zeros();
        let rows: T![Batch, 1] = Tensor::ones_with([4]);
        let copied = mistake!(a.index_copy::<1, _>(&place, &rows).into_dyn());
        says(&copied, "index_copy", &["[Batch=3,2]", "[Batch=4,1]"]);
    });
}

#[test]
fn more_than_there_is() {
    run(|| {
        let message = mistake!(zeros(&[2, 5]).topk(7, -1).0);
        says(&message, "topk: the 7 largest of axis 1", &["f32[2,5] has 5"]);
        says(&mistake!(zeros(&[2, 5]).topk(7, 2).1), "topk: axis 2", &["f32[2,5]"]);
        let drawn = mistake!(zeros(&[5]).multinomial_without_replacement(6));
        says(&drawn, "multinomial_without_replacement: the 6", &["f32[5] has 5"]);
    });
}

#[test]
fn dtypes_that_do_not_fit() {
    run(|| {
        let message = mistake!(zeros(&[5, 2]).embedding(&zeros(&[3])));
        says(&message, "", &["f32[3]"]);
        let message = mistake!(integers(&[2, 3]).softmax(-1).exp());
        says(&message, "softmax", &["i64[2,3]"]);
        let (logits, classes) = (zeros(&[2, 3]), zeros(&[2]));
        let how = CrossEntropy::default();
        let message = mistake!(gt::functional::cross_entropy_with(&logits, &classes, &how));
        says(&message, "cross_entropy", &["f32[2]"]);
    });
}

#[test]
fn what_only_running_shows() {
    run(|| {
        let index = DynTensor::from_vec(vec![0_i64, 9], [2]);
        let message = mistake!(zeros(&[5, 2]).embedding(&index));
        says(&message, "index_select", &["f32[5,2]", "9"]);
    });
}

/// The error that a read of what this gives has, once it is sure that it points at this line.
macro_rules! error_here {
    ($tensor:expr) => {{
        let (tensor, line) = ($tensor, line!());
        let error = tensor.error().expect("this is a mistake");
        let place = (error.loc().file().ends_with("it/mistakes.rs"), error.loc().line());
        assert_eq!(place, (true, line), "{error}");
        (error.message().to_owned(), error.cure().expect("a cure is known").to_owned())
    }};
}

/// What a layer of such sizes says, whatever is computed with it, stands at the line that built it.
#[test]
fn layers_that_cannot_be() {
    run(|| {
        let x: T![Batch, Seq, 10] = Tensor::zeros_with([2, 3]);
        let line = line!() + 1;
        let heads = MultiheadAttention::<N<10>>::with_heads(3);
        for y in [
            heads.forward(&x, AttentionMask::default()),
            heads.cross(&x, &x, AttentionMask::default()),
        ] {
            let error = y.error().expect("10 is no multiple of 3");
            assert_eq!(
                error.message(),
                "MultiheadAttention: width 10 cannot be divided by 3 heads"
            );
            assert_eq!(error.cure(), Some("1, 2, 5 and 10 divide 10"));
            assert_eq!(error.loc().line(), line, "{error}");
            assert_eq!(y.sizes(), [2, 3, 10], "the shape is what its type says");
        }
        let none = error_here!(MultiheadAttention::<N<10>>::with_heads(0).in_proj_weight);
        assert!(none.0.ends_with("width 10 cannot be divided by 0 heads"), "{}", none.0);

        let groups = |groups| Convolution { groups, ..Default::default() };
        let error = error_here!(Conv2d::<N<4>, N<6>>::with_kernel([3, 3], groups(3)).weight);
        says(&error.0, "Conv2d: 4 channels in and 6 out", &["3 groups"]);
        let error = error_here!(Conv1d::<N<4>, N<6>>::with_kernel(3, groups(0)).weight);
        says(&error.0, "Conv1d: 4 channels in and 6 out", &["0 groups"]);
        let error =
            error_here!(ConvTranspose2d::<N<4>, N<6>>::with_kernel([3, 3], groups(4)).weight);
        says(&error.0, "ConvTranspose2d: 4 channels in and 6 out", &["4 groups"]);
        let plain = Convolution::default();
        let error = error_here!(Conv2d::<N<4>, N<6>>::with_kernel([3, 0], plain).weight);
        says(&error.0, "Conv2d: a kernel of [3, 0]", &[]);
        let still = Convolution { stride: [1, 0], ..plain };
        let error = error_here!(Conv1d::<N<4>, N<6>>::with_kernel(3, still).weight);
        says(&error.0, "Conv1d: a stride of [0]", &[]);
        let still = Convolution { dilation: [0, 1], ..plain };
        let error = error_here!(Conv2d::<N<4>, N<6>>::with_kernel([3, 3], still).weight);
        says(&error.0, "Conv2d: a dilation of [0, 1]", &[]);

        let error = error_here!(GroupNorm::<N<6>>::with_groups(4).weight);
        says(&error.0, "GroupNorm: 6 channels", &["4 groups"]);
        let none = Layers { count: 0, ..Default::default() };
        let error = error_here!(Lstm::<N<4>, N<3>>::with_layers(none).parameters().remove(0));
        says(&error.0, "lstm: a stack of 0 layers", &[]);
        let error = error_here!(Linear::<N<3>, Dyn>::with_sizes(5, 2).weight);
        says(&error.0, "Linear: the tensor has shape [2,5]", &["type says [?,3]"]);
        let error = error_here!(Conv1d::<N<4>, Dyn>::with_sizes(6, 2, 3, plain).weight);
        says(&error.0, "Conv1d: its type says [4,?]", &["[6, 2]"]);
        let error = error_here!(Dropout::new(-0.5).forward(&x));
        says(&error.0, "dropout: -0.5 is not a probability", &[]);
    });
}

#[test]
fn windows_that_cannot_be() {
    run(|| {
        let image = zeros(&[1, 4, 5, 5]);
        let kernel = zeros(&[4, 2, 3, 3]);
        let with = |groups, stride| Convolution { groups, stride, ..Default::default() };
        let odd = mistake!(f::conv_transpose2d(&image, &kernel, None, with(3, [1, 1])));
        says(&odd, "conv_transpose2d: the 4 channels", &["f32[4,2,3,3]", "3 groups"]);
        let still = mistake!(f::conv_transpose2d(&image, &kernel, None, with(1, [0, 1])));
        says(&still, "conv_transpose2d: stride [0, 1]", &[]);
        let far = Convolution { padding: [usize::MAX, 0], ..Default::default() };
        let far = mistake!(f::conv_transpose2d(&image, &kernel, None, far));
        says(&far, &format!("conv_transpose2d: {} is too large", usize::MAX), &["f32[4,2,3,3]"]);
        let far = mistake!(f::conv_transpose2d(&image, &kernel, None, with(1, [usize::MAX, 1])));
        says(&far, "conv_transpose2d: ", &["is too large"]);
        let far = Convolution { dilation: [u32::MAX as usize; 2], ..Default::default() };
        let far = mistake!(f::conv_transpose2d(&image, &kernel, None, far));
        says(&far, "", &["more than 2^48 elements"]);
        says(&mistake!(f::avg_pool2d(&image, Pooling::of([0, 2]))), "avg_pool2d", &["[1,4,5,5]"]);
        says(&mistake!(f::max_pool2d(&image, Pooling::of([0, 2]))), "max_pool2d", &["[1,4,5,5]"]);
        says(
            &mistake!(f::conv2d(&image, &kernel, None, with(2, [0, 1]))),
            "conv2d",
            &["[1,4,5,5]"],
        );
        let (line, three) = (zeros(&[1, 4, 9]), zeros(&[4, 4, 3]));
        let first = Convolution { padding: [2, 0], ..Default::default() };
        let odd = mistake!(f::conv1d(&line, &three, None, first));
        says(&odd, "conv1d: padding is [2, 0], but a line has one number", &[]);
        let odd = mistake!(f::conv_transpose1d(&line, &three, None, with(1, [3, 2])));
        says(&odd, "conv_transpose1d: stride is [3, 2], but a line has one", &[]);
        says(
            &mistake!(image.group_norm(3, &zeros(&[4]), &zeros(&[4]), 1e-5)),
            "group_norm",
            &["3"],
        );
    });
}

#[test]
fn numbers_beyond_all_shapes() {
    run(|| {
        let long = zeros(&[1]).expand([1_usize << 40]);
        says(&mistake!(long.kron(&long)), "", &["more than 2^48 elements"]);
        let classes = DynTensor::zeros([3], DType::I64);
        let matrix = mistake!(gt::metrics::confusion_matrix(&classes, &classes, usize::MAX));
        says(&matrix, "confusion_matrix: ", &["classes are too many"]);
        for (low, high) in [(f64::NAN, 1.0), (0.0, f64::NAN), (1.0, 1.0)] {
            says(&mistake!(zeros(&[3]).histc(4, low, high)), "histc: 4 parts of", &[]);
        }
    });
}

/// Looking at the shape of what failed hides nothing: there is one to look at.
#[test]
fn what_failed_still_has_its_axes() {
    run(|| {
        let a: T![Batch, 3] = Tensor::ones_with([2]);
        let b: T![Batch, 3] = Tensor::ones_with([4]);
        assert_eq!(((&a + &b).sizes(), (&a + &b).rank()), (vec![2, 3], 2));
        let row: T![Batch] = Tensor::from_dyn(zeros(&[2, 3]));
        assert_eq!((row.sizes(), row.error().is_some()), (vec![0], true));
        let fixed: T![5, 7; Int] = Tensor::from_dyn(zeros(&[2]));
        assert_eq!((fixed.sizes(), fixed.ty().dtype), (vec![5, 7], DType::I64));
        let wide: T![Batch, 784] = Tensor::zeros_with([2, 2]);
        assert_eq!((wide.sizes(), wide.error().is_some()), (vec![0, 784], true));

        let of = |x: DynTensor| (x.sizes(), x.error().is_some());
        assert_eq!(of(DynTensor::zeros([2, -3], DType::F32)), (vec![2, 0], true));
        assert_eq!(of(DynTensor::from_vec(vec![1.0_f32; 3], [2, 2])), (vec![2, 2], true));
        assert_eq!(of(zeros(&[6]).reshape([2, 2, -1])), (vec![2, 2, 0], true));
        assert_eq!(of(zeros(&[6]).expand([3, 5])), (vec![3, 5], true));
        assert_eq!(of(DynTensor::arange(0, 5, 0, DType::I64)), (vec![0], true));
        assert_eq!(of(zeros(&[3]) + zeros(&[5, 2])), (vec![5, 2], true));
        assert_eq!(of(zeros(&[usize::MAX, 2])), (vec![0, 2], true));
    });
}

/// `fn main() -> Result<()>` and `unwrap` show an error by `Debug`.
#[test]
fn debug_shows_what_display_does() {
    run(|| {
        let error = zeros(&[2, 3]).matmul(&zeros(&[2, 3])).to_host().unwrap_err();
        let shown = format!("{error:?}");
        assert_eq!(
            (shown.as_str(), format!("{error:#?}")),
            (&*error.to_string(), error.to_string())
        );
        assert!(shown.contains("\n  at ") && shown.contains("\n  hint: "), "{shown}");
    });
}

#[test]
fn a_second_gradient_without_a_graph_names_the_first() {
    run(|| {
        let x = DynTensor::ones([3], DType::F32).requires_grad();
        let line = line!() + 1;
        let slope = autograd::grad(&x.pow(3), &[&x]).unwrap().remove(0);
        let first = format!("without a graph of its own, at {}:{line}:", file!());
        let errors = [
            autograd::grad(&slope, &[&x]).unwrap_err(),
            autograd::grad(&(&slope * 2.0).sum(..), &[&x]).unwrap_err(),
            slope.square().sum(..).backward().unwrap_err(),
        ];
        for (error, ty) in errors.iter().zip(["f32[3]", "f32[]", "f32[]"]) {
            assert!(error.message().contains(&format!("{ty}, requires no gradient")), "{error}");
            assert!(error.message().contains(&first), "{error}");
            assert!(error.cure().unwrap().contains("Graph::Create"), "{error}");
            assert!(error.loc().line() > line, "{error}");
        }
        x.square().sum(..).backward().unwrap();
        let gathered = x.grad().unwrap().square().sum(..).backward().unwrap_err();
        assert!(gathered.cure().unwrap().contains("Graph::Create"), "{gathered}");
        // What has nothing to do with a gradient is said to have none.
        let plain = DynTensor::ones([3], DType::F32).sum(..).backward().unwrap_err();
        assert!(plain.cure().unwrap().contains("requires_grad()"), "{plain}");
        let hidden = no_grad(|| x.square().sum(..)).backward().unwrap_err();
        assert!(!hidden.message().contains("comes of a gradient"), "{hidden}");
    });
}

#[test]
fn a_leaf_is_changed_outside_of_what_is_tracked_only() {
    run(|| {
        let mut w = DynTensor::ones([2], DType::F32).requires_grad();
        let assigned = w.assign(&zeros(&[2])).unwrap_err();
        assert_eq!(w.to_vec::<f32>().unwrap(), [1.0, 1.0], "it has the value it had");
        let kept = w.clone();
        w += 1.0;
        let added = w.error().unwrap();
        let same = |text: &str| text.replace("add_assign", "assign");
        assert_eq!(assigned.message(), same(added.message()));
        assert_eq!(assigned.cure(), added.cure());
        no_grad(|| kept.assign(&zeros(&[2]))).unwrap();
        assert_eq!(kept.to_vec::<f32>().unwrap(), [0.0, 0.0]);
    });
}

#[test]
fn a_setting_that_is_none_names_those_there_are() {
    run(|| {
        let net: Linear<N<2>, N<1>> = Linear::new();
        let mut opt = AdamW::new(net.parameters(), AdamWConfig::default());
        opt.set(0, "lr", 0.5).unwrap();
        assert_eq!(opt.lr(), 0.5);
        for (name, meant) in
            [("learning_rate", "lr"), ("weight-decay", "weight_decay"), ("beta_1", "beta1")]
        {
            let line = line!() + 1;
            let error = opt.set(0, name, 1.0).unwrap_err();
            says(error.message(), "adamw", &[&format!("`{name}`"), "lr, beta1, beta2, eps"]);
            assert_eq!(error.cure(), Some(&*format!("did you mean `{meant}`?")));
            assert!(error.to_string().contains(&format!("mistakes.rs:{line}:")), "{error}");
        }
        assert_eq!(opt.set(0, "qqq", 1.0).unwrap_err().cure(), None);
        let error = opt.set(3, "lr", 1.0).unwrap_err();
        says(error.message(), "adamw: there is no group 3", &[]);
    });
}

/// What is printed stands nowhere; what goes wrong with it stands where it was made.
#[test]
fn a_failed_tensor_is_printed_with_the_users_line() {
    let (session, _) = gt::reference::Reference::session();
    let _entered = session.enter();
    let line = line!() + 1;
    let large = zeros(&[2000]) + 1.0;
    session.close();
    let printed = format!("{large}");
    assert!(printed.contains("the session is closed"), "{printed}");
    assert!(printed.contains(&format!("mistakes.rs:{line}:")), "{printed}");
}

#[test]
fn a_model_is_printed_with_all_its_parameters() {
    #[derive(Module)]
    struct Net {
        #[module(init = Tensor::zeros().requires_grad())]
        scale: T![3, 2],
        up: ConvTranspose2d<N<3>, N<6>>,
        grouped: Conv2d<N<6>, N<4>>,
    }
    run(|| {
        let groups = |groups| Convolution { groups, ..Default::default() };
        let net = Net {
            scale: Tensor::zeros().requires_grad(),
            up: ConvTranspose2d::with_kernel([2, 2], groups(1)),
            grouped: Conv2d::with_kernel([3, 3], groups(2)),
        };
        let want = "\
Net                                          196 parameters
  scale: f32[3,2]                              6
  up: ConvTranspose2d(3 x 6, kernel [2, 2])   78
  grouped: Conv2d(6 x 4, kernel [3, 3])      112";
        // 6, then 3 * 6 * 4 + 6, then 4 * 3 * 9 + 4.
        assert_eq!(net.summary(), want);
    });
}

/// A mapped function runs for one example: a layer in training would learn of no other.
#[test]
fn a_mapped_layer_changes_no_state() {
    run(|| {
        let mut norm = BatchNorm::<N<2>>::new();
        let x = DynTensor::ones([3, 4, 2], DType::F32);
        let state = |norm: &BatchNorm<N<2>>| -> Vec<String> {
            norm.named_tensors().iter().map(|(name, x)| format!("{name} {x}")).collect()
        };
        let before = state(&norm);
        let error = autograd::vmap(|x| norm.forward(&x[0]), &[&x]).unwrap_err();
        assert_eq!(error.message(), "vmap: the function sets a buffer, f32[2]");
        assert_eq!(state(&norm), before);
        norm.eval();
        autograd::vmap(|x| norm.forward(&x[0]), &[&x]).unwrap();
    });
}
