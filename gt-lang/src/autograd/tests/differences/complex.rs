//! Gradient cases of complex numbers, which are pairs: both parts of all results, by both parts of
//! all inputs.

use super::{Case, Domain, DynTensor, case};
use crate::complex::{Complex, ComplexTensor};

type Unary = fn(&ComplexTensor) -> ComplexTensor;
type Real = fn(&ComplexTensor) -> DynTensor;
type Binary = fn(&ComplexTensor, &ComplexTensor) -> ComplexTensor;

pub(super) fn cases() -> Vec<Case> {
    let unary: [(&str, Unary); 22] = [
        ("exp", ComplexTensor::exp),
        ("log", ComplexTensor::log),
        ("sqrt", ComplexTensor::sqrt),
        ("sin", ComplexTensor::sin),
        ("cos", ComplexTensor::cos),
        ("sinh", ComplexTensor::sinh),
        ("cosh", ComplexTensor::cosh),
        ("tanh", ComplexTensor::tanh),
        ("square", ComplexTensor::square),
        ("reciprocal", ComplexTensor::reciprocal),
        ("conj", ComplexTensor::conj),
        ("neg", ComplexTensor::neg),
        ("pow 5", |z| z.pow(5)),
        ("pow -2", |z| z.pow(-2)),
        ("pow 1.5", |z| z.pow(1.5)),
        ("pow 0.5-1i", |z| z.pow(Complex::new(0.5, -1.0))),
        ("a number by", |z| Complex::new(1.0, -2.0) / z),
        ("by a number", |z| (z - 1.0) * 2.0 / Complex::new(1.0, -2.0)),
        ("sum", |z| z.sum(0) + z.mean(-1).sum(..)),
        ("prod", |z| z.prod(-1)),
        ("polar", |z| ComplexTensor::polar(&z.abs(), &(z.angle() * 2.0))),
        ("transposed", |z| z.t().matmul(&z.conj())),
    ];
    let binary: [(&str, Binary); 6] = [
        ("add", |z, w| z + w),
        ("mul", |z, w| z * w),
        ("div", |z, w| z / w),
        ("real by", |z, w| z.real() / w + z * w.imag()),
        ("matmul", |z, w| z.matmul(&w.reshape([3, 1]))),
        ("pow", |z, w| z.pow(w)),
    ];
    let mut cases = Vec::new();
    for (name, f) in unary {
        let of = move |x: &[DynTensor]| f(&ComplexTensor::from_pairs(&x[0])).view_as_real();
        cases.push(case(format!("complex {name}"), &[(&[2, 3, 2], Domain::NotZero)], of));
    }
    for (name, f) in binary {
        let inputs: [(&[usize], Domain); 2] =
            [(&[2, 3, 2], Domain::NotZero), (&[3, 2], Domain::NotZero)];
        let of = move |x: &[DynTensor]| {
            let [z, w] = [0, 1].map(|i| ComplexTensor::from_pairs(&x[i]));
            f(&z, &w).view_as_real()
        };
        cases.push(case(format!("complex {name}"), &inputs, of));
    }
    let parts: [(&[usize], Domain); 2] = [(&[2, 3], Domain::Any), (&[3], Domain::Any)];
    cases.push(case("complex", &parts, |x| ComplexTensor::new(&x[0], &x[1]).view_as_real()));
    let real: [(&str, Real); 2] = [("abs", ComplexTensor::abs), ("angle", ComplexTensor::angle)];
    for (name, f) in real {
        let of = move |x: &[DynTensor]| f(&ComplexTensor::from_pairs(&x[0]));
        cases.push(case(format!("complex {name}"), &[(&[2, 3, 2], Domain::NotZero)], of));
    }
    cases
}
