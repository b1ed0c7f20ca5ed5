//! What is differentiated: the ops a user calls, on random shapes that broadcast, with numbers on
//! which they are smooth.

use gt_ir::attr::{Axis, Pad};
use gt_ir::{DType, Op};

use super::{Case, Domain, Rng, case};
use crate::core::{Arg, DynTensor, keepdim, step};

pub(super) fn pointwise(rng: &mut Rng) -> Vec<Case> {
    use Domain::*;
    type Unary = fn(&DynTensor) -> DynTensor;
    let unary: &[(&str, Domain, Unary)] = &[
        ("neg", Any, DynTensor::neg),
        ("abs", NotZero, DynTensor::abs),
        ("exp", Any, DynTensor::exp),
        ("log", Positive, DynTensor::log),
        ("sqrt", Positive, DynTensor::sqrt),
        ("rsqrt", Positive, DynTensor::rsqrt),
        ("sin", Any, DynTensor::sin),
        ("cos", Any, DynTensor::cos),
        ("tanh", Any, DynTensor::tanh),
        ("erf", Any, DynTensor::erf),
        ("sigmoid", Any, DynTensor::sigmoid),
        ("relu", NotZero, DynTensor::relu),
        ("gelu", Any, DynTensor::gelu),
        ("gelu_tanh", Any, DynTensor::gelu_tanh),
        ("square", Any, DynTensor::square),
        ("x + 2", Any, |x| x + 2.0),
        ("2 - x", Any, |x| 2 - x),
        ("x * 3", Any, |x| x * 3),
        ("2 / x", NotZero, |x| 2.0 / x),
        ("x / 3", Any, |x| x / 3),
        ("x ** 2", Any, |x| x.pow(2)),
        ("x ** 3.5", Positive, |x| x.pow(3.5)),
        ("x ** -1", NotZero, |x| x.pow(-1.0)),
        ("x ** 0", Any, |x| x.pow(0.0)),
        ("2 ** x", Any, |x| DynTensor::record(Op::Pow, &[Arg::from(2.0), Arg::Tensor(x)])),
        ("clamp", Any, |x| x.clamp(-0.5, 0.5)),
        ("x * x", Any, |x| x * x),
        ("where", Any, |x| x.lt(0.1).where_(&x.exp(), &(x * 2.0))),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for &(name, domain, f) in unary {
        cases.push(case(name, &[(&rng.shape(0), domain)], move |x| f(&x[0])));
    }
    type Binary = fn(&DynTensor, &DynTensor) -> DynTensor;
    let binary: &[(&str, Domain, Binary)] = &[
        ("add", Any, |x, y| x + y),
        ("sub", Any, |x, y| x - y),
        ("mul", Any, |x, y| x * y),
        ("div", NotZero, |x, y| x / y),
        ("pow", Positive, |x, y| x.pow(y)),
        ("maximum", Any, |x, y| x.maximum(y)),
        ("minimum", Any, |x, y| x.minimum(y)),
        ("where of two", Any, |x, y| x.sin().gt(0.0).where_(x, y)),
    ];
    for &(name, domain, f) in binary {
        for turn in 0..4 {
            let long = rng.shape(1);
            let short = rng.broadcasting(&long);
            let (a, b) = if turn % 2 == 0 { (&long, &short) } else { (&short, &long) };
            let name = format!("{name} {a:?} {b:?}");
            cases.push(case(name, &[(a, domain), (b, domain)], move |x| f(&x[0], &x[1])));
        }
    }
    cases
}

pub(super) fn reductions() -> Vec<Case> {
    use Domain::*;
    type Unary = fn(&DynTensor) -> DynTensor;
    let each: &[(&str, Unary)] = &[
        ("sum all", |x| x.sum(..)),
        ("sum", |x| x.sum(-1)),
        ("sum two, keep", |x| x.sum(keepdim([0, 2]))),
        ("mean all, keep", |x| x.mean(keepdim(..))),
        ("mean", |x| x.mean([1, 2])),
        ("max", |x| x.max(1)),
        ("max all", |x| x.max(..)),
        ("min, keep", |x| x.min(keepdim([0, -1]))),
        ("var", |x| x.var(-1)),
        ("softmax", |x| x.softmax(-1)),
        ("softmax of the first", |x| x.softmax(0)),
        ("log_softmax", |x| x.log_softmax(1)),
    ];
    let mut cases: Vec<Case> =
        each.iter().map(|&(name, f)| case(name, &[(&[2, 3, 2], Any)], move |x| f(&x[0]))).collect();
    for shape in [&[2_usize, 5][..], &[2, 2, 4]] {
        let width = shape[shape.len() - 1];
        let inputs: [(&[usize], Domain); 3] = [(shape, Any), (&[width], Any), (&[width], Any)];
        cases.push(case(format!("layer_norm {shape:?}"), &inputs, |x| {
            x[0].layer_norm(&x[1], &x[2], 1e-5)
        }));
    }
    let two: [(&[usize], Domain); 3] = [(&[2, 2, 3], Any), (&[2, 3], Any), (&[2, 3], Any)];
    cases.push(case("layer_norm over two axes", &two, |x| x[0].layer_norm(&x[1], &x[2], 1e-3)));
    let products: &[(&[usize], &[usize])] = &[
        (&[2, 3], &[3, 4]),
        (&[3], &[3]),
        (&[3], &[3, 2]),
        (&[2, 3], &[3]),
        (&[2, 2, 3], &[3, 2]),
        (&[2, 3], &[2, 3, 2]),
        (&[2, 1, 2, 3], &[3, 3, 2]),
        (&[2, 2, 3], &[3]),
        (&[3], &[2, 3, 2]),
    ];
    for &(a, b) in products {
        cases.push(case(format!("matmul {a:?} {b:?}"), &[(a, Any), (b, Any)], |x| {
            x[0].matmul(&x[1])
        }));
    }
    cases
}

pub(super) fn movements(rng: &mut Rng) -> Vec<Case> {
    use Domain::*;
    type Unary = fn(&DynTensor) -> DynTensor;
    let each: &[(&str, Unary)] = &[
        ("reshape", |x| x.reshape([4, -1])),
        ("flatten", |x| x.flatten(1, -1)),
        ("unsqueeze", |x| x.unsqueeze(1)),
        ("permute", |x| x.permute([2, 0, 1])),
        ("transpose", |x| x.transpose(0, -1)),
        ("expand", |x| x.unsqueeze(1).expand([-1, 3, -1, -1])),
        ("expand, new axes", |x| x.expand([2, 2, 3, 4])),
        ("slice", |x| x.slice((1, .., step(1.., 2)))),
        ("slice, negative", |x| x.slice((.., -2..-1, -1))),
        ("narrow", |x| x.narrow(2, 1, 2)),
        ("split", |x| &x.split(3, 2)[1] * 2.0),
        ("cat", |x| DynTensor::cat([x, &(x * 2.0), x], 1)),
        ("stack", |x| DynTensor::stack([x, x], -1)),
        ("pad", |x| {
            DynTensor::record(
                Op::Pad(Pad { axis: 1, lo: 1, hi: 2, interior: 1 }),
                &[Arg::Tensor(x), Arg::from(0)],
            )
        }),
    ];
    let mut cases: Vec<Case> =
        each.iter().map(|&(name, f)| case(name, &[(&[2, 3, 4], Any)], move |x| f(&x[0]))).collect();
    let index = rng.index(3, &[2, 2, 4]);
    cases.push(case("gather", &[(&[2, 3, 4], Any)], move |x| x[0].gather(1, &index)));
    let index = rng.index(3, &[2, 2]);
    cases.push(case("index_select", &[(&[2, 3, 4], Any)], move |x| x[0].index_select(1, &index)));
    let index = rng.index(4, &[5]);
    cases.push(case("embedding", &[(&[4, 2], Any)], move |x| x[0].embedding(&index)));
    let index = rng.index(3, &[4, 2]);
    let two: [(&[usize], Domain); 2] = [(&[3, 2], Any), (&[4, 2], Any)];
    cases.push(case("scatter_add", &two, move |x| {
        DynTensor::record(
            Op::ScatterAdd(Axis(0)),
            &[Arg::Tensor(&x[0]), Arg::Tensor(&index), Arg::Tensor(&x[1])],
        )
    }));
    let index = rng.index(3, &[4]);
    cases.push(case("index_add", &two, move |x| x[0].index_add(0, &index, &x[1])));
    let two: [(&[usize], Domain); 2] = [(&[2, 1], Any), (&[2, 3], Any)];
    cases.push(case("cat of two", &two, |x| DynTensor::cat([&x[0], &x[1]], -1)));
    let logits: [(&[usize], Domain); 1] = [(&[3, 4], Any)];
    let classes = rng.index(4, &[3]);
    cases.push(case("cross_entropy", &logits, move |x| {
        crate::functional::cross_entropy(&x[0], &classes)
    }));
    // Through a narrower float only coarse differences are visible.
    let cast = case("cast", &logits, |x| (x[0].to_dtype(DType::F32) * 3.0).to_dtype(DType::F64));
    cases.push(Case { eps: 0.1, tolerance: 1e-4, ..cast });
    cases
}
