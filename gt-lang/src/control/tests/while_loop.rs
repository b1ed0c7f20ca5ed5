//! Loops that end on a value against Rust's `while`.

use gt_ir::DType;

use super::{close, list, refs, run};
use crate::autograd::{grad, vmap};
use crate::control::{fori_loop, while_loop, while_loop_at_most};
use crate::core::DynTensor;

/// The values before the first whose sum is larger, and how many rounds there were.
fn plain(x: &DynTensor, factor: &DynTensor, most: f64) -> (DynTensor, i64) {
    let (mut x, mut n) = (x.clone(), 0);
    while x.sum(..).item().unwrap() < most {
        x = &x * factor + 1.0;
        n += 1;
    }
    (x, n)
}

#[test]
fn a_loop_that_ends_on_a_value_is_that_of_rust_with_gradients() {
    run(|_| {
        let x = DynTensor::from([0.5, -1.0]).to_dtype(DType::F64).requires_grad();
        let factor = DynTensor::from(1.03).to_dtype(DType::F64).requires_grad();
        for most in [-9.0, 0.0, 3.0, 17.0, 18.0, 40.0, 150.0, 1000.0] {
            let (want, n) = plain(&x, &factor, most);
            let init = [x.clone(), DynTensor::from(0_i64)];
            let holds = |x: &[DynTensor]| x[0].sum(..).lt(most);
            let round = |x: &[DynTensor]| vec![&x[0] * &factor + 1.0, &x[1] + 1];
            let got = while_loop(holds, round, &refs(&init)).unwrap();
            let what = format!("{n} rounds, to {most}");
            close(&got, &[want.clone(), DynTensor::from(n)], &what);
            let slopes = |y: &DynTensor| grad(&y.square().sum(..), &[&x, &factor]);
            if n > 0 {
                close(&slopes(&got[0]).unwrap(), &slopes(&want).unwrap(), &what);
            }
            let most = n as usize + 3;
            let at_most = while_loop_at_most(most, holds, round, &refs(&init)).unwrap();
            close(&at_most, &got, "as many rounds as there may be");
            let fewer = while_loop_at_most(2, holds, round, &refs(&init)).unwrap();
            assert_eq!(list(&fewer[1]), [n.min(2) as f64]);
        }
    });
}

/// The function is not called of values on which the loop has ended.
#[test]
fn no_index_is_past_the_end() {
    run(|_| {
        let x = DynTensor::from([1.0, 2.0, 3.0, -1.0, 5.0]);
        let sum = |n: i64| {
            while_loop(
                |s| s[0].lt(n),
                |s| vec![&s[0] + 1, &s[1] + x.index_select(0, &s[0].unsqueeze(0)).sum(..)],
                &[&DynTensor::from(0_i64), &DynTensor::from(0.0)],
            )
        };
        assert_eq!([0, 1, 4, 5].map(|n| list(&sum(n).unwrap()[1])[0]), [0.0, 1.0, 5.0, 10.0]);
        assert!(list(&sum(5).unwrap()[0]) == [5.0]);
        assert!(sum(6).and_then(|all| all[1].item()).is_err());
    });
}

/// The number of rounds differs from example to example, and from round to round.
#[test]
fn bounded_loops_nest_and_run_for_batches() {
    run(|_| {
        let halvings = |x: &DynTensor| {
            let init = [x.clone(), DynTensor::from(0_i64)];
            let rounds = while_loop_at_most(
                10,
                |x| x[0].gt(1.0),
                |x| vec![&x[0] * 0.5, &x[1] + 1],
                &refs(&init),
            );
            rounds.map(|mut all| all.remove(1))
        };
        let x = DynTensor::from([0.5, 1.5, 100.0, 3.0]);
        let got = vmap(|x| halvings(&x[0]), &[&x]).unwrap();
        assert_eq!(list(&got), [0.0, 1.0, 7.0, 2.0]);
        let sum = fori_loop(
            5,
            |i, s| vec![&s[0] + halvings(&i.to_dtype(DType::F32)).unwrap()],
            &[&DynTensor::from(0_i64)],
        );
        assert_eq!(list(&sum.unwrap()[0]), [5.0]); // 0, 0, 1, 2, 2
    });
}

#[test]
fn what_does_not_fit_is_told() {
    run(|_| {
        let x = DynTensor::from([1.0, 2.0]);
        let twice = |x: &[DynTensor]| vec![&x[0] * 2.0];
        let error = |result: crate::error::Result<Vec<DynTensor>>| result.unwrap_err().to_string();
        let found = error(while_loop(|x| x[0].lt(9.0), twice, &[&x]));
        assert!(found.contains("the condition is bool[2], not bool[]"), "{found}");
        let small = |x: &[DynTensor]| x[0].sum(..).lt(9.0);
        for f in [
            (|x| vec![x[0].sum(..)]) as fn(&[DynTensor]) -> Vec<DynTensor>,
            |x| vec![x[0].clone(), x[0].clone()],
            |_| Vec::new(),
        ] {
            let found = error(while_loop(small, f, &[&x]));
            assert!(found.contains("a round gets ["), "{found}");
        }
        let inner = vmap(|x| while_loop(small, twice, &[&x[0]]).map(|mut y| y.remove(0)), &[&x]);
        let found = inner.unwrap_err().to_string();
        assert!(found.contains("while_loop_at_most"), "{found}");
    });
}
