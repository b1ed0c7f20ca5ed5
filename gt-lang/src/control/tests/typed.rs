//! Typed loops and branches are those of lists of tensors.

use super::{close, run};
use crate::autograd::grad;
use crate::control;
use crate::core::DynTensor;
use crate::prelude::*;
use crate::typed;

dims! { Time }

#[test]
fn structures_come_back_as_they_were_given() {
    run(|_| {
        let rates = [(); 2].map(|()| Tensor::<(Time,)>::randn_with([5]));
        let xs = (Tensor::<(Time, N<3>)>::randn_with([5]), rates);
        let w: Tensor<(N<3>, N<3>)> = Tensor::randn();
        let w = w.requires_grad();
        let init: (Tensor<(N<3>,)>, Vec<DynTensor>) =
            (Tensor::zeros(), vec![DynTensor::from(0_i64), DynTensor::from(1.0f32)]);
        let ((h, rest), (all, ())) = typed::scan(
            |(h, rest), (x, [a, b])| {
                let h: Tensor<(N<3>,)> = (h.matmul(&w) + x * &a).tanh();
                let rest = vec![&rest[0] + 1, &rest[1] * b.as_dyn()];
                Ok::<_, crate::Error>(((h.clone(), rest), (h, ())))
            },
            &init,
            &xs,
        )
        .unwrap();
        let all: Tensor<(Time, N<3>)> = all;
        let leaves = [&init.0.into_dyn(), &init.1[0], &init.1[1]];
        let scanned = [xs.0.as_dyn(), xs.1[0].as_dyn(), xs.1[1].as_dyn()];
        let (last, stacked) = control::scan(
            |h, x| {
                let next = (h[0].matmul(w.as_dyn()) + &x[0] * &x[1]).tanh();
                (vec![next.clone(), &h[1] + 1, &h[2] * &x[2]], vec![next])
            },
            &leaves,
            &scanned,
        )
        .unwrap();
        let got = [h.clone().into_dyn(), rest[0].clone(), rest[1].clone()];
        close(&got, &last, "carried");
        close(&[all.into_dyn().reshape([5, 3])], &stacked, "stacked");
        let slope = |x: &DynTensor| grad(&x.sum(..), &[w.as_dyn()]).unwrap();
        close(&slope(h.as_dyn()), &slope(&last[0]), "gradients");
    });
}

#[test]
fn typed_loops_end_and_branch() {
    run(|_| {
        let start: Tensor<(N<2>,)> = Tensor::ones();
        let (x, n): (Tensor<(N<2>,)>, DynTensor) = typed::while_loop(
            |(x, _)| x.sum().lt(100.0),
            |(x, n)| (x * 2.0, n + 1),
            &(start.clone(), DynTensor::from(0_i64)),
        )
        .unwrap();
        assert_eq!((x.to_vec::<f32>().unwrap(), n.item().unwrap()), (vec![64.0; 2], 6.0));
        let y: Tensor<(N<2>,)> = typed::fori_loop(3, |i, y| y + i.float(), &start).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [4.0; 2]);
        let larger = y.sum().gt(7.0);
        let (z, _): (Tensor<(N<2>,)>, DynTensor) = typed::cond(
            &larger,
            |y| (y * 10.0, y.as_dyn().sum(..)),
            |y| (y.clone(), y.as_dyn().mean(..)),
            &y,
        )
        .unwrap();
        assert_eq!(z.to_vec::<f32>().unwrap(), [40.0; 2]);
    });
}
