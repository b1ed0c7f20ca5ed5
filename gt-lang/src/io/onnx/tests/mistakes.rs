//! What is refused, at which line, and names that meet.

use super::super::{OnnxConfig, export, to_bytes};
use super::cases::{decoded, run};
use super::text::text;
use crate::error::Error;
use crate::linalg;
use crate::prelude::*;

/// The error of a function of a matrix.
fn refused(f: impl FnOnce(&DynTensor) -> DynTensor) -> Error {
    let x = DynTensor::ones([2, 2], DType::F32);
    to_bytes((&x,), |(x,)| f(&x), &OnnxConfig::default()).unwrap_err()
}

fn check(error: &Error, message: &str, hint: &str) {
    assert_eq!(error.message(), message);
    assert!(error.cure().is_some_and(|cure| cure.contains(hint)), "{error}");
    assert!(error.loc().file().ends_with("tests/mistakes.rs"), "{error}");
}

#[test]
fn what_has_no_operator_is_named() {
    run(|| {
        let error = refused(|x| linalg::cholesky(x) * 2.0);
        check(&error, "onnx: there is no operator for cholesky", "outside of the function");
        let error = refused(|x| x.dropout(0.5));
        let message = "onnx: there is no operator for dropout, which is made of rand";
        check(&error, message, "`eval`");
        let error = refused(|x| x + DynTensor::randn([2, 2], DType::F32));
        check(&error, "onnx: there is no operator for randn", "`eval`");
        // What the results do not need is not written.
        let x = DynTensor::ones([2, 2], DType::F32);
        let unused = |x: &DynTensor| (x.dropout(0.5), x.exp()).1;
        assert!(to_bytes((&x,), |(x,)| unused(&x), &OnnxConfig::default()).is_ok());
    });
}

#[test]
fn functions_that_read_or_fail_are_refused() {
    run(|| {
        let x = DynTensor::ones([2, 2], DType::F32);
        let reads = |x: DynTensor| x.to_vec::<f32>().map(|values| x * values[0]);
        let error = to_bytes((&x,), |(x,)| reads(x), &OnnxConfig::default()).unwrap_err();
        check(&error, "onnx: the function reads f32[2,2]", "`where_`");
        let error = refused(|x| x.matmul(&DynTensor::ones([3], DType::F32)));
        assert!(error.message().starts_with("matmul: "), "{error}");
        let failed = DynTensor::zeros([2], DType::F32) + DynTensor::zeros([3], DType::F32);
        let error = to_bytes((&failed,), |(x,)| x, &OnnxConfig::default()).unwrap_err();
        assert!(error.message().starts_with("add: "), "{error}");
        let names = OnnxConfig { input_names: vec!["a".into(), "b".into()], ..Default::default() };
        let error = to_bytes((&x,), |(x,)| x, &names).unwrap_err();
        check(&error, "onnx: 2 names of inputs, of which there are 1", "each input");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.onnx");
        export(&path, (&x,), |(x,)| linalg::cholesky(&x)).unwrap_err();
        assert!(!path.exists());
        let error = export(folder.path().join("a/b"), (&x,), |(x,)| x).unwrap_err();
        assert!(error.message().contains("there is no folder"), "{error}");
    });
}

const NAMES: &str = "\
ir 9, opset 20, gt
input input_0 f32[2,2]
input input_1 i32[]
input_0_2 f32[2]
output_1 = Cast(input_1) to=1
Add_1 = Add(input_0, input_0_2)
c = Mul(Add_1, output_1)
output_2 = Identity(input_0)
output_3 = Identity(input_0_2)
Identity_3 = Identity(c)
output c f32[2,2]
output output_1 f32[]
output output_2 f32[2,2]
output output_3 f32[2]
output Identity_3 f32[2,2]
";

#[test]
fn names_are_different() {
    run(|| {
        let (x, n) = (DynTensor::ones([2, 2], DType::F32), DynTensor::from(3i32));
        let held = DynTensor::ones([2], DType::F32);
        let config = OnnxConfig {
            output_names: ["c", "", "", "", "Identity_3"].map(str::to_owned).to_vec(),
            tensors: vec![("input_0".into(), held.clone())],
            ..OnnxConfig::default()
        };
        let f = |(x, n): (DynTensor, DynTensor)| {
            let n = n.to_dtype(DType::F32);
            let sum = (&x + &held) * &n;
            vec![sum.clone(), n, x, held.clone(), sum]
        };
        let bytes = to_bytes((&x, &n), f, &config).unwrap();
        assert_eq!(text(&decoded(&bytes)), NAMES);
    });
}
