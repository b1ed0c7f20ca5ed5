//! Choices against Rust's `if`: values, gradients of both orders, in loops and for batches.

use gt_ir::{DType, Op};

use super::{close, refs, run};
use crate::autograd::{Graph, custom, grad, grad_with, vmap};
use crate::control::{cond, fori_loop};
use crate::core::DynTensor;

type Function = fn(&[DynTensor], &DynTensor) -> Vec<DynTensor>;

/// Pairs of functions, of two operands and of a value from outside, and whether their choice is one
/// instruction for each dtype of the results.
const PAIRS: &[(&str, usize, [Function; 2])] = &[
    ("products and sums", 1, [|x, w| vec![x[0].matmul(w) * &x[1]], |x, w| vec![&x[0] + w.sum(0)]]),
    ("an infinite slope", 1, [|x, _| vec![(&x[1] * 0.0).sqrt()], |x, _| vec![x[0].square()]]),
    (
        "several results",
        2,
        [
            |x, w| vec![x[0].exp(), x[1].gt(0.0).sum(..), w.sin()],
            |x, w| vec![x[0].tanh(), x[1].lt(0.0).sum(..), w * x[1].sum(..)],
        ],
    ),
    ("what is given", 1, [|x, _| vec![x[1].clone()], |_, w| vec![w.slice(1)]]),
    (
        "a gradient by hand",
        0,
        [
            |x, _| vec![custom(&[&x[0]], |x| x[0].sin(), |_, _, g| vec![Some(g * 3.0)])],
            |x, _| vec![x[1].clone()],
        ],
    ),
    ("a stopped gradient", 0, [|x, _| vec![x[0].detach() * &x[1]], |x, _| vec![x[0].exp()]]),
];

fn total(all: &[DynTensor]) -> DynTensor {
    let floats = all.iter().filter(|x| x.dtype().is_float());
    floats.map(|x| x.sin().sum(..)).reduce(|a, b| a + b).unwrap()
}

#[test]
fn a_choice_is_the_function_that_is_taken_with_gradients_of_both_orders() {
    run(|session| {
        for (name, n_conds, [f, g]) in PAIRS {
            for is_true in [true, false] {
                let [x, y] = [(); 2].map(|()| DynTensor::randn([3], DType::F64).requires_grad());
                let w = DynTensor::randn([3, 3], DType::F64).requires_grad();
                let leaves = [x, y, w];
                let [x, y, w] = &leaves;
                session.start_trace();
                let condition = DynTensor::from(is_true);
                let got = cond(&condition, |x| f(x, w), |x| g(x, w), &[x, y]).unwrap();
                let is_cond = |instr: &&gt_ir::Instr| matches!(instr.op, Op::Cond(_));
                let found = session.stop_trace().instrs().filter(is_cond).count();
                assert_eq!(found, *n_conds, "{name}");
                let taken = if is_true { f } else { g };
                let want = taken(&[x.clone(), y.clone()], w);
                close(&got, &want, name);
                if *name == "an infinite slope" && is_true {
                    continue; // Its gradient is NaN, as it is without a choice.
                }
                let slopes = |all: &[DynTensor]| {
                    let first = grad_with(&total(all), None, &refs(&leaves), Graph::Create);
                    let first: Vec<DynTensor> = first.unwrap();
                    let sum = first.iter().map(|g| g.cos().sum(..)).reduce(|a, b| a + b).unwrap();
                    [first, grad(&sum, &refs(&leaves)).unwrap()].concat()
                };
                close(&slopes(&got), &slopes(&want), name);
            }
        }
    });
}

/// The condition differs from round to round, and from example to example.
#[test]
fn choices_stand_in_loops_and_for_batches() {
    run(|session| {
        let root = |x: &DynTensor| {
            let one = cond(&x.gt(0.0), |x| vec![x[0].sqrt()], |x| vec![&x[0] * 2.0], &[x]);
            one.map(|mut all| all.remove(0))
        };
        let x = DynTensor::from([4.0, -3.0, 0.0, 9.0]);
        let y = vmap(|x| root(&x[0]), &[&x]).unwrap();
        close(&[y], &[DynTensor::from([2.0, -6.0, 0.0, 3.0])], "a batch");

        session.start_trace();
        let start = DynTensor::from(-3.0f64).requires_grad();
        let last = fori_loop(
            5,
            |i, y| {
                cond(&i.lt(2), |y| vec![&y[0] * &y[0]], |y| vec![&y[0] + 1.0], &refs(y)).unwrap()
            },
            &[&start],
        );
        let last = last.unwrap().remove(0);
        let holds = |body: gt_ir::Body| body.to_string().contains("cond[");
        let is_loop = |instr: &gt_ir::Instr| matches!(instr.op, Op::Scan(scan) if holds(scan.body));
        assert!(session.stop_trace().instrs().any(is_loop), "the choice is in the loop");
        assert_eq!(last.item().unwrap(), 84.0);
        assert_eq!(grad(&last, &[&start]).unwrap()[0].item().unwrap(), 4.0 * -27.0);
    });
}

/// Functions of too many instructions for a choice, and choices in choices.
#[test]
fn what_no_choice_holds_is_recorded() {
    run(|_| {
        let x = DynTensor::from(1.0f64).requires_grad();
        let long = |y: &[DynTensor]| fori_loop(10_000, |_, y| vec![&y[0] * 1.0001], &[&y[0]]);
        let yes = DynTensor::from(true);
        let y = cond(&yes, long, |y| vec![&y[0] * 2.0], &[&x]).unwrap().remove(0);
        assert!((y.item().unwrap() - 1.0001f64.powi(10_000)).abs() < 1e-9);
        assert!((grad(&y, &[&x]).unwrap()[0].item().unwrap() - y.item().unwrap()).abs() < 1e-9);

        fn nested(depth: usize, x: &DynTensor) -> DynTensor {
            if depth == 0 {
                return x * 3.0;
            }
            let small = |y: &[DynTensor]| vec![&y[0] + 1.0];
            let larger = |y: &[DynTensor]| vec![nested(depth - 1, &y[0])];
            cond(&x.lt(0.0), small, larger, &[x]).unwrap().remove(0)
        }
        let y = nested(20, &x);
        assert_eq!(y.item().unwrap(), 3.0);
        assert_eq!(grad(&y, &[&x]).unwrap()[0].item().unwrap(), 3.0);
    });
}

#[test]
fn random_numbers_are_drawn_where_a_function_draws_them() {
    run(|session| {
        let x = DynTensor::ones([100], DType::F64);
        session.manual_seed(3);
        let yes = DynTensor::from(true);
        let got = cond(&yes, |x| vec![x[0].rand_like()], |x| vec![x[0].clone()], &[&x]).unwrap();
        session.manual_seed(3);
        close(&got, &[x.rand_like()], "random numbers");
    });
}

#[test]
fn what_does_not_fit_is_told() {
    run(|_| {
        let x = DynTensor::from([1.0, 2.0]);
        let same = |x: &[DynTensor]| vec![x[0].clone()];
        let error = cond(&x.gt(0.0), same, same, &[&x]).unwrap_err().to_string();
        assert!(error.contains("the condition is bool[2], not bool[]"), "{error}");
        let yes = DynTensor::from(true);
        let error = cond(&yes, same, |x| vec![x[0].sum(..)], &[&x]).unwrap_err().to_string();
        assert!(error.contains("[f64[2]] where the condition is true, and [f64[]]"), "{error}");
        let read = |x: &[DynTensor]| x[0].to_vec::<f64>().map(|_| vec![x[0].clone()]);
        let error = cond(&yes, read, same, &[&x]).unwrap_err().to_string();
        assert!(error.contains("cond"), "{error}");
    });
}
