//! What optimizers leave behind, and losses at their corners. Their values are checked against
//! PyTorch in `tests/it/pytorch.rs`.

use gt_ir::DType;

use super::*;
use crate::functional;
use crate::reference::Reference;

fn start() -> [f64; 3] {
    [0.7, -1.2, 0.0]
}

fn leaf() -> DynTensor {
    DynTensor::from_slice(&start(), [3]).requires_grad()
}

fn close(got: &[f64], want: &[f64]) {
    let near = got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12);
    assert!(near && got.len() == want.len(), "{got:?} is not {want:?}");
}

#[test]
fn parameters_once_and_only_those_with_a_gradient() {
    let (x, unused) = (leaf(), leaf());
    let mut sgd = Sgd::new(
        [x.clone(), x.clone(), unused.clone()],
        SgdConfig { lr: 1.0, ..SgdConfig::default() },
    );
    assert_eq!((sgd.parameters().len(), sgd.lr()), (2, 1.0));
    x.sum(..).backward().unwrap();
    sgd.set_lr(0.5);
    sgd.step().unwrap();
    close(&x.to_vec().unwrap(), &start().map(|v| v - 0.5));
    close(&unused.to_vec().unwrap(), &start());
    sgd.zero_grad();
    assert!(x.grad().is_none());
    let error = Sgd::new([x.detach()], SgdConfig::default()).step().unwrap_err();
    assert_eq!(
        error.message(),
        "sgd: the parameter f64[3] is not a leaf, so its value cannot be replaced"
    );
}

#[test]
fn steps_leak_nothing_and_record_the_same_each_time() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let w = DynTensor::ones([4], DType::F32).requires_grad();
    let mut adamw = AdamW::new([w.clone()], AdamWConfig::default());
    let mut shapes = Vec::new();
    for _ in 0..6 {
        session.start_trace();
        adamw.zero_grad();
        w.square().mean(..).backward().unwrap();
        adamw.step().unwrap();
        shapes.push(session.stop_trace().instrs().map(|i| i.op.to_string()).collect::<Vec<_>>());
        session.flush();
        assert_eq!(system.live(), 4, "the parameter, its gradient and two moments");
    }
    assert!(shapes[1..].windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn the_state_of_an_optimizer_has_no_history() {
    let w = leaf();
    let config = SgdConfig { momentum: 0.9, weight_decay: 0.1, ..SgdConfig::default() };
    let mut sgd = Sgd::new([w.clone()], config);
    for _ in 0..3 {
        sgd.zero_grad();
        w.square().sum(..).backward().unwrap();
        sgd.step().unwrap();
    }
    assert!(sgd.state().all(|velocity| !velocity.is_tracked()));
    assert_eq!(sgd.state().count(), 1);
}

#[test]
fn clipping_scales_all_gradients_by_one_number() {
    let (x, y, unused) = (leaf(), leaf(), leaf());
    (x.sum(..) * 3.0 + y.slice(0) * -3.0).backward().unwrap();
    let all = [x.clone(), y.clone(), unused.clone()];
    assert_eq!(clip_grad_norm(&all, 100.0).item().unwrap(), 6.0);
    close(&x.grad().unwrap().to_vec().unwrap(), &[3.0; 3]);
    assert_eq!(clip_grad_norm(&all, 0.6).item().unwrap(), 6.0);
    let (x, y): (Vec<f64>, Vec<f64>) =
        (x.grad().unwrap().to_vec().unwrap(), y.grad().unwrap().to_vec().unwrap());
    assert!(x.iter().all(|g| (g - 0.3).abs() < 1e-6) && (y[0] + 0.3).abs() < 1e-6);
    assert!(unused.grad().is_none());
    assert_eq!(clip_grad_norm(&[unused], 1.0).item().unwrap(), 0.0);
}

#[test]
fn an_error_in_a_gradient_reaches_the_parameter() {
    let w = leaf();
    w.set_grad(Some(leaf().sum(5)));
    Sgd::new([w.clone()], SgdConfig::default()).step().unwrap();
    assert!(w.to_vec::<f64>().unwrap_err().message().starts_with("sum: axis 5"));
}

#[test]
fn losses_are_pytorchs() {
    let check = |loss: DynTensor, want: f64| {
        assert!((loss.item().unwrap() - want).abs() < 1e-6, "{loss} is not {want}")
    };
    let f = |v: &[f32]| DynTensor::from_slice(v, [v.len()]);
    check(functional::mse_loss(&f(&[1.0, 2.0]), &f(&[3.0, 5.0])), 6.5);
    check(functional::l1_loss(&f(&[1.0, 2.0]), &f(&[3.0, 5.0])), 2.5);
    let logits = DynTensor::from_slice(&[1.0_f32, 2.0, 3.0, 1.0, 2.0, 3.0], [2, 3]);
    let classes = DynTensor::from_slice(&[2_i64, 0], [2]);
    check(functional::cross_entropy(&logits, &classes), 1.407_605_964_4);
    let deep = logits.reshape([1, 2, 3]);
    check(functional::cross_entropy(&deep, &classes.reshape([1, 2])), 1.407_605_964_4);
    let (p, y) = (f(&[0.5, 0.9]), f(&[1.0, 0.0]));
    check(functional::binary_cross_entropy(&p, &y), 1.497_866_136_8);
    check(functional::binary_cross_entropy(&f(&[1.0, 0.0]), &f(&[0.0, 1.0])), 100.0);
    check(functional::binary_cross_entropy_with_logits(&f(&[0.0, 2.0]), &y), 1.410_037_595_8);
    check(functional::binary_cross_entropy_with_logits(&f(&[1000.0]), &f(&[0.0])), 1000.0);
}

#[test]
fn losses_and_bounds_have_gradients_at_their_corners() {
    let gradient = |x: f64, loss: &dyn Fn(&DynTensor) -> DynTensor| {
        let x = DynTensor::from_vec(vec![x], [1]).requires_grad();
        loss(&x).sum(..).backward().unwrap();
        x.grad().unwrap().item().unwrap()
    };
    let y = |y: f64| DynTensor::from_vec(vec![y], [1]);
    // Weights that start at zero make logits of zero: there, sigmoid(x) - y.
    let logits = functional::binary_cross_entropy_with_logits;
    assert_eq!(gradient(0.0, &|x| logits(x, &y(1.0))), -0.5);
    assert_eq!(gradient(0.0, &|x| logits(x, &y(0.0))), 0.5);
    // Certain and right: the slope of the logarithm that counts, nothing of the other, which is
    // infinite.
    for (p, slope) in [(0.0, 1.0), (1.0, -1.0)] {
        assert_eq!(gradient(p, &|x| functional::binary_cross_entropy(x, &y(p))), slope);
    }
    assert!(functional::binary_cross_entropy(&y(f64::NAN), &y(1.0)).item().unwrap().is_nan());
    // An element on a bound keeps its gradient, as in PyTorch.
    for (x, inside) in [(-0.1, 0.0), (0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (1.1, 0.0)] {
        assert_eq!(gradient(x, &|x| x.clamp(0.0, 1.0)), inside, "{x}");
    }
    let ends = DynTensor::from_vec(vec![f64::NAN, f64::INFINITY, -2.0, 0.5], [4]).clamp(-1.0, 1.0);
    let ends = ends.to_vec::<f64>().unwrap();
    assert!(ends[0].is_nan());
    assert_eq!(ends[1..], [1.0, -1.0, 0.5]);
}
