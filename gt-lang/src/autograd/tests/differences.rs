//! Gradients against finite differences, op by op on random shapes.

mod cases;
mod complex;
mod matrices;
mod rows;

use std::collections::BTreeSet;

use gt_ir::op::Grad;
use gt_ir::{DType, OpKind};

use super::Rng;
use crate::core::DynTensor;
use crate::reference::Reference;

/// Numbers an op is smooth on.
#[derive(Clone, Copy)]
pub(super) enum Domain {
    Any,
    /// In `[0.3, 2)`.
    Positive,
    /// No closer to zero than 0.2.
    NotZero,
}

pub(super) struct Input {
    pub(super) shape: Vec<usize>,
    pub(super) domain: Domain,
}

type Function = dyn Fn(&[DynTensor]) -> DynTensor;

pub(super) struct Case {
    pub(super) name: String,
    pub(super) inputs: Vec<Input>,
    pub(super) f: Box<Function>,
    /// Distance of the finite difference, and the error allowed.
    pub(super) eps: f64,
    pub(super) tolerance: f64,
}

pub(super) fn case(
    name: impl Into<String>,
    inputs: &[(&[usize], Domain)],
    f: impl Fn(&[DynTensor]) -> DynTensor + 'static,
) -> Case {
    let inputs = inputs
        .iter()
        .map(|(shape, domain)| Input { shape: shape.to_vec(), domain: *domain })
        .collect();
    Case { name: name.into(), inputs, f: Box::new(f), eps: 1e-5, tolerance: 1e-6 }
}

/// `sum(f(x) * c)` with fixed, unequal weights `c`, so that errors do not cancel.
pub(super) fn weighted(out: &DynTensor) -> DynTensor {
    let n = out.numel();
    let weights: Vec<f64> = (0..n).map(|i| 0.5 + ((i * 7) % 5) as f64 * 0.3).collect();
    out.reshape([n]).mul(&DynTensor::from_vec(weights, [n])).sum(..)
}

/// Numbers for each input of a case.
fn points(case: &Case, rng: &mut Rng) -> Vec<Vec<f64>> {
    let mut points: Vec<Vec<f64>> = Vec::new();
    for input in &case.inputs {
        let n: usize = input.shape.iter().product();
        points.push(
            (0..n)
                .map(|_| match input.domain {
                    Domain::Any => rng.uniform(-1.5, 1.5),
                    Domain::Positive => rng.uniform(0.3, 2.0),
                    Domain::NotZero => {
                        rng.uniform(0.2, 1.5) * if rng.below(2) == 0 { 1.0 } else { -1.0 }
                    }
                })
                .collect(),
        );
    }
    points
}

/// The inputs of a case.
pub(super) fn tensors(case: &Case, points: &[Vec<f64>]) -> Vec<DynTensor> {
    let inputs = points.iter().zip(&case.inputs);
    inputs.map(|(p, input)| DynTensor::from_vec(p.clone(), input.shape.as_slice())).collect()
}

/// Random inputs of a case.
pub(super) fn inputs(case: &Case, rng: &mut Rng) -> Vec<DynTensor> {
    tensors(case, &points(case, rng))
}

pub(super) fn check(case: &Case, rng: &mut Rng) {
    let points = points(case, rng);
    let tensors = |points: &[Vec<f64>]| tensors(case, points);
    let leaves: Vec<DynTensor> = tensors(&points).iter().map(DynTensor::requires_grad).collect();
    let loss = weighted(&(case.f)(&leaves));
    loss.backward().unwrap_or_else(|e| panic!("{}: {e}", case.name));
    for (i, leaf) in leaves.iter().enumerate() {
        let Some(grad) = leaf.grad() else { panic!("{}: no gradient of input {i}", case.name) };
        assert_eq!(grad.ty(), leaf.ty(), "{}", case.name);
        let grad: Vec<f64> = grad.to_vec().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        for j in 0..points[i].len() {
            let at = |delta: f64| {
                let mut moved = points.clone();
                moved[i][j] += delta;
                weighted(&(case.f)(&tensors(&moved))).item().unwrap()
            };
            let want = (at(case.eps) - at(-case.eps)) / (2.0 * case.eps);
            let close = (grad[j] - want).abs() <= case.tolerance * (1.0 + want.abs());
            assert!(
                close,
                "{}: input {i} element {j}: {} but differences say {want}",
                case.name, grad[j]
            );
        }
    }
}

pub(super) fn cases(rng: &mut Rng) -> Vec<Case> {
    let mut cases = cases::pointwise(rng);
    cases.extend(cases::reductions());
    cases.extend(cases::movements(rng));
    cases.extend(rows::cases(rng));
    cases.extend(matrices::cases());
    cases.extend(matrices::transforms());
    cases.extend(complex::cases());
    cases
}

#[test]
fn gradients_agree_with_finite_differences() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    for seed in 0..3 {
        let mut rng = Rng::new(seed);
        for case in cases(&mut rng) {
            check(&case, &mut rng);
        }
    }
}

#[test]
fn every_differentiable_op_is_checked() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    session.start_trace();
    let mut rng = Rng::new(7);
    for case in cases(&mut rng) {
        let inputs: Vec<DynTensor> =
            case.inputs.iter().map(|i| DynTensor::ones(i.shape.as_slice(), DType::F64)).collect();
        assert_eq!((case.f)(&inputs).error(), None, "{}", case.name);
    }
    let seen: BTreeSet<OpKind> = session.stop_trace().instrs().map(|i| i.op.kind()).collect();
    // Its gradient is its own forward pass, which differs from call to call: a test by itself.
    let apart = |k: &&OpKind| **k != OpKind::Dropout;
    let differentiable =
        OpKind::ALL.iter().filter(|k| !matches!(k.spec().grad, Grad::Zero)).filter(apart);
    let missing: Vec<&str> =
        differentiable.filter(|k| !seen.contains(k)).map(|k| k.name()).collect();
    assert_eq!(missing, Vec::<&str>::new(), "no gradient case");
}
