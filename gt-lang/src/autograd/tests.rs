//! The graph's life and its errors; gradients against finite differences are in `differences`,
//! gradients of gradients in `functions`.

mod differences;
mod functions;
mod mapped;
mod transforms;

use gt_ir::DType;
use gt_ir::testing::Source;

use super::*;
use crate::no_grad::no_grad;
use crate::reference::Reference;
use crate::session::Session;

/// Random shapes, numbers and indices.
pub(crate) struct Rng(Source<'static>);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(Source::from_seed(seed))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.0.bits() % n as u64) as usize
    }

    /// Uniform in `[low, high)`.
    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.0.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn shape(&mut self, low_rank: usize) -> Vec<usize> {
        let rank = low_rank + self.below(4 - low_rank);
        (0..rank).map(|_| 1 + self.below(3)).collect()
    }

    /// A shape that broadcasts with `shape`: axes dropped from the left, sizes turned to one.
    fn broadcasting(&mut self, shape: &[usize]) -> Vec<usize> {
        let drop = self.below(shape.len() + 1);
        shape[drop..].iter().map(|&s| if self.below(3) == 0 { 1 } else { s }).collect()
    }

    fn index(&mut self, below: usize, shape: &[usize]) -> DynTensor {
        let n = shape.iter().product();
        DynTensor::from_vec((0..n).map(|_| self.below(below) as i64).collect::<Vec<_>>(), shape)
    }
}

#[test]
fn dropout_drops_the_gradient_where_it_dropped_the_element() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::ones([200], DType::F64).requires_grad();
    let y = x.dropout(0.25);
    y.mul(&y).sum(..).backward().unwrap();
    let y: Vec<f64> = y.to_vec().unwrap();
    let kept = y.iter().filter(|v| **v > 0.0).count();
    // 150 are to be expected; these are six standard deviations from it.
    assert!((113..188).contains(&kept), "{kept} of 200");
    let scale = 1.0 / 0.75;
    for (y, g) in y.iter().zip(grad_of(&x)) {
        assert!((g - 2.0 * y * scale).abs() < 1e-12, "{y} {g}");
    }
}

fn leaf(values: &[f64]) -> DynTensor {
    DynTensor::from_slice(values, [values.len()]).requires_grad()
}

fn grad_of(x: &DynTensor) -> Vec<f64> {
    x.grad().unwrap().to_vec().unwrap()
}

#[test]
fn ties_share_equally() {
    let x = leaf(&[1.0, 5.0, 5.0]);
    x.max(..).backward().unwrap();
    assert_eq!(grad_of(&x), [0.0, 0.5, 0.5]);
}

#[test]
fn an_exponents_gradient_is_as_precise_as_the_power() {
    let base = DynTensor::from_slice(&[0.3_f32, 249.0], [2]);
    let y = leaf(&[0.7, -0.25]);
    base.pow(&y).sum(..).backward().unwrap();
    for (got, (x, y)) in grad_of(&y).into_iter().zip([(f64::from(0.3_f32), 0.7), (249.0, -0.25)]) {
        let want = x.powf(y) * x.ln();
        assert!((got - want).abs() < 1e-14, "{got} {want}");
    }
}

/// What a rule reads is remembered, and an exponent of 0 reads nothing.
#[test]
fn an_exponent_of_zero_does_not_decide_for_others() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = leaf(&[3.0]);
    for (exponent, slope) in [(0.0, 0.0), (2.0, 6.0), (0.0, 0.0), (3.0, 27.0)] {
        x.pow(exponent).sum(..).backward().unwrap();
        assert_eq!(grad_of(&x), [slope], "x^{exponent}");
        x.zero_grad();
    }
}

#[test]
fn gradients_accumulate_over_uses_and_calls() {
    let x = leaf(&[2.0, 3.0]);
    let loss = || (&x * &x + &x).sum(..);
    loss().backward().unwrap();
    assert_eq!(grad_of(&x), [5.0, 7.0]);
    loss().backward().unwrap();
    assert_eq!(grad_of(&x), [10.0, 14.0]);
    x.zero_grad();
    assert!(x.grad().is_none());
    x.sum(..).backward().unwrap();
    assert_eq!(grad_of(&x), [1.0, 1.0]);
}

#[test]
fn a_leaf_may_be_the_loss_and_parts_may_be_detached() {
    let x = leaf(&[2.0]);
    x.backward().unwrap();
    assert_eq!(grad_of(&x), [1.0]);
    x.zero_grad();
    (&x * x.detach()).sum(..).backward().unwrap();
    assert_eq!(grad_of(&x), [2.0]);
    assert!(!no_grad(|| &x * 2.0).is_tracked());
    assert!((&x * 2.0).is_tracked() && !(&x * 2.0).is_leaf() && x.is_leaf());
    assert!(!x.gt(1.0).is_tracked() && !x.to_dtype(DType::I64).is_tracked());
}

#[test]
fn a_second_backward_needs_the_graph_kept() {
    let x = leaf(&[3.0]);
    let loss = x.square().sum(..);
    loss.backward_with(Graph::Retain).unwrap();
    loss.backward().unwrap();
    assert_eq!(grad_of(&x), [12.0]);
    let error = loss.backward().unwrap_err();
    assert!(error.message().starts_with("backward: the graph behind `sum` at "), "{error}");
    assert!(error.message().ends_with(" was freed by an earlier backward"), "{error}");
    assert_eq!(error.loc().file(), file!());
    // A part that was not walked still works; what it shares with the freed graph does not.
    let (y, shared) = (leaf(&[1.0]), x.exp());
    shared.sum(..).backward().unwrap();
    assert!((shared * &y).sum(..).backward().unwrap_err().message().contains("`exp`"));
    assert!(y.grad().is_none(), "a failed walk hands out nothing");
}

#[test]
fn gradients_that_backward_gathers_can_have_gradients_and_be_let_go() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let x = leaf(&[2.0, 3.0]);
    x.pow(3.0).sum(..).backward_with(Graph::Create).unwrap();
    let slope = x.grad().unwrap();
    assert!(slope.is_tracked());
    assert_eq!(grad_of(&x), [12.0, 27.0]);
    // The second order is added to what is there: 3x^2 + 2 (3x^2) (6x).
    slope.square().sum(..).backward().unwrap();
    assert_eq!(grad_of(&x), [12.0 + 288.0, 27.0 + 972.0]);
    x.zero_grad();
    x.pow(3.0).sum(..).backward_with(Graph::Create).unwrap();
    x.pow(3.0).sum(..).backward_with(Graph::Create).unwrap();
    assert!(x.grad().unwrap().is_tracked(), "gathered with history over calls");
    no_grad(|| x.pow(3.0).sum(..)).backward_with(Graph::Create).unwrap_err();
    x.zero_grad();
    drop(slope);
    session.flush();
    assert_eq!(system.live(), 1, "the leaf");
}

#[test]
fn what_backward_cannot_take_is_said() {
    let x = leaf(&[1.0, 2.0]);
    let error = (&x * 2.0).backward().unwrap_err();
    assert_eq!(error.message(), "backward: needs a single number, but the tensor is f64[2]");
    assert_eq!(error.cure(), Some("reduce it first, with `.mean(..)` or `.sum(..)`"));
    let plain = DynTensor::ones((), DType::F32);
    assert_eq!(
        plain.backward().unwrap_err().message(),
        "backward: the tensor, f32[], requires no gradient"
    );
    let ints = DynTensor::ones([2], DType::I64).requires_grad();
    assert_eq!(
        ints.error().unwrap().message(),
        "requires_grad: only floats have gradients, but the tensor is i64[2]"
    );
    let bad = (&x + DynTensor::ones([3], DType::F64)).sum(..);
    assert!(bad.backward().unwrap_err().message().starts_with("add: "));
}

#[test]
fn assigning_changes_every_clone_and_frees_the_old_value() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let x = leaf(&[1.0, 2.0]);
    let clone = x.clone();
    for _ in 0..100 {
        no_grad(|| x.assign(&(&x + 1.0))).unwrap();
    }
    assert_eq!(clone.to_vec::<f64>().unwrap(), [101.0, 102.0]);
    assert_eq!(system.live(), 1);
    let error = no_grad(|| x.assign(&DynTensor::ones([3], DType::F64))).unwrap_err();
    assert_eq!(error.message(), "assign: the leaf is f64[2], but the value is f64[3]");
    let error = x.detach().assign(&x).unwrap_err();
    assert_eq!(
        error.message(),
        "assign: only a leaf can be given another value, but this f64[2] is none"
    );
}

#[test]
fn an_update_between_forward_and_backward_does_not_change_the_gradient() {
    let x = leaf(&[3.0]);
    let loss = x.square().sum(..);
    no_grad(|| x.assign(&(&x * 100.0))).unwrap();
    loss.backward().unwrap();
    assert_eq!(grad_of(&x), [6.0]);
}

#[test]
fn forward_only_loops_grow_nothing() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let w = DynTensor::ones([4, 4], DType::F32).requires_grad();
    let x = DynTensor::ones([4, 4], DType::F32);
    for _ in 0..50 {
        let loss = x.matmul(&w).relu().mean(..);
        assert_eq!(loss.item().unwrap(), 4.0);
        drop(loss);
    }
    session.flush();
    assert_eq!(system.live(), 2);
    // A recurrence cut with `detach` keeps no history either.
    let mut state = x.clone();
    for _ in 0..50 {
        state = (state.detach().matmul(&w) * 0.25).tanh();
    }
    session.flush();
    assert!(system.live() <= 5, "{}", system.live());
}

#[test]
fn the_graph_keeps_only_what_gradients_read() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::ones([8], DType::F32).requires_grad();
    // Sums, shapes and additions read no values: the whole chain is freed as it goes.
    let mut y = &x + 1.0;
    for _ in 0..20 {
        y = (&y + &x).reshape([2, 4]).t().reshape([8]);
    }
    session.flush();
    assert_eq!(system.live(), 2);
    y.sum(..).backward().unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [21.0; 8]);
}

#[test]
fn long_chains_are_walked_and_dropped_without_the_stack() {
    // A small stack makes any recursion over the chain fail at once.
    let body = || {
        let (session, system) = Reference::session();
        let _entered = session.enter();
        let x = DynTensor::ones([1], DType::F32).requires_grad();
        let chain = |n: usize| (0..n).fold(x.clone(), |y, _| y * 1.0);
        drop(chain(20_000));
        chain(20_000).sum(..).backward().unwrap();
        assert_eq!(x.grad().unwrap().item().unwrap(), 1.0);
        session.flush();
        assert_eq!(system.live(), 2);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap();
}

#[test]
fn backward_is_not_tracked_and_leaves_no_values_behind() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let x = leaf(&[1.0, 2.0]);
    for _ in 0..5 {
        x.exp().mul(&x).sum(..).backward().unwrap();
        assert!(!x.grad().unwrap().is_tracked());
    }
    session.flush();
    assert_eq!(system.live(), 2, "the leaf and its gradient");
}

#[test]
fn backward_frees_as_it_goes() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::ones([1], DType::F64).requires_grad();
    let y = (0..300).fold(x.clone(), |y, _| y.tanh());
    let loss = y.sum(..);
    drop(y);
    session.flush();
    let before = system.live();
    assert!((300..310).contains(&before), "one result for each instruction: {before}");
    loss.backward().unwrap();
    session.flush();
    assert!(system.peak() < before + 10, "{} at most, {before} before", system.peak());
    assert_eq!(system.live(), 3, "the leaf, its gradient and the loss");
}

#[test]
fn sessions_of_several_threads_do_not_meet() {
    let work = |seed: f64| {
        let (session, _) = Reference::session();
        let _entered = session.enter();
        let x = leaf(&[seed]);
        (0..50).for_each(|_| x.square().sum(..).backward().unwrap());
        assert_eq!(grad_of(&x), [100.0 * seed]);
        assert!(Session::current().unwrap().is(&session));
    };
    std::thread::scope(|scope| (1..4).for_each(|i| drop(scope.spawn(move || work(f64::from(i))))));
}
