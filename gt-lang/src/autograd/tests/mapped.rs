//! What mapped functions and derivatives of functions may contain: random numbers, leaves,
//! gradients written by hand, numbers of other dtypes, values without a derivative; and changes,
//! which they may not.

use gt_ir::DType;

use super::transforms::{close, list, run};
use crate::autograd::{
    Graph, checkpoint, custom, grad, grad_with, hessian, jacobian, jvp, vjp, vmap,
};
use crate::core::DynTensor;
use crate::error::Result;
use crate::linalg;
use crate::no_grad::no_grad;
use crate::reference::Reference;

#[track_caller]
fn message(result: Result<DynTensor>) -> String {
    result.unwrap_err().message().to_owned()
}

#[test]
fn random_numbers_are_the_same_for_all_examples() {
    run(|| {
        let x = DynTensor::ones([4, 64], DType::F64);
        for y in [
            vmap(|x| x[0].dropout(0.5), &[&x]).unwrap(),
            vmap(|x| vmap(|x| x[0].dropout(0.5), &[&x[0].reshape([8, 8])]), &[&x])
                .unwrap()
                .reshape([4, 64]),
            vmap(|x| &x[0] + x[0].rand_like(), &[&x]).unwrap(),
        ] {
            let rows = list(&y);
            assert!(rows[64..].chunks(64).all(|row| row == &rows[..64]), "{rows:?}");
            assert!(rows[1..].iter().any(|&r| r != rows[0]));
        }
        // The mask of the gradients is that of the value.
        let x = x.slice(0);
        let matrix = jacobian(|x| x.dropout(0.5) * 3.0, &x).unwrap();
        let (rows, n) = (list(&matrix), 64);
        assert!(rows.iter().enumerate().all(|(i, &r)| i / n == i % n || r == 0.0));
        let kept = (0..n).filter(|i| rows[i * n + i] == 6.0).count();
        let dropped = (0..n).filter(|i| rows[i * n + i] == 0.0).count();
        assert!(kept + dropped == n && kept > 8 && dropped > 8, "{kept} {dropped}");
        let both = |x: &DynTensor| {
            let leaf = x.detach().requires_grad();
            let y = leaf.dropout(0.5);
            let slope = grad(&y.sum(..), &[&leaf])?.remove(0);
            Ok(y - slope)
        };
        let apart = vmap(|x| both(&x[0]), &[&DynTensor::ones([4, 64], DType::F64)]).unwrap();
        assert!(list(&apart).iter().all(|&d| d == 0.0));
    });
}

/// A leaf made in a mapped function ends no gradient of what the function holds.
#[test]
fn gradients_flow_out_of_functions_that_make_leaves() {
    run(|| {
        let x = DynTensor::from([[0.5, 2.0], [1.0, -1.0]]);
        let w = DynTensor::from([2.0, -3.0]).requires_grad();
        let f = |x: &DynTensor| (&w * x.pow(3)).sum(..);
        // The slopes are 3 w x^2, the curvatures 6 w x.
        let slope = |x: &[DynTensor]| {
            let leaf = x[0].detach().requires_grad();
            Ok(grad_with(&f(&leaf), None, &[&leaf], Graph::Create)?.remove(0))
        };
        let penalty = vmap(slope, &[&x]).unwrap().sum(..);
        let got = grad(&penalty, &[&w]).unwrap();
        close(&got[0], &(x.square() * 3.0).sum(0), "of slopes");
        let each = vmap(|x| hessian(f, &x[0]), &[&x]).unwrap().sum(..);
        each.backward().unwrap();
        close(&w.grad().unwrap(), &(&x * 6.0).sum(0), "of hessians");
        // What is detached stays so.
        let cut = |x: &[DynTensor]| {
            let y = &x[0] * &w;
            let leaf = y.detach().requires_grad();
            Ok((grad(&leaf.pow(2).sum(..), &[&leaf])?.remove(0) * &leaf).sum(..)
                + (&w * 0.0).sum(..))
        };
        let got = grad(&vmap(cut, &[&x]).unwrap().sum(..), &[&w]).unwrap();
        close(&got[0], &w.detach().zeros_like(), "of what was cut off");
    });
}

#[test]
fn gradients_by_hand_flow_through_batches() {
    run(|| {
        let x = DynTensor::from([[0.2, 0.4], [0.6, 0.3], [0.7, 0.9]]).requires_grad();
        let w = DynTensor::from([0.5, 0.25]).requires_grad();
        type Unary = fn(&DynTensor) -> DynTensor;
        let functions: [Unary; 6] = [
            DynTensor::asin,
            DynTensor::acos,
            DynTensor::asinh,
            DynTensor::erfinv,
            DynTensor::lgamma,
            DynTensor::logit,
        ];
        for f in functions {
            let mapped = |x: &DynTensor| vmap(|x| f(&(&x[0] * &w)).sum(..), &[x]).unwrap();
            let (got, want) = (mapped(&x), f(&(&x * &w)).sum(-1));
            close(&got, &want, "value");
            let slopes = |y: &DynTensor| {
                grad_with(&y.square().sum(..), None, &[&x, &w], Graph::Create).unwrap()
            };
            let (got, want) = (slopes(&got), slopes(&want));
            close(&got[0], &want[0], "by the inputs");
            close(&got[1], &want[1], "by what the function holds");
            let second = |g: &[DynTensor]| grad(&g[0].square().sum(..), &[&x, &w]).unwrap();
            let (got, want) = (second(&got), second(&want));
            close(&got[0], &want[0], "twice, by the inputs");
            close(&got[1], &want[1], "twice, by what the function holds");
        }
        // Of two axes, and of an input that is the same for all.
        let product = |a: &DynTensor, b: &DynTensor| {
            custom(
                &[a, b],
                |x| &x[0] * &x[1],
                |x, _, grad| vec![Some(grad * &x[1] * 10.0), Some(grad * &x[0] * 100.0)],
            )
        };
        let rows = |x: &[DynTensor]| vmap(|x| product(&x[0].sum(..), &w.sum(..)), &[&x[0]]);
        let y = vmap(rows, &[&x.reshape([3, 2, 1])]).unwrap();
        let slopes = grad(&y.sum(..), &[&x, &w]).unwrap();
        close(&slopes[0], &x.full_like(7.5), "by the inputs");
        close(&slopes[1], &(w.ones_like() * x.sum(..) * 100.0), "by what is the same for all");
        // What is computed again is not known for a batch.
        let again = |x: &[DynTensor]| checkpoint(|x| x[0].exp(), &[&x[0]]).sum(..);
        let error = vmap(again, &[&x]).unwrap().sum(..).backward().unwrap_err();
        assert!(error.message().starts_with("vmap: no gradient flows back"), "{error}");
    });
}

#[test]
fn derivatives_of_what_does_not_change_are_zero() {
    run(|| {
        let x = DynTensor::from([0.5, 2.0]);
        let (two, four) = (DynTensor::zeros([2], DType::F64), DynTensor::zeros([2, 2], DType::F64));
        close(&hessian(|x| (x * 3.0).sum(..), &x).unwrap(), &four, "hessian of a linear function");
        close(&hessian(|_| DynTensor::from(1.0), &x).unwrap(), &four, "hessian of a constant");
        close(&jacobian(DynTensor::round, &x).unwrap(), &four, "jacobian of steps");
        let empty = jacobian(|x| x.slice(..0), &x).unwrap();
        assert_eq!(empty.sizes(), [0, 2]);
        let v = DynTensor::from([1.0, 1.0]);
        let (y, along) = jvp(|x| x[0].floor(), &[&x], &[&v]).unwrap();
        close(&y, &x.floor(), "value");
        close(&along, &two, "along");
        let (w, w2) = (DynTensor::from(2.0).requires_grad(), DynTensor::from([1.0, 1.0]));
        close(&jvp(|_| &w * &w2, &[&x], &[&v]).unwrap().1, &two, "of what is held");
        let (y, slopes) = vjp(|x| x[0].round(), &[&x], &v).unwrap();
        close(&y, &x.round(), "value");
        close(&slopes[0], &two, "vjp");
        // Errors stay errors.
        let wrong = |x: &DynTensor| x.matmul(&DynTensor::ones([3, 3], DType::F64));
        assert!(message(jacobian(wrong, &x)).starts_with("matmul: "));
        assert!(message(hessian(|x| wrong(x).sum(..), &x)).starts_with("matmul: "));
    });
}

/// A number of each example is one beside tensors, though the batch of them has an axis.
#[test]
fn numbers_of_examples_change_no_dtype() {
    run(|| {
        let numbers = DynTensor::from([1.0, -2.0, 0.25]).requires_grad();
        let held = DynTensor::from([0.5f32, 1.5, -1.0]);
        type Binary = fn(&DynTensor, &DynTensor) -> DynTensor;
        let functions: [Binary; 6] = [
            |s, x| x * s,
            |s, x| s - x,
            |s, x| x.gt(0.0).where_(s, x),
            |s, x| x.clamp(s, 1.0),
            |s, x| x.clamp(-1.0, s),
            |s, x| s.lt(x).to_dtype(DType::F32) + s,
        ];
        for (i, f) in functions.iter().enumerate() {
            let got = vmap(|s| f(&s[0], &held), &[&numbers]).unwrap();
            let want = DynTensor::stack((0..3).map(|i| f(&numbers.slice(i), &held)), 0);
            assert_eq!(got.ty(), want.ty(), "{i}");
            close(&got, &want, &format!("{i}"));
            let slope = |y: &DynTensor| grad(&y.square().sum(..), &[&numbers]).unwrap().remove(0);
            close(&slope(&got), &slope(&want), &format!("{i}'s gradient"));
        }
        // Among numbers the wider one counts.
        let narrow = DynTensor::from([1.0f32, 2.0]);
        let got = vmap(|x| &x[0] * DynTensor::from(0.1f64), &[&narrow]).unwrap();
        assert_eq!((got.dtype(), list(&got)[0]), (DType::F64, 0.1));
        let whole = DynTensor::from([1i64, 2]);
        let got = vmap(|x| &x[0] + DynTensor::from([1u8, 2]), &[&whole]).unwrap();
        assert_eq!(got.dtype(), DType::U8);
    });
}

#[test]
fn a_mapped_function_changes_nothing() {
    run(|| {
        let x = DynTensor::from([[0.5, 2.0], [1.0, -1.0]]);
        let w = DynTensor::from([2.0, -3.0]).requires_grad();
        let gathers = |x: &[DynTensor]| {
            let y = (&x[0] * &w).sum(..);
            y.backward()?;
            Ok(y)
        };
        assert_eq!(
            message(vmap(gathers, &[&x])),
            "vmap: the function adds to the gradient of a leaf, f64[2]"
        );
        assert!(w.grad().is_none());
        let assigns = |x: &[DynTensor]| {
            let _ = no_grad(|| w.assign(&x[0]));
            x[0].sum(..)
        };
        assert_eq!(message(vmap(assigns, &[&x])), "vmap: the function assigns to a leaf, f64[2]");
        close(&w.detach(), &DynTensor::from([2.0, -3.0]), "the leaf");
        let sets = |x: &[DynTensor]| {
            w.set_grad(Some(x[0].clone()));
            x[0].sum(..)
        };
        assert_eq!(
            message(vmap(sets, &[&x])),
            "vmap: the function sets the gradient of a leaf, f64[2]"
        );
        // A leaf of the function's own may change.
        let own = |x: &[DynTensor]| {
            let leaf = x[0].requires_grad();
            leaf.square().sum(..).backward()?;
            Ok(leaf.grad().unwrap_or(leaf))
        };
        close(&vmap(own, &[&x]).unwrap(), &(&x * 2.0), "gradients of its own leaf");
        let inner = |x: &[DynTensor]| {
            let leaf = x[0].requires_grad();
            let adds = |y: &[DynTensor]| {
                (&y[0] * leaf.sum(..)).backward()?;
                Ok(y[0].clone())
            };
            vmap(adds, &[&x[0]])
        };
        assert!(message(vmap(inner, &[&x])).contains("adds to the gradient of a leaf"));
    });
}

/// Inputs keep their session, whichever the thread has entered.
#[test]
fn transforms_of_tensors_of_another_session() {
    let (other, _) = Reference::session();
    let (x, w) = {
        let _entered = other.enter();
        (DynTensor::from([1.0, 2.0]), DynTensor::from([3.0, 4.0]))
    };
    run(|| {
        let matrix = jacobian(|x| x.square() * &w, &x).unwrap();
        assert_eq!(list(&matrix), [6.0, 0.0, 0.0, 16.0]);
        let sums = vmap(|x| x[0].pad([(1, 1)], 2.0) * 0.5 + 1.0, &[&x.reshape([2, 1])]).unwrap();
        assert_eq!(list(&sums), [2.0, 1.5, 2.0, 2.0, 2.0, 2.0]);
        let same = vmap(|x| x[0].zeros_like().sum(..), &[&x.reshape([2, 1])]).unwrap();
        assert_eq!(list(&same), [0.0, 0.0]);
        assert_eq!(list(&hessian(|x| (x.pow(3) * &w).sum(..), &x).unwrap())[3], 48.0);
    });
}

/// A determinant beyond its dtype leaves the gradient of its logarithm as it is.
#[test]
fn the_gradient_of_a_logarithm_beside_an_infinite_determinant() {
    run(|| {
        let a = DynTensor::from_vec(vec![1e30f32, 0.0, 0.0, 1e30], [2, 2]).requires_grad();
        assert_eq!(linalg::det(&a).to_vec::<f32>().unwrap(), [f32::INFINITY]);
        let slope = grad(&linalg::slogdet(&a).1, &[&a]).unwrap().remove(0);
        let near = [1e-30f32, 0.0, 0.0, 1e-30];
        assert_eq!(slope.to_vec::<f32>().unwrap(), near);
        let ones = a.detach().ones_like();
        let (_, along) = jvp(|x| linalg::slogdet(&x[0]).1, &[&a.detach()], &[&ones]).unwrap();
        assert_eq!(along.to_vec::<f32>().unwrap(), [2e-30f32]);
    });
}
