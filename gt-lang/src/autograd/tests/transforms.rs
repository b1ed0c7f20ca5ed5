//! Functions over batches against the same function example by example, for every op that has a
//! gradient case; derivatives against known ones and against each other.

use gt_ir::DType;

use super::Rng;
use super::differences::{Case, cases, inputs, weighted};
use crate::autograd::{Graph, grad, grad_with, hessian, jacobian, jvp, vjp, vmap};
use crate::core::DynTensor;
use crate::error::Result;
use crate::reference::Reference;

const EXAMPLES: usize = 3;

pub(super) fn run(test: impl FnOnce()) {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    test();
}

pub(super) fn list(x: &DynTensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec().unwrap()
}

#[track_caller]
pub(super) fn close(got: &DynTensor, want: &DynTensor, what: &str) {
    assert_eq!(got.sizes(), want.sizes(), "{what}: {:?} {:?}", got.error(), want.error());
    let (got, want) = (list(got), list(want));
    let near = |(g, w): (&f64, &f64)| g == w || (g - w).abs() <= 1e-9 * (1.0 + w.abs());
    assert!(got.iter().zip(&want).all(near), "{what}: {got:?} is not {want:?}");
}

/// The function's value and gradients for one example.
fn slopes(case: &Case, x: &[DynTensor]) -> Result<Vec<DynTensor>> {
    let leaves: Vec<DynTensor> = x.iter().map(|x| x.detach().requires_grad()).collect();
    grad(&weighted(&(case.f)(&leaves)), &leaves.iter().collect::<Vec<_>>())
}

#[test]
fn every_op_over_a_batch_is_the_op_on_each_example() {
    run(|| {
        let mut rng = Rng::new(3);
        for case in cases(&mut rng) {
            let examples: Vec<Vec<DynTensor>> =
                (0..EXAMPLES).map(|_| inputs(&case, &mut rng)).collect();
            let whole: Vec<DynTensor> = (0..case.inputs.len())
                .map(|i| DynTensor::stack(examples.iter().map(|x| &x[i]), 0))
                .collect();
            let all: Vec<&DynTensor> = whole.iter().collect();
            let got = vmap(&case.f, &all).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            close(&got, &DynTensor::stack(examples.iter().map(|x| (case.f)(x)), 0), &case.name);

            // The first input alone is one for each example.
            let (first, others) = (&examples[0], &whole[..1]);
            let with = |x: &DynTensor| [std::slice::from_ref(x), &first[1..]].concat();
            let got = vmap(|x| (case.f)(&with(&x[0])), &[&others[0]]);
            let got = got.unwrap_or_else(|e| panic!("{}, first alone: {e}", case.name));
            let want = examples.iter().map(|x| (case.f)(&with(&x[0])));
            close(&got, &DynTensor::stack(want, 0), &format!("{}, first alone", case.name));

            // A gradient for each example.
            for i in 0..case.inputs.len() {
                let got = vmap(|x| slopes(&case, x).map(|g| g[i].clone()), &all);
                let got = got.unwrap_or_else(|e| panic!("{}'s gradient: {e}", case.name));
                let want = examples.iter().map(|x| slopes(&case, x).unwrap().remove(i));
                close(&got, &DynTensor::stack(want, 0), &format!("{}'s gradient {i}", case.name));
            }
        }
    });
}

#[test]
fn positions_may_differ_from_example_to_example() {
    run(|| {
        let mut rng = Rng::new(5);
        let table = DynTensor::from_vec((0..24).map(f64::from).collect(), [2, 4, 3]);
        let places = rng.index(4, &[2, 5]);
        let each = |f: &dyn Fn(&DynTensor, &DynTensor) -> DynTensor| {
            DynTensor::stack((0..2).map(|i| f(&table.slice(i), &places.slice(i))), 0)
        };
        type Picks = fn(&DynTensor, &DynTensor) -> DynTensor;
        let picks: [(&str, Picks); 5] = [
            ("rows", |x, at| x.index_select(0, at)),
            ("columns", |x, at| x.t().index_select(1, at)),
            ("gather", |x, at| x.gather(0, &at.reshape([5, 1]).expand([5, 3]))),
            ("index_add", |x, at| x.index_add(0, at, &DynTensor::ones([5, 3], DType::F64))),
            ("slice", |x, at| x.slice((at, 1))),
        ];
        for (name, f) in picks {
            let got = vmap(|x| f(&x[0], &x[1]), &[&table, &places]).unwrap();
            close(&got, &each(&f), name);
            // One table for all.
            let first = table.slice(0);
            let got = vmap(|at| f(&first, &at[0]), &[&places]).unwrap();
            let want = DynTensor::stack((0..2).map(|i| f(&first, &places.slice(i))), 0);
            close(&got, &want, &format!("{name} of one table"));
            let at = places.slice(0);
            let got = vmap(|x| f(&x[0], &at), &[&table]).unwrap();
            let want = DynTensor::stack((0..2).map(|i| f(&table.slice(i), &at)), 0);
            close(&got, &want, &format!("{name} at the same places"));
        }
    });
}

#[test]
fn gradients_flow_through_a_batch() {
    run(|| {
        let x = DynTensor::from([[1.0, 2.0], [3.0, 4.0]]).requires_grad();
        let w = DynTensor::from([0.5, -1.0]).requires_grad();
        let loss = |x: &DynTensor, w: &DynTensor| (x * w).tanh().sum(..);
        let y = vmap(|x| loss(&x[0], &w), &[&x]).unwrap();
        let grads = grad(&y.sum(..), &[&x, &w]).unwrap();
        let want = grad(&(&x * &w).tanh().sum(..), &[&x, &w]).unwrap();
        close(&grads[0], &want[0], "of the inputs");
        close(&grads[1], &want[1], "of what the function holds");

        // Over two axes, and of gradients.
        let nested = vmap(|rows| vmap(|x| x[0].sin() * x[0].sum(..), &[&rows[0]]), &[&x]).unwrap();
        close(&nested, &(x.sin() * &x), "nested");
        let slope = |x: &[DynTensor]| {
            let leaf = x[0].detach().requires_grad();
            grad_with(&leaf.pow(3).sum(..), None, &[&leaf], Graph::Create)
                .and_then(|g| grad(&g[0].sum(..), &[&leaf]))
                .map(|g| g[0].clone())
        };
        close(&vmap(slope, &[&x]).unwrap(), &(&x * 6.0), "second derivatives");
    });
}

#[test]
fn what_cannot_be_mapped_says_why() {
    run(|| {
        let (x, y) = (DynTensor::ones([2, 3], DType::F64), DynTensor::ones([3], DType::F64));
        let message = |result: Result<DynTensor>| result.unwrap_err().message().to_owned();
        assert_eq!(
            message(vmap(|x| x[0].clone(), &[&x, &y])),
            "vmap: no number of examples is common to f64[2,3] and f64[3]"
        );
        assert!(
            message(vmap(|_| DynTensor::ones([1], DType::F64), &[])).starts_with("vmap: no number")
        );
        assert_eq!(
            message(vmap(|x| x[0].sum(..).item().map(|s| &x[0] * s), &[&x])),
            "vmap: the function reads f64[]"
        );
        assert!(message(vmap(|x| x[0].matmul(&x[0].slice(0)), &[&x])).starts_with("matmul: "));
        // What does not depend on an example is the same for all.
        let same = vmap(|_| DynTensor::from([1.0, 2.0]), &[&x]).unwrap();
        assert_eq!(list(&same), [1.0, 2.0, 1.0, 2.0]);
    });
}

/// `[sin(x0) x1, x0^2, x1]`, and its derivatives.
fn curve(x: &DynTensor) -> DynTensor {
    let (a, b) = (x.slice(0), x.slice(1));
    DynTensor::stack([a.sin() * &b, a.square(), b], 0)
}

#[test]
fn jacobians_and_hessians_are_the_known_matrices() {
    run(|| {
        let x = DynTensor::from([0.5, 2.0]);
        let (sine, cosine) = (0.5_f64.sin(), 0.5_f64.cos());
        let want = DynTensor::from([[2.0 * cosine, sine], [1.0, 0.0], [0.0, 1.0]]);
        close(&jacobian(curve, &x).unwrap(), &want, "jacobian");
        let along = jvp(|x| curve(&x[0]), &[&x], &[&DynTensor::from([1.0, -3.0])]).unwrap();
        close(&along.0, &curve(&x), "value");
        close(&along.1, &want.matmul(&DynTensor::from([1.0, -3.0])), "jvp");
        let seed = DynTensor::from([1.0, 2.0, 3.0]);
        let back = vjp(|x| curve(&x[0]), &[&x], &seed).unwrap().1;
        close(&back[0], &seed.matmul(&want), "vjp");

        let f = |x: &DynTensor| curve(x).slice(0);
        let want = DynTensor::from([[-2.0 * sine, cosine], [cosine, 0.0]]);
        close(&hessian(f, &x).unwrap(), &want, "hessian");
        let mixed = jacobian(|x| jacobian(f, x), &x).unwrap();
        close(&mixed, &want, "jacobian of a jacobian");
        // A hessian for each example.
        let batch = DynTensor::from([[0.5, 2.0], [1.0, -1.0]]);
        let each = vmap(|x| hessian(f, &x[0]), &[&batch]).unwrap();
        let apart = (0..2).map(|i| hessian(f, &batch.slice(i)).unwrap());
        close(&each, &DynTensor::stack(apart, 0), "hessians of a batch");
        let error = hessian(curve, &x).unwrap_err();
        assert_eq!(error.message(), "hessian: the function's value is f64[3]");
        let error = jvp(|x| x[0].exp(), &[&x], &[]).unwrap_err();
        assert_eq!(error.message(), "jvp: the inputs are f64[2], the tangents ");
    });
}

/// A loss made of derivatives by `x` trains a parameter.
#[test]
fn derivatives_have_gradients() {
    run(|| {
        let (x, w) = (DynTensor::from([0.3, 0.7]), DynTensor::from(2.0).requires_grad());
        let f = |x: &DynTensor| (&w * x.square()).sum(..);
        let penalty = hessian(f, &x).unwrap().sum(..); // 4 w
        penalty.backward().unwrap();
        close(&w.grad().unwrap(), &DynTensor::from(4.0), "of a hessian");
        let (_, along) = jvp(|x| f(&x[0]), &[&x], &[&DynTensor::from([1.0, 1.0])]).unwrap();
        let slope = grad(&along, &[&w]).unwrap(); // 2 (x0 + x1)
        close(&slope[0], &DynTensor::from(2.0), "of a derivative");
        let x = x.requires_grad();
        let matrix = jacobian(|x| x.pow(3), &x).unwrap();
        let slope = grad(&matrix.sum(..), &[&x]).unwrap();
        close(&slope[0], &(&x * 6.0).detach(), "of a jacobian by its input");
    });
}
