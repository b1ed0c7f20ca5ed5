//! Mistakes that types cannot see: the next read fails, names the operation and the shapes by their names, and points at the user's line.

use gt::functional::{Convolution, CrossEntropy};
use gt::prelude::*;

use crate::run;

dims! { Batch, Seq }

/// The message of a read of what this gives, once it is sure that the error points at this line and has eight lines at most.
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
