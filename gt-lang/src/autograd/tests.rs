//! Gradients against finite differences, op by op on random shapes; the graph's life and its errors.

mod functions;
mod rows;

use std::collections::BTreeSet;

use gt_ir::attr::{Axis, Pad};
use gt_ir::op::Grad;
use gt_ir::{DType, Op, OpKind};

use super::*;
use crate::core::{Arg, keepdim, step};
use crate::no_grad::no_grad;
use crate::reference::Reference;
use crate::session::Session;

/// SplitMix64: the tests' own source of numbers.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Uniform in `[low, high)`.
    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
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

/// Numbers an op is smooth on.
#[derive(Clone, Copy)]
enum Domain {
    Any,
    /// In `[0.3, 2)`.
    Positive,
    /// No closer to zero than 0.2.
    NotZero,
}

struct Input {
    shape: Vec<usize>,
    domain: Domain,
}

type Function = dyn Fn(&[DynTensor]) -> DynTensor;

struct Case {
    name: String,
    inputs: Vec<Input>,
    f: Box<Function>,
    /// Distance of the finite difference, and the error allowed.
    eps: f64,
    tolerance: f64,
}

fn case(
    name: impl Into<String>,
    inputs: &[(&[usize], Domain)],
    f: impl Fn(&[DynTensor]) -> DynTensor + 'static,
) -> Case {
    let inputs = inputs
        .iter()
        .map(|(shape, domain)| Input { shape: shape.to_vec(), domain: *domain })
        .collect();
    Case { name: name.into(), inputs, f: Box::new(f), eps: 1e-5, tolerance: 1e-6 }
}

fn pointwise(rng: &mut Rng) -> Vec<Case> {
    use Domain::*;
    type Unary = fn(&DynTensor) -> DynTensor;
    let unary: &[(&str, Domain, Unary)] = &[
        ("neg", Any, DynTensor::neg),
        ("abs", NotZero, DynTensor::abs),
        ("exp", Any, DynTensor::exp),
        ("log", Positive, DynTensor::log),
        ("sqrt", Positive, DynTensor::sqrt),
        ("rsqrt", Positive, DynTensor::rsqrt),
        ("sin", Any, DynTensor::sin),
        ("cos", Any, DynTensor::cos),
        ("tanh", Any, DynTensor::tanh),
        ("erf", Any, DynTensor::erf),
        ("sigmoid", Any, DynTensor::sigmoid),
        ("relu", NotZero, DynTensor::relu),
        ("gelu", Any, DynTensor::gelu),
        ("gelu_tanh", Any, DynTensor::gelu_tanh),
        ("square", Any, DynTensor::square),
        ("x + 2", Any, |x| x + 2.0),
        ("2 - x", Any, |x| 2 - x),
        ("x * 3", Any, |x| x * 3),
        ("2 / x", NotZero, |x| 2.0 / x),
        ("x / 3", Any, |x| x / 3),
        ("x ** 2", Any, |x| x.pow(2)),
        ("x ** 3.5", Positive, |x| x.pow(3.5)),
        ("x ** -1", NotZero, |x| x.pow(-1.0)),
        ("x ** 0", Any, |x| x.pow(0.0)),
        ("2 ** x", Any, |x| DynTensor::record(Op::Pow, &[Arg::from(2.0), Arg::Tensor(x)])),
        ("clamp", Any, |x| x.clamp(-0.5, 0.5)),
        ("x * x", Any, |x| x * x),
        ("where", Any, |x| x.lt(0.1).where_(&x.exp(), &(x * 2.0))),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for &(name, domain, f) in unary {
        cases.push(case(name, &[(&rng.shape(0), domain)], move |x| f(&x[0])));
    }
    type Binary = fn(&DynTensor, &DynTensor) -> DynTensor;
    let binary: &[(&str, Domain, Binary)] = &[
        ("add", Any, |x, y| x + y),
        ("sub", Any, |x, y| x - y),
        ("mul", Any, |x, y| x * y),
        ("div", NotZero, |x, y| x / y),
        ("pow", Positive, |x, y| x.pow(y)),
        ("maximum", Any, |x, y| x.maximum(y)),
        ("minimum", Any, |x, y| x.minimum(y)),
        ("where of two", Any, |x, y| x.sin().gt(0.0).where_(x, y)),
    ];
    for &(name, domain, f) in binary {
        for turn in 0..4 {
            let long = rng.shape(1);
            let short = rng.broadcasting(&long);
            let (a, b) = if turn % 2 == 0 { (&long, &short) } else { (&short, &long) };
            let name = format!("{name} {a:?} {b:?}");
            cases.push(case(name, &[(a, domain), (b, domain)], move |x| f(&x[0], &x[1])));
        }
    }
    cases
}

fn reductions() -> Vec<Case> {
    use Domain::*;
    type Unary = fn(&DynTensor) -> DynTensor;
    let each: &[(&str, Unary)] = &[
        ("sum all", |x| x.sum(..)),
        ("sum", |x| x.sum(-1)),
        ("sum two, keep", |x| x.sum(keepdim([0, 2]))),
        ("mean all, keep", |x| x.mean(keepdim(..))),
        ("mean", |x| x.mean([1, 2])),
        ("max", |x| x.max(1)),
        ("max all", |x| x.max(..)),
        ("min, keep", |x| x.min(keepdim([0, -1]))),
        ("var", |x| x.var(-1)),
        ("softmax", |x| x.softmax(-1)),
        ("softmax of the first", |x| x.softmax(0)),
        ("log_softmax", |x| x.log_softmax(1)),
    ];
    let mut cases: Vec<Case> =
        each.iter().map(|&(name, f)| case(name, &[(&[2, 3, 2], Any)], move |x| f(&x[0]))).collect();
    for shape in [&[2_usize, 5][..], &[2, 2, 4]] {
        let width = shape[shape.len() - 1];
        let inputs: [(&[usize], Domain); 3] = [(shape, Any), (&[width], Any), (&[width], Any)];
        cases.push(case(format!("layer_norm {shape:?}"), &inputs, |x| {
            x[0].layer_norm(&x[1], &x[2], 1e-5)
        }));
    }
    let two: [(&[usize], Domain); 3] = [(&[2, 2, 3], Any), (&[2, 3], Any), (&[2, 3], Any)];
    cases.push(case("layer_norm over two axes", &two, |x| x[0].layer_norm(&x[1], &x[2], 1e-3)));
    let products: &[(&[usize], &[usize])] = &[
        (&[2, 3], &[3, 4]),
        (&[3], &[3]),
        (&[3], &[3, 2]),
        (&[2, 3], &[3]),
        (&[2, 2, 3], &[3, 2]),
        (&[2, 3], &[2, 3, 2]),
        (&[2, 1, 2, 3], &[3, 3, 2]),
        (&[2, 2, 3], &[3]),
        (&[3], &[2, 3, 2]),
    ];
    for &(a, b) in products {
        cases.push(case(format!("matmul {a:?} {b:?}"), &[(a, Any), (b, Any)], |x| {
            x[0].matmul(&x[1])
        }));
    }
    cases
}

fn movements(rng: &mut Rng) -> Vec<Case> {
    use Domain::*;
    type Unary = fn(&DynTensor) -> DynTensor;
    let each: &[(&str, Unary)] = &[
        ("reshape", |x| x.reshape([4, -1])),
        ("flatten", |x| x.flatten(1, -1)),
        ("unsqueeze", |x| x.unsqueeze(1)),
        ("permute", |x| x.permute([2, 0, 1])),
        ("transpose", |x| x.transpose(0, -1)),
        ("expand", |x| x.unsqueeze(1).expand([-1, 3, -1, -1])),
        ("expand, new axes", |x| x.expand([2, 2, 3, 4])),
        ("slice", |x| x.slice((1, .., step(1.., 2)))),
        ("slice, negative", |x| x.slice((.., -2..-1, -1))),
        ("narrow", |x| x.narrow(2, 1, 2)),
        ("split", |x| &x.split(3, 2)[1] * 2.0),
        ("cat", |x| DynTensor::cat([x, &(x * 2.0), x], 1)),
        ("stack", |x| DynTensor::stack([x, x], -1)),
        ("pad", |x| {
            DynTensor::record(
                Op::Pad(Pad { axis: 1, lo: 1, hi: 2, interior: 1 }),
                &[Arg::Tensor(x), Arg::from(0)],
            )
        }),
    ];
    let mut cases: Vec<Case> =
        each.iter().map(|&(name, f)| case(name, &[(&[2, 3, 4], Any)], move |x| f(&x[0]))).collect();
    let index = rng.index(3, &[2, 2, 4]);
    cases.push(case("gather", &[(&[2, 3, 4], Any)], move |x| x[0].gather(1, &index)));
    let index = rng.index(3, &[2, 2]);
    cases.push(case("index_select", &[(&[2, 3, 4], Any)], move |x| x[0].index_select(1, &index)));
    let index = rng.index(4, &[5]);
    cases.push(case("embedding", &[(&[4, 2], Any)], move |x| x[0].embedding(&index)));
    let index = rng.index(3, &[4, 2]);
    let two: [(&[usize], Domain); 2] = [(&[3, 2], Any), (&[4, 2], Any)];
    cases.push(case("scatter_add", &two, move |x| {
        DynTensor::record(
            Op::ScatterAdd(Axis(0)),
            &[Arg::Tensor(&x[0]), Arg::Tensor(&index), Arg::Tensor(&x[1])],
        )
    }));
    let index = rng.index(3, &[4]);
    cases.push(case("index_add", &two, move |x| x[0].index_add(0, &index, &x[1])));
    let two: [(&[usize], Domain); 2] = [(&[2, 1], Any), (&[2, 3], Any)];
    cases.push(case("cat of two", &two, |x| DynTensor::cat([&x[0], &x[1]], -1)));
    let logits: [(&[usize], Domain); 1] = [(&[3, 4], Any)];
    let classes = rng.index(4, &[3]);
    cases.push(case("cross_entropy", &logits, move |x| {
        crate::functional::cross_entropy(&x[0], &classes)
    }));
    // Through a narrower float only coarse differences are visible.
    let cast = case("cast", &logits, |x| (x[0].to_dtype(DType::F32) * 3.0).to_dtype(DType::F64));
    cases.push(Case { eps: 0.1, tolerance: 1e-4, ..cast });
    cases
}

/// `sum(f(x) * c)` with fixed, unequal weights `c`, so that errors do not cancel.
fn weighted(out: &DynTensor) -> DynTensor {
    let n = out.numel();
    let weights: Vec<f64> = (0..n).map(|i| 0.5 + ((i * 7) % 5) as f64 * 0.3).collect();
    out.reshape([n]).mul(&DynTensor::from_vec(weights, [n])).sum(..)
}

fn check(case: &Case, rng: &mut Rng) {
    let mut points: Vec<Vec<f64>> = Vec::new();
    for input in &case.inputs {
        let n: usize = input.shape.iter().product();
        points.push(
            (0..n)
                .map(|_| match input.domain {
                    Domain::Any => rng.uniform(-1.5, 1.5),
                    Domain::Positive => rng.uniform(0.3, 2.0),
                    Domain::NotZero => {
                        rng.uniform(0.2, 1.5) * if rng.below(2) == 0 { 1.0 } else { -1.0 }
                    }
                })
                .collect(),
        );
    }
    let tensors = |points: &[Vec<f64>]| -> Vec<DynTensor> {
        points
            .iter()
            .zip(&case.inputs)
            .map(|(p, input)| DynTensor::from_vec(p.clone(), input.shape.as_slice()))
            .collect()
    };
    let leaves: Vec<DynTensor> = tensors(&points).iter().map(DynTensor::requires_grad).collect();
    let loss = weighted(&(case.f)(&leaves));
    loss.backward().unwrap_or_else(|e| panic!("{}: {e}", case.name));
    for (i, leaf) in leaves.iter().enumerate() {
        let Some(grad) = leaf.grad() else { panic!("{}: no gradient of input {i}", case.name) };
        assert_eq!(grad.ty(), leaf.ty(), "{}", case.name);
        let grad: Vec<f64> = grad.to_vec().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        for j in 0..points[i].len() {
            let at = |delta: f64| {
                let mut moved = points.clone();
                moved[i][j] += delta;
                weighted(&(case.f)(&tensors(&moved))).item().unwrap()
            };
            let want = (at(case.eps) - at(-case.eps)) / (2.0 * case.eps);
            let close = (grad[j] - want).abs() <= case.tolerance * (1.0 + want.abs());
            assert!(
                close,
                "{}: input {i} element {j}: {} but differences say {want}",
                case.name, grad[j]
            );
        }
    }
}

fn cases(rng: &mut Rng) -> Vec<Case> {
    let mut cases = pointwise(rng);
    cases.extend(reductions());
    cases.extend(movements(rng));
    cases.extend(rows::cases(rng));
    cases
}

#[test]
fn gradients_agree_with_finite_differences() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    for seed in 0..3 {
        let mut rng = Rng(seed);
        for case in cases(&mut rng) {
            check(&case, &mut rng);
        }
    }
}

#[test]
fn every_differentiable_op_is_checked() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    session.start_trace();
    let mut rng = Rng(7);
    for case in cases(&mut rng) {
        let inputs: Vec<DynTensor> =
            case.inputs.iter().map(|i| DynTensor::ones(i.shape.as_slice(), DType::F64)).collect();
        assert_eq!((case.f)(&inputs).error(), None, "{}", case.name);
    }
    let seen: BTreeSet<OpKind> = session.stop_trace().instrs().map(|i| i.op.kind()).collect();
    // Its gradient is its own forward pass, which differs from call to call: a test by itself.
    let apart = |k: &&OpKind| **k != OpKind::Dropout;
    let differentiable =
        OpKind::ALL.iter().filter(|k| !matches!(k.spec().grad, Grad::Zero)).filter(apart);
    let missing: Vec<&str> =
        differentiable.filter(|k| !seen.contains(k)).map(|k| k.name()).collect();
    assert_eq!(missing, Vec::<&str>::new(), "no gradient case");
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
    assert!((130..170).contains(&kept), "{kept} of 200");
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
    loss.backward_with(Retain::Graph).unwrap();
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
fn what_backward_cannot_take_is_said() {
    let x = leaf(&[1.0, 2.0]);
    let error = (&x * 2.0).backward().unwrap_err();
    assert_eq!(error.message(), "backward: needs a single number, but the tensor is f64[2]");
    assert_eq!(error.cure(), Some("reduce it first, with `.mean(..)` or `.sum(..)`"));
    let plain = DynTensor::ones((), DType::F32);
    assert_eq!(
        plain.backward().unwrap_err().message(),
        "backward: the tensor requires no gradient"
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
    let error = x.assign(&DynTensor::ones([3], DType::F64)).unwrap_err();
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
