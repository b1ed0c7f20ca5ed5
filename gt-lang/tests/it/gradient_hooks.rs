//! Gradients of tensors that are no leaves, and functions of gradients on their way.

use std::sync::{Arc, Mutex};

use gt::autograd::{self, Graph};
use gt::prelude::*;

use crate::run;

#[test]
fn gradients_between_are_kept_and_add_up() {
    run(|| {
        let x = DynTensor::from([1.0, 2.0]).requires_grad();
        let h = &x * 3.0;
        let y = h.square();
        h.retain_grad().unwrap();
        x.retain_grad().unwrap();
        assert!(h.grad().is_none());
        y.sum(..).backward_with(Graph::Retain).unwrap();
        // 2 h, and 3 times that.
        assert_eq!(h.grad().unwrap().to_vec::<f64>().unwrap(), [6.0, 12.0]);
        assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [18.0, 36.0]);
        assert!(y.grad().is_none());
        y.sum(..).backward().unwrap();
        assert_eq!(h.clone().grad().unwrap().to_vec::<f64>().unwrap(), [12.0, 24.0]);
        h.zero_grad();
        assert!(h.grad().is_none());
        let plain = DynTensor::from([1.0]);
        let error = plain.retain_grad().unwrap_err();
        assert_eq!(error.message(), "retain_grad: no gradient flows into f64[1]");
        x.requires_grad_(false).unwrap();
        assert!(x.register_hook(|_| None).is_err(), "frozen");
    });
}

#[test]
fn hooks_of_gradients_see_and_replace_them() {
    run(|| {
        let x = DynTensor::from([1.0, 2.0]).requires_grad();
        let h = &x * 3.0;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let halves = h.register_hook(|grad| Some(grad * 0.5)).unwrap();
        h.register_hook(move |grad| {
            sink.lock().unwrap().push(grad.to_vec::<f64>().unwrap());
            None
        })
        .unwrap();
        // Both uses together: the hook gets their sum.
        let y = h.square().sum(..) + h.sum(..);
        y.backward_with(Graph::Retain).unwrap();
        assert_eq!(*seen.lock().unwrap(), [[3.5, 6.5]]);
        assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [10.5, 19.5]);
        // As the gradient that is asked for, and with a history.
        let taken = autograd::grad_with(&y, None, &[&h], Graph::Create).unwrap().remove(0);
        assert_eq!(taken.to_vec::<f64>().unwrap(), [3.5, 6.5]);
        // This walk passes `h` as well.
        let sum = taken.sum(..);
        let curvature = autograd::grad_with(&sum, None, &[&x], Graph::Retain).unwrap().remove(0);
        assert_eq!(curvature.to_vec::<f64>().unwrap(), [1.5, 1.5]);
        halves.remove();
        x.zero_grad();
        y.backward().unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [21.0, 39.0]);
        // Of a leaf: what one walk brings, before it is added.
        let clip = x.register_hook(|grad| Some(grad.clamp_max(1.0))).unwrap();
        (&x * 5.0).sum(..).backward().unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [22.0, 40.0]);
        clip.remove();
        let bad = x.register_hook(|grad| Some(grad.sum(..))).unwrap();
        let error = x.square().sum(..).backward().unwrap_err();
        assert_eq!(error.message(), "register_hook: gave f64[] for a gradient f64[2]");
        bad.remove();
        x.square().sum(..).backward().unwrap();
    });
}
