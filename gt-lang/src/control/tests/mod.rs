//! Loops against the same loops of Rust: values, gradients of both orders, and what is recorded.

mod cond;
mod typed;
mod while_loop;

use gt_ir::{DType, Op};

use super::{Round, fori_loop, scan, scan_reverse};
use crate::autograd::{Graph, checkpoint, custom, grad, grad_with, vmap};
use crate::core::DynTensor;
use crate::error::Result;
use crate::no_grad::no_grad;
use crate::reference::Reference;
use crate::session::Session;

type Body = fn(&[DynTensor], &[DynTensor], &DynTensor) -> Round;

fn run(test: impl FnOnce(&Session)) {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    // Of other numbers, some grow beyond all limits in a few rounds.
    session.manual_seed(0);
    test(&session);
}

fn list(x: &DynTensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec().unwrap()
}

#[track_caller]
fn close(got: &[DynTensor], want: &[DynTensor], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got.ty(), want.ty(), "{what}: {:?} {:?}", got.error(), want.error());
        let near = |(g, w): (f64, f64)| g == w || (g - w).abs() <= 1e-12 * (1.0 + w.abs());
        let (got, want) = (list(got), list(want));
        assert!(
            got.iter().copied().zip(want.iter().copied()).all(near),
            "{what}: {got:?} {want:?}"
        );
    }
}

/// The loop in Rust.
fn plain(f: Body, init: &[DynTensor], xs: &[DynTensor], w: &DynTensor) -> Round {
    let (mut carried, mut stacked) = (init.to_vec(), Vec::<Vec<DynTensor>>::new());
    for i in 0..xs[0].sizes()[0] {
        let slices: Vec<DynTensor> = xs.iter().map(|x| x.slice(i as i64)).collect();
        let (next, given) = f(&carried, &slices, w);
        carried = next;
        stacked.resize_with(given.len(), Vec::new);
        stacked.iter_mut().zip(given).for_each(|(all, value)| all.push(value));
    }
    (carried, stacked.iter().map(|all| DynTensor::stack(all, 0)).collect())
}

fn refs(all: &[DynTensor]) -> Vec<&DynTensor> {
    all.iter().collect()
}

/// Bodies, and whether a loop of them is one instruction for each dtype of its results.
const BODIES: &[(&str, usize, Body)] = &[
    ("a recurrence", 1, |h, x, w| {
        let h = (h[0].matmul(w) + &x[0]).tanh();
        (vec![h.clone()], vec![h.square().sum(..)])
    }),
    ("a count beside it", 2, |h, x, w| {
        let count = h[1].clone() + x[0].gt(0.0).to_dtype(DType::I64).sum(..);
        (vec![&h[0] * w.sum(0).sigmoid() + &x[0], count.clone()], vec![count, x[0].exp()])
    }),
    ("values from outside and from before", 1, |h, x, w| {
        (vec![&x[0] * 0.5 + w.slice(0)], vec![w.diagonal(0), h[0].clone()])
    }),
    ("a stopped gradient", 0, |h, x, w| {
        let h = (&h[0].detach() * &x[0]).matmul(w) + &h[0];
        (vec![h.clone()], vec![no_grad(|| h.exp()) * &h])
    }),
    ("a gradient by hand", 0, |h, x, w| {
        let h = custom(&[&(&h[0] + &x[0])], |x| x[0].sin(), |_, _, g| vec![Some(g * 3.0)]);
        (vec![h.matmul(w)], vec![checkpoint(|x| x[0].exp(), &[&h])])
    }),
];

fn arguments(w: &DynTensor) -> (Vec<DynTensor>, Vec<DynTensor>) {
    let x = DynTensor::randn([4, 3], w.dtype());
    (vec![DynTensor::randn([3], w.dtype())], vec![x])
}

/// The results of a loop as one number, which depends on each of them.
fn total(round: &Round) -> DynTensor {
    let floats = round.0.iter().chain(&round.1).filter(|x| x.dtype().is_float());
    floats
        .enumerate()
        .map(|(i, x)| (x.sin() * (i as f64 + 1.0)).sum(..))
        .reduce(|a, b| a + b)
        .unwrap()
}

#[test]
fn a_loop_is_what_its_rounds_are_with_gradients_of_both_orders() {
    run(|session| {
        for (name, n_scans, f) in BODIES {
            let w = DynTensor::randn([3, 3], DType::F64).requires_grad();
            let (mut init, mut xs) = arguments(&w);
            init[0] = init[0].requires_grad();
            xs[0] = xs[0].requires_grad();
            if name.contains("count") {
                init.push(DynTensor::zeros((), DType::I64));
            }
            session.start_trace();
            let got = scan(|h, x| f(h, x, &w), &refs(&init), &refs(&xs)).unwrap();
            let is_scan = |instr: &&gt_ir::Instr| matches!(instr.op, Op::Scan(_));
            assert_eq!(session.stop_trace().instrs().filter(is_scan).count(), *n_scans, "{name}");
            let want = plain(*f, &init, &xs, &w);
            close(&got.0, &want.0, name);
            close(&got.1, &want.1, name);
            let leaves = [&init[0], &xs[0], &w];
            let slopes = |round: &Round| {
                let first = grad_with(&total(round), None, &leaves, Graph::Create).unwrap();
                let sum = first.iter().map(|g| g.cos().sum(..)).reduce(|a, b| a + b).unwrap();
                let second = grad(&sum, &leaves).unwrap();
                [first, second].concat()
            };
            close(&slopes(&got), &slopes(&want), name);
        }
    });
}

/// From the last slice to the first is the loop over what is turned around.
#[test]
fn the_last_slices_may_come_first() {
    run(|session| {
        let w = DynTensor::from([[0.5, 0.25, 0.0], [0.0, 1.0, 0.5], [1.0, 0.0, -0.5]]);
        let turned = |all: &[DynTensor]| all.iter().map(|x| x.flip([0])).collect::<Vec<_>>();
        for (name, _, f) in BODIES.iter().filter(|(name, ..)| !name.contains("count")) {
            let (mut init, xs) = arguments(&w);
            init[0] = init[0].requires_grad();
            let got = scan_reverse(|h, x| f(h, x, &w), &refs(&init), &refs(&xs)).unwrap();
            let want = plain(*f, &init, &turned(&xs), &w);
            close(&got.0, &want.0, name);
            close(&got.1, &turned(&want.1), name);
            let slope = |round: &Round| grad(&total(round), &[&init[0]]).unwrap();
            close(&slope(&got), &slope(&want), name);
        }
        // Also where each round is recorded by itself.
        let (init, xs) = arguments(&w);
        let noisy =
            |h: &[DynTensor], x: &[DynTensor]| (vec![&h[0] * x[0].rand_like()], vec![x[0].clone()]);
        session.manual_seed(7);
        let got = scan_reverse(noisy, &refs(&init), &refs(&xs)).unwrap();
        session.manual_seed(7);
        let want = scan(noisy, &refs(&init), &refs(&turned(&xs))).unwrap();
        close(&got.0, &want.0, "carried");
        close(&got.1, &turned(&want.1), "stacked");
    });
}

#[test]
fn random_numbers_are_new_in_each_round_and_those_of_the_loop_in_rust() {
    run(|session| {
        let w = DynTensor::ones([3, 3], DType::F64);
        let (init, xs) = arguments(&w);
        let f: Body = |h, x, _| (vec![&h[0] + x[0].rand_like()], vec![x[0].dropout(0.5)]);
        session.manual_seed(7);
        let got = scan(|h, x| f(h, x, &w), &refs(&init), &refs(&xs)).unwrap();
        session.manual_seed(7);
        let want = plain(f, &init, &xs, &w);
        close(&got.0, &want.0, "carried");
        close(&got.1, &want.1, "stacked");
    });
}

#[test]
fn loops_nest_and_run_for_batches() {
    run(|_| {
        let power = |x: &DynTensor, n| fori_loop(n, |_, y| vec![&y[0] * x], &[&x.ones_like()]);
        let x = DynTensor::from([1.5, -2.0, 0.5]).requires_grad();
        let cube = power(&x, 3).unwrap().remove(0);
        close(std::slice::from_ref(&cube), &[x.pow(3)], "a cube");
        close(&grad(&cube.sum(..), &[&x]).unwrap(), &[x.square() * 3.0], "its gradient");
        let sums = fori_loop(
            4,
            |i, s| vec![&s[0] + power(&i.to_dtype(DType::F32).expand([3]), 2).unwrap().remove(0)],
            &[&DynTensor::zeros([3], DType::F32)],
        );
        assert_eq!(list(&sums.unwrap()[0]), [14.0; 3]);
        let whole = vmap(|x| power(&x[0], 3).map(|mut y| y.remove(0)), &[&x.detach()]).unwrap();
        close(&[whole], &[x.detach().pow(3)], "a batch");
    });
}

/// A loop in the function leaves nothing of its own among the operands of the outer one.
#[test]
fn a_loop_holds_what_its_results_need() {
    run(|session| {
        let x = DynTensor::from([1.5, -2.0]);
        session.start_trace();
        let power = |y: &DynTensor| fori_loop(2, |_, z| vec![&z[0] * y], &[&y.ones_like()]);
        let y = fori_loop(3, |_, y| power(&y[0]).unwrap(), &[&x]).unwrap().remove(0);
        assert!(!y.is_tracked());
        let tape = session.stop_trace();
        let outer = tape.instrs().filter(|instr| matches!(instr.op, Op::Scan(_))).last().unwrap();
        // The carried and the scanned one; the numbers and the ones of the inner loop.
        assert_eq!(outer.inputs.len(), 4, "{outer:?}");
        close(&[y], &[x.pow(8)], "a power of powers");
    });
}

#[test]
fn a_very_long_loop_is_recorded_round_by_round() {
    run(|session| {
        let x = DynTensor::ones([20_000], DType::F64);
        let round = |h: &[DynTensor], x: &[DynTensor]| (vec![(&h[0] + &x[0]) * 0.5], Vec::new());
        session.start_trace();
        let (last, _) = scan(round, &[&DynTensor::from(0.0)], &[&x]).unwrap();
        assert!(session.stop_trace().instrs().all(|instr| !matches!(instr.op, Op::Scan(_))));
        assert!((last[0].item().unwrap() - 1.0).abs() < 1e-12);
    });
}

#[test]
fn no_round_gives_the_first_values_and_nothing() {
    run(|_| {
        let (h, x) = (DynTensor::from([1.0, 2.0]), DynTensor::zeros([0, 2], DType::F32));
        for f in [
            (|h: &DynTensor, x: &DynTensor| h + x) as fn(&DynTensor, &DynTensor) -> DynTensor,
            |h, x| h + x.rand_like(),
        ] {
            let round =
                |h: &[DynTensor], x: &[DynTensor]| (vec![f(&h[0], &x[0])], vec![x[0].sum(..)]);
            let (last, all) = scan(round, &[&h], &[&x]).unwrap();
            assert_eq!((list(&last[0]), all[0].sizes()), (vec![1.0, 2.0], vec![0]));
        }
    });
}

#[test]
fn mistakes_are_named() {
    run(|_| {
        let (h, x) = (DynTensor::from([1.0f32, 2.0]), DynTensor::zeros([3, 2], DType::F32));
        let message = |result: Result<Round>| result.unwrap_err().message().to_owned();
        let all = |h: &[DynTensor], _: &[DynTensor]| (h.to_vec(), Vec::new());
        assert_eq!(message(scan(all, &[&h], &[])), "scan: no number of slices is common to []");
        assert_eq!(
            message(scan(all, &[&h], &[&x, &h])),
            "scan: no number of slices is common to [f32[3,2], f32[2]]"
        );
        let wider =
            |h: &[DynTensor], _: &[DynTensor]| (vec![h[0].to_dtype(DType::F64)], Vec::new());
        assert_eq!(
            message(scan(wider, &[&h], &[&x])),
            "scan: a round gets [f32[2]] and gives [f64[2]] for the next"
        );
        let reads = |h: &[DynTensor], x: &[DynTensor]| -> Result<Round> {
            x[0].to_vec::<f32>()?;
            Ok((h.to_vec(), Vec::new()))
        };
        assert_eq!(message(scan(reads, &[&h], &[&x])), "scan: the function reads f32[2]");
        let bad =
            |h: &[DynTensor], x: &[DynTensor]| (vec![h[0].matmul(&x[0].slice(..1))], Vec::new());
        assert!(message(scan(bad, &[&h], &[&x])).starts_with("matmul: "));
    });
}
