//! Gradients of gradients against finite differences of gradients, op by op; functions with
//! gradients of their own; recomputation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::differences::{Case, Domain, case, cases, check, weighted};
use super::*;
use crate::autograd::{Graph, apply, checkpoint, custom, grad, grad_with, vjp};

/// A number that depends on all gradients of a case, with their history if they are to have
/// gradients.
fn slopes(case: &Case, inputs: &[DynTensor], graph: Graph) -> DynTensor {
    let loss = weighted(&(case.f)(inputs));
    let grads = grad_with(&loss, None, &inputs.iter().collect::<Vec<_>>(), graph);
    let grads = grads.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    // Squared, so that gradients of linear functions have slopes to check, too.
    grads.iter().map(|g| weighted(&(g.square() + g))).reduce(|a, b| a + b).expect("an input")
}

fn point(case: &Case, rng: &mut Rng) -> Vec<Vec<f64>> {
    let number = |rng: &mut Rng, domain| match domain {
        Domain::Positive => rng.uniform(0.3, 2.0),
        Domain::Any | Domain::NotZero => {
            rng.uniform(0.2, 1.5) * if rng.below(2) == 0 { 1.0 } else { -1.0 }
        }
    };
    let mut points = Vec::new();
    for input in &case.inputs {
        let n: usize = input.shape.iter().product();
        points.push((0..n).map(|_| number(rng, input.domain)).collect());
    }
    points
}

fn leaves(case: &Case, points: &[Vec<f64>]) -> Vec<DynTensor> {
    let shapes = case.inputs.iter().map(|input| input.shape.as_slice());
    let plain = points.iter().zip(shapes).map(|(p, s)| DynTensor::from_vec(p.clone(), s));
    plain.map(|x| x.requires_grad()).collect()
}

#[test]
fn gradients_have_gradients() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let mut rng = Rng::new(11);
    for case in cases(&mut rng).iter().filter(|case| case.name != "cast") {
        let points = point(case, &mut rng);
        let inputs = leaves(case, &points);
        let total = slopes(case, &inputs, Graph::Create);
        let second = match total.is_tracked() {
            true => grad(&total, &inputs.iter().collect::<Vec<_>>()),
            false => Ok(inputs.iter().map(DynTensor::zeros_like).collect()),
        };
        for (i, got) in second.unwrap_or_else(|e| panic!("{}: {e}", case.name)).iter().enumerate() {
            let got: Vec<f64> = got.to_vec().unwrap_or_else(|e| panic!("{}: {e}", case.name));
            for (j, got) in got.iter().enumerate().take(3) {
                let at = |delta: f64| {
                    let mut moved = points.clone();
                    moved[i][j] += delta;
                    slopes(case, &leaves(case, &moved), Graph::Free).item().unwrap()
                };
                let eps = 1e-5;
                let want = (at(eps) - at(-eps)) / (2.0 * eps);
                let close = (got - want).abs() <= 2e-5 * (1.0 + want.abs());
                assert!(
                    close,
                    "{}: input {i} element {j}: {got}, differences say {want}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn derivatives_of_any_order() {
    // x^5: 5 x^4, 20 x^3, 60 x^2, 120 x, 120, 0.
    let x = leaf(&[0.5]);
    let mut y = x.pow(5).sum(..);
    for want in [5.0 * 0.0625, 20.0 * 0.125, 60.0 * 0.25, 60.0, 120.0] {
        y = grad_with(&y, None, &[&x], Graph::Create).unwrap().remove(0);
        assert!((y.item().unwrap() - want).abs() < 1e-12, "{y} is not {want}");
    }
    assert!(x.grad().is_none(), "leaves gather nothing");
}

#[test]
fn gradients_of_results_between_and_of_what_is_not_used() {
    let (x, unused) = (leaf(&[1.0, 2.0]), leaf(&[3.0]));
    let h = x.square();
    let y = h.mul(3.0).sum(..) + x.sum(..);
    let grads = grad_with(&y, None, &[&h, &x, &unused], Graph::Retain).unwrap();
    let grads: Vec<Vec<f64>> = grads.iter().map(|g| g.to_vec().unwrap()).collect();
    assert_eq!(grads, [vec![3.0, 3.0], vec![7.0, 13.0], vec![0.0]]);
    // A gradient of the output's own, and one of another type.
    let seed = DynTensor::from_slice(&[10.0, 100.0], [2]);
    let grads = grad_with(&h, Some(&seed), &[&x], Graph::Free).unwrap();
    assert_eq!(grads[0].to_vec::<f64>().unwrap(), [20.0, 400.0]);
    let error = grad_with(&x.square(), Some(&leaf(&[1.0])), &[&x], Graph::Free).unwrap_err();
    assert_eq!(
        error.message(),
        "grad: the output is f64[2], but the gradient given for it is f64[1]"
    );
    let error = grad(&x.square(), &[&x.detach()]).unwrap_err();
    assert_eq!(error.message(), "grad: input 0, f64[2], requires no gradient");
    let error = grad(&h, &[&x]).unwrap_err();
    assert!(error.message().contains("was freed by an earlier backward"), "{error}");
}

#[test]
fn a_jacobian_product_of_a_function() {
    let (x, w) = (DynTensor::from_slice(&[1.0, 2.0], [2]), leaf(&[0.5, 0.25]));
    let v = DynTensor::from_slice(&[1.0, -1.0], [2]);
    // Where nothing is tracked, too.
    let (y, grads) = no_grad(|| vjp(|x| x[0].mul(&w).exp(), &[&x], &v)).unwrap();
    let e = 0.5_f64.exp();
    assert_eq!(y.to_vec::<f64>().unwrap(), [e, e]);
    assert_eq!(grads[0].to_vec::<f64>().unwrap(), [0.5 * e, -0.25 * e]);
    assert!(!y.is_tracked() && !grads[0].is_tracked() && w.grad().is_none());
}

/// A product whose gradients are written by hand.
fn product(a: &DynTensor, b: &DynTensor) -> DynTensor {
    custom(&[a, b], |x| x[0].mul(&x[1]), |x, _, g| vec![Some(g.mul(&x[1])), Some(g.mul(&x[0]))])
}

#[test]
fn gradients_by_hand_agree_with_finite_differences() {
    let mut rng = Rng::new(3);
    let two: [(&[usize], Domain); 2] = [(&[2, 3], Domain::Any), (&[2, 3], Domain::Any)];
    let one: [(&[usize], Domain); 1] = [(&[4], Domain::Positive)];
    // The gradient of the second reads the output, that of the third has none for one input.
    let cases = [
        case("product", &two, |x| product(&x[0], &x[1]).exp()),
        case("exp", &one, |x| {
            custom(&[&x[0].sin()], |x| x[0].exp(), |_, y, g| vec![Some(g.mul(y))])
        }),
        case("twice", &one, |x| {
            let mask = x[0].detach().gt(1.0).to_dtype(DType::F64);
            let masked = custom(
                &[&x[0], &mask],
                |x| x[0].mul(&x[1]),
                |x, _, g| vec![Some(g.mul(&x[1])), None],
            );
            product(&masked, &masked)
        }),
    ];
    for case in &cases {
        check(case, &mut rng);
        // Their gradients have gradients, by the rules of what the closures record.
        let points = point(case, &mut rng);
        let inputs = leaves(case, &points);
        let total = slopes(case, &inputs, Graph::Create);
        let second = grad(&total, &inputs.iter().collect::<Vec<_>>()).unwrap();
        for j in 0..3 {
            let at = |delta: f64| {
                let mut moved = points.clone();
                moved[0][j] += delta;
                slopes(case, &leaves(case, &moved), Graph::Free).item().unwrap()
            };
            let (got, want) =
                (second[0].to_vec::<f64>().unwrap()[j], (at(1e-5) - at(-1e-5)) / 2e-5);
            assert!((got - want).abs() < 1e-4 * (1.0 + want.abs()), "{}: {got} {want}", case.name);
        }
    }
}

/// The identity with its gradient reversed (Ganin and Lempitsky 2015).
struct Reverse;

impl crate::autograd::Function for Reverse {
    fn forward(&self, inputs: &[DynTensor]) -> DynTensor {
        inputs[0].clone()
    }
    fn backward(&self, _: &[DynTensor], _: &DynTensor, grad: &DynTensor) -> Vec<Option<DynTensor>> {
        vec![Some(grad.neg())]
    }
}

#[test]
fn a_function_may_return_its_input_and_mistakes_are_told() {
    let x = leaf(&[1.0, 2.0]);
    let y = apply(Reverse, &[&x]);
    (y.square() + &x).sum(..).backward().unwrap();
    assert_eq!(grad_of(&x), [-1.0, -3.0]);
    assert!(!apply(Reverse, &[&x.detach()]).is_tracked());
    assert!(!no_grad(|| apply(Reverse, &[&x])).is_tracked());
    let wrong = |back: fn() -> Vec<Option<DynTensor>>| {
        custom(&[&x], |x| x[0].exp(), move |_, _, _| back()).sum(..).backward().unwrap_err()
    };
    let error = wrong(Vec::new);
    assert_eq!(error.message(), "custom function: backward gave 0 gradients for 1 inputs");
    let error = wrong(|| vec![Some(DynTensor::ones([3], DType::F64))]);
    let told = "custom function: backward gave a gradient that is f64[3], but f64[2] is needed";
    assert_eq!(error.message(), told);
    assert!(error.loc().to_string().contains("functions.rs"), "{error}");
}

#[test]
fn what_is_computed_again_has_the_same_gradients() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let w = leaf(&[0.3, -0.2, 0.9]);
    let calls = Arc::new(AtomicUsize::new(0));
    let block = |w: &DynTensor, calls: &Arc<AtomicUsize>| {
        let (w, calls) = (w.clone(), calls.clone());
        move |x: &[DynTensor]| {
            calls.fetch_add(1, Ordering::Relaxed);
            let noise = DynTensor::rand([3], DType::F64);
            x[0].mul(&w).add(&noise).tanh().sin().exp()
        }
    };
    let run = |kept: bool| {
        session.manual_seed(5);
        w.zero_grad();
        let x = leaf(&[0.1, 0.2, 0.3]);
        let mut h = x.square();
        for _ in 0..4 {
            let f = block(&w, &calls);
            h = if kept { f(&[h]) } else { checkpoint(f, &[&h]) };
        }
        session.flush();
        let alive = system.live();
        let last = DynTensor::rand((), DType::F64);
        h.sum(..).backward().unwrap();
        (h.to_vec::<f64>().unwrap(), grad_of(&x), grad_of(&w), last.item().unwrap(), alive)
    };
    let (kept, again) = (run(true), run(false));
    assert_eq!((&kept.0, &kept.1, &kept.2, kept.3), (&again.0, &again.1, &again.2, again.3));
    assert_eq!(calls.load(Ordering::Relaxed), 4 + 8);
    assert!(again.4 < kept.4, "{} values instead of {}", again.4, kept.4);
    // Gradients of gradients go through, and the state of the generator is as if nothing was
    // computed again.
    let x = leaf(&[0.1, 0.2, 0.3]);
    let cube = |x: &[DynTensor]| x[0].mul(&x[0]).mul(&x[0]);
    let first = grad_with(&checkpoint(cube, &[&x]).sum(..), None, &[&x], Graph::Create).unwrap();
    let second = grad(&first[0].sum(..), &[&x]).unwrap();
    let second = second[0].to_vec::<f64>().unwrap();
    assert!(second.iter().zip([0.6, 1.2, 1.8]).all(|(g, w)| (g - w).abs() < 1e-12), "{second:?}");
}
