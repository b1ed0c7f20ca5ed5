//! Functions made of others against PyTorch: the values and gradients that
//! `tests/fixtures/make.py` computed with it.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use gt::prelude::*;
use serde_json::Value;

use crate::run;

fn numbers(value: &Value) -> Vec<f64> {
    let number = |v: &Value| v.as_f64().unwrap_or_else(|| v.as_str().unwrap().parse().unwrap());
    value.as_array().unwrap().iter().map(number).collect()
}

#[track_caller]
fn close(got: &DynTensor, want: &[f64], what: &str) {
    let got: Vec<f64> = got.to_dtype(DType::F64).to_vec().unwrap();
    let near = |(g, w): (&f64, &f64)| {
        g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= 1e-12 + 1e-9 * w.abs()
    };
    let fits = got.len() == want.len() && got.iter().zip(want).all(near);
    assert!(fits, "{what}: {got:?} is not {want:?}");
}

#[test]
fn special_functions_and_their_gradients_are_pytorchs() {
    type Unary = fn(&DynTensor) -> DynTensor;
    type Binary = fn(&DynTensor, &DynTensor) -> DynTensor;
    let unary: [(&str, Unary); 12] = [
        ("asin", DynTensor::asin),
        ("acos", DynTensor::acos),
        ("sinh", DynTensor::sinh),
        ("cosh", DynTensor::cosh),
        ("asinh", DynTensor::asinh),
        ("acosh", DynTensor::acosh),
        ("atanh", DynTensor::atanh),
        ("erfc", DynTensor::erfc),
        ("erfinv", DynTensor::erfinv),
        ("lgamma", DynTensor::lgamma),
        ("digamma", DynTensor::digamma),
        ("logit", DynTensor::logit),
    ];
    let binary: [(&str, Binary); 3] = [
        ("logaddexp", |x, y| x.logaddexp(y)),
        ("hypot", |x, y| x.hypot(y)),
        ("xlogy", DynTensor::xlogy),
    ];
    let data: Value = serde_json::from_str(include_str!("../fixtures/special.json")).unwrap();
    let tensor = |value: &Value| {
        let all = numbers(value);
        let n = all.len();
        DynTensor::from_vec(all, [n])
    };
    run(|| {
        for (name, f) in unary {
            let x = tensor(&data[name]["x"]).requires_grad();
            let y = f(&x);
            y.sum(..).backward().unwrap();
            close(&y, &numbers(&data[name]["y"]), name);
            // PyTorch's trigamma has eight digits, and is a large number at a pole.
            if name != "digamma" {
                let grad = numbers(&data[name]["grad"]);
                close(&x.grad().unwrap(), &grad, &format!("{name}'s gradient"));
            }
        }
        for (name, f) in binary {
            let (x, other) =
                (tensor(&data[name]["x"]).requires_grad(), tensor(&data[name]["other"]));
            let y = f(&x, &other);
            y.sum(..).backward().unwrap();
            close(&y, &numbers(&data[name]["y"]), name);
            // Equal infinities share the gradient of `logaddexp`, which is NaN in PyTorch.
            let (got, want) = (x.grad().unwrap(), numbers(&data[name]["grad"]));
            let known = want.iter().map(|w| !w.is_nan()).collect::<Vec<bool>>();
            let n = known.len();
            let got = DynTensor::from_vec(known, [n]).where_(&got, f64::NAN);
            close(&got, &want, &format!("{name}'s gradient"));
        }
    });
}

/// Integers become floats, and halves stay halves.
#[test]
fn special_functions_keep_floats() {
    run(|| {
        assert_eq!(DynTensor::from([1i64, 2]).lgamma().dtype(), DType::F32);
        assert_eq!(DynTensor::ones([2], DType::Bf16).asinh().dtype(), DType::Bf16);
        assert_eq!(DynTensor::from([3i64]).hypot(4).to_vec::<f32>().unwrap(), [5.0]);
    });
}

#[test]
fn ranking_counting_and_products_are_pytorchs() {
    let data: Value = serde_json::from_str(include_str!("../fixtures/ranking.json")).unwrap();
    let check = |name: &str, got: &[DynTensor]| {
        let want = data[name].as_array().unwrap();
        assert_eq!(got.len(), want.len(), "{name}");
        for (k, (got, want)) in got.iter().zip(want).enumerate() {
            let what = format!("{name} {k}");
            let sizes: Vec<f64> = got.sizes().iter().map(|&n| n as f64).collect();
            assert_eq!(sizes, numbers(&want[0]), "{what}: {:?}", got.error());
            close(got, &numbers(&want[1]), &what);
        }
    };
    run(|| {
        let x = [[3.0, -1.0, f64::NAN, 2.0], [5.0, 5.0, 1.0, 7.0], [-2.0, 0.5, -2.0, 4.0]];
        let x = DynTensor::from(x);
        let y = DynTensor::from([[0.5, 2.0, -1.0], [1.0, -3.0, 2.0]]);
        let z = DynTensor::from([[1.0, 4.0, 0.0], [-2.0, 0.5, 3.0]]);
        let i = DynTensor::from([3i64, 1, 0, 3, 3, 1]);
        let edges = DynTensor::from([-1.0, 0.0, 0.5, 0.5, 2.0]);
        let at = DynTensor::from([[-2.0, -1.0, 0.5], [0.6, 2.0, 3.0]]);
        let cube = DynTensor::arange(0.0, 24.0, 1.0, DType::F64).reshape([2, 3, 4]);
        let both = |(a, b): (DynTensor, DynTensor)| [a, b];
        check("cummax", &both(x.cummax(1)));
        check("cummax down", &both(x.cummax(0)));
        check("cummin", &both(x.cummin(1)));
        check("cummin down", &both(x.cummin(0)));
        let numbers = x.slice(1..);
        check("kthvalue", &[numbers.kthvalue(2, 1).0]);
        check("quantile", &[x.quantile(0.3, 1), numbers.quantile(1.0, 0)]);
        let weights = DynTensor::arange(0.0, 6.0, 1.0, DType::F64);
        check("bincount", &[i.bincount(5), i.bincount_with(&weights, 4)]);
        check("histc", &[numbers.histc(4, -1.0, 7.0)]);
        check("searchsorted", &[edges.searchsorted(&at, false), edges.searchsorted(&at, true)]);
        let found = i.unique().unwrap();
        let gaps = DynTensor::from([1.0, 2.0, f64::NAN, f64::NAN]);
        let unsure = DynTensor::from([f64::NAN, 1.0, 5.0]);
        let places = [gaps.searchsorted(&unsure, false), gaps.searchsorted(&unsure, true)];
        check("searchsorted nan", &places);
        check("unique", &[found.values, found.inverse, found.counts]);
        let diagonals: Vec<DynTensor> =
            [-3, -2, -1, 0, 1, 2, 3, 4].iter().map(|&k| cube.diagonal(k)).collect();
        check("diagonal", &diagonals);
        check("trace", &[y.slice((.., ..2)).trace()]);
        check("mode", &both(numbers.mode(1)));
        check("mode down", &both(numbers.mode(0)));
        let to = DynTensor::from([[2i64, 0, 2, 2, 2], [1, 1, 0, 1, 3]]);
        let src = DynTensor::from([[-1.0, 3.0, 0.5, 8.0, 0.0], [2.0, 5.0, -5.0, 5.0, 7.0]]);
        use gt::functional::ScatterReduce::{Amax, Amin, Mean, Prod, Sum};
        let all = [Sum, Prod, Mean, Amax, Amin].into_iter().flat_map(|how| {
            [true, false].map(|own| numbers.scatter_reduce(1, &to, &src, how, own))
        });
        check("scatter_reduce", &all.collect::<Vec<_>>());
        check("cross", &[y.cross(&z, 1)]);
        check("kron", &[y.kron(&z), cube.kron(&y)]);
        check(
            "tensordot",
            &[cube.tensordot(&y, &[1], &[1]), cube.tensordot(&cube, &[0, -1], &[0, 2])],
        );
        check("cdist", &[y.cdist(&z, 2.0), y.cdist(&z, 1.0)]);
        check("tile", &[y.tile([2]), y.tile([3, 1, 2])]);
        let (rows, columns) = (DynTensor::from([0i64, -1, 0]), DynTensor::from([2i64, 1, 2]));
        let two = |list: &DynTensor| list.narrow(0, 0, 2);
        check(
            "index_put",
            &[
                y.index_put(&[&two(&rows), &two(&columns)], &DynTensor::from([9.0, 8.0])),
                y.index_put_accumulate(&[&rows, &columns], &DynTensor::from(1.5)),
                y.index_put(&[&two(&rows)], &DynTensor::from([7.0, 8.0, 9.0])),
            ],
        );
        check("unbind", &cube.unbind(1));
        let near = |a: &DynTensor, b: &DynTensor| a.isclose(b, 1e-5, 1e-8);
        check("isclose", &[near(&y, &z), near(&y, &(&y + 1e-9)), near(&x, &x)]);
        let (few, many) = (DynTensor::from([3u8, 250, 7]), DynTensor::from([4u8, 7, 7]));
        check("isclose whole", &[few.isclose(&many, 1e-5, 1.0)]);
        let truth = DynTensor::from([true, false]);
        let same = truth.isclose(&DynTensor::from([true, true]), 0.0, 0.0);
        assert_eq!(same.to_vec::<bool>().unwrap(), [true, false]);
        assert_eq!(y.allclose(&y, 0.0, 0.0).to_vec::<bool>().unwrap(), [true]);
    });
}

#[test]
fn what_cannot_be_ranked_says_why() {
    run(|| {
        let x = DynTensor::ones([2, 4], DType::F32);
        let message = |y: &DynTensor| y.error().map(|e| e.message().to_owned()).unwrap_or_default();
        assert_eq!(
            message(&x.kthvalue(5, 1).0),
            "kthvalue: there is no element 5 along axis 1 of f32[2,4]"
        );
        assert_eq!(message(&x.quantile(1.5, 0)), "quantile: the share 1.5 of axis 0 of f32[2,4]");
        assert_eq!(message(&x.searchsorted(&x, false)), "searchsorted: f32[2,4] is no vector");
        assert_eq!(
            message(&x.cross(&x, 1)),
            "cross: axis 1 of f32[2,4] and f32[2,4] is not 3 long"
        );
        let beyond = "axis 2 is out of range for f32[2,4]";
        assert_eq!(message(&x.quantile(0.5, 2)), format!("quantile: {beyond}"));
        assert_eq!(message(&x.kthvalue(1, 2).0), format!("kthvalue: {beyond}"));
        assert_eq!(message(&x.unbind(2)[0]), format!("unbind: {beyond}"));
        assert!(x.slice((.., ..0)).unbind(1).is_empty());
        assert_eq!(x.diagonal(i64::MIN).sizes(), [0]);
        assert!(message(&x.tensordot(&x, &[0], &[1])).starts_with("tensordot: axes [0]"));
        assert_eq!(message(&x.slice(0).diagonal(0)), "diagonal: f32[4] is no matrix");
        assert_eq!(message(&x.index_put(&[], &x)), "index_put: 0 lists of positions for f32[2,4]");
        assert_eq!(message(&x.histc(0, 0.0, 1.0)), "histc: 0 parts of 0 to 1");
    });
}

/// A position beyond its axis is no other element's.
#[test]
fn positions_beyond_an_axis_are_errors() {
    run(|| {
        let x = DynTensor::zeros([3, 4], DType::F32);
        let value = DynTensor::from([1.0f32]);
        let at = |i: i64| DynTensor::from([i]);
        for (row, column) in [(0, 4), (0, -5), (3, 0), (-4, 1), (1, 1 << 40)] {
            let both = [&at(row), &at(column)];
            assert!(x.index_put(&both, &value).to_vec::<f32>().is_err(), "{row} {column}");
            let sum = x.index_put_accumulate(&both, &value);
            assert!(sum.to_vec::<f32>().is_err(), "{row} {column}");
        }
        assert!(x.index_put(&[&at(-4)], &value.expand([1, 4])).to_vec::<f32>().is_err());
        let large = DynTensor::zeros([2, 300], DType::F32);
        let far = large.index_put(&[&DynTensor::from([1u8]), &DynTensor::from([200u8])], &value);
        assert_eq!(far.slice((1, 200)).item().unwrap(), 1.0);
    });
}

/// `f32` at its ends, and halves, are as `f64` rounded.
#[test]
fn special_functions_use_all_of_a_float() {
    run(|| {
        type Pair = (&'static str, fn(&DynTensor) -> DynTensor, fn(f64) -> f64);
        let functions: [Pair; 4] = [
            ("sinh", DynTensor::sinh, f64::sinh),
            ("cosh", DynTensor::cosh, f64::cosh),
            ("asinh", DynTensor::asinh, f64::asinh),
            ("acosh", DynTensor::acosh, f64::acosh),
        ];
        for (name, f, want) in functions {
            let hyperbolic = !name.starts_with('a');
            let x: Vec<f32> = match hyperbolic {
                true => vec![89.0, 1e-3, 20.0],
                false => vec![2e38, 1.001, 1e10, 2e10],
            };
            let got: Vec<f32> = f(&DynTensor::from_vec(x.clone(), [x.len()])).to_vec().unwrap();
            for (x, got) in x.iter().zip(got) {
                let want = want(f64::from(*x));
                let near = (f64::from(got) - want).abs() <= 3e-6 * want.abs();
                assert!(near, "{name} of {x} is {want}, not {got}");
            }
        }
        let x = DynTensor::from([1e-4f32]).requires_grad();
        x.cosh().sum(..).backward().unwrap();
        let slope = x.grad().unwrap().item().unwrap();
        assert!((slope - 1e-4).abs() < 1e-10, "{slope}");
        // A sum of squares beyond the range of halves, and of logarithms that differ by less than
        // a half tells.
        let half = |x: f32| DynTensor::full([1], x, DType::F16);
        let value = |x: DynTensor| x.to_dtype(DType::F64).to_vec::<f64>().unwrap()[0];
        assert_eq!(value(half(8.0).logaddexp(&half(1.0))), value(half(8.000_911)));
        let (x, y) = (half(3.1), half(0.1));
        let want =
            value(x.to_dtype(DType::F32).xlogy(&y.to_dtype(DType::F32)).to_dtype(DType::F16));
        assert_eq!(value(x.xlogy(&y)), want);
        assert_eq!(half(3.0).hypot(4).dtype(), DType::F16);
    });
}
