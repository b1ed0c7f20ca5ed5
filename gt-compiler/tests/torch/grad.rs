//! The gradient rule of every differentiable row against libtorch's autograd of its own operator.

use std::collections::BTreeSet;

use gt_compiler::torch::ops::{self, Arg, dtype_of, kind_of, type_of};
use gt_ir::{
    DType, Emit, HostTensor, Op, OpError, OpKind, Operand, Type, ValueId,
    grad::{Vjp, is_differentiable, vjp},
    interp,
    testing::{Config, difference},
};
use tch::{Device, Tensor};

use crate::{
    forward::{UNJUDGED, instructions, shown},
    own::own,
    sweeps,
};

/// Runs what gradient rules emit, at once.
#[derive(Default)]
struct Eager(Vec<Tensor>);

impl Eager {
    fn push(&mut self, value: Tensor) -> ValueId {
        self.0.push(value);
        ValueId(self.0.len() as u64 - 1)
    }

    fn get(&self, id: ValueId) -> &Tensor {
        &self.0[id.0 as usize]
    }
}

impl Emit for Eager {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let args = inputs.iter().map(|operand| match operand {
            Operand::Value(id) => Arg::Tensor(self.get(*id)),
            Operand::Scalar(scalar) => Arg::Scalar(*scalar),
        });
        let args: Vec<Arg<'_>> = args.collect();
        let result = ops::eval(&op, &args, Device::Cpu);
        let result = result.unwrap_or_else(|e| panic!("{}: {e}", shown(&op, &args)));
        Ok(self.push(result))
    }

    fn ty(&self, value: ValueId) -> Type {
        type_of(self.get(value)).unwrap()
    }
}

/// Gradients by GT's rule, one for each operand that can have one.
fn ours(op: &Op, args: &[Arg<'_>], weights: &Tensor) -> Vec<Option<Tensor>> {
    let mut e = Eager::default();
    let inputs: Vec<Operand> = args
        .iter()
        .map(|arg| match arg {
            Arg::Tensor(tensor) => e.push(tensor.shallow_clone()).into(),
            Arg::Scalar(scalar) => (*scalar).into(),
        })
        .collect();
    let output = e.emit(*op, &inputs).unwrap();
    let grad = e.push(weights.shallow_clone());
    let wanted = vec![true; inputs.len()];
    let cx = Vjp { e: &mut e, op, inputs: &inputs, output, grad, wanted: &wanted };
    let grads = vjp(cx).unwrap();
    grads.iter().map(|id| id.map(|id| e.get(id).shallow_clone())).collect()
}

/// Gradients by libtorch's autograd, for the float operands; `None` where it has no such operator.
fn theirs(op: &Op, args: &[Arg<'_>], weights: &Tensor) -> Option<Vec<Option<Tensor>>> {
    let leaves: Vec<Option<Tensor>> = args.iter().map(leaf).collect();
    let tracked: Vec<Arg<'_>> = args
        .iter()
        .zip(&leaves)
        .map(|(arg, leaf)| leaf.as_ref().map_or(*arg, Arg::Tensor))
        .collect();
    let out = own(op, &tracked).unwrap()?;
    let loss = (out * weights).sum(None);
    let floats: Vec<&Tensor> = leaves.iter().flatten().collect();
    let mut grads = match Tensor::f_run_backward(&[loss], &floats, false, false) {
        Ok(grads) => grads.into_iter(),
        // The power rule subtracts 1 from an exponent that may be bool.
        Err(error) if error.to_string().contains("with a bool tensor") => return None,
        Err(error) => panic!("{}: {error}", shown(op, args)),
    };
    Some(leaves.iter().map(|leaf| leaf.as_ref().and_then(|_| grads.next())).collect())
}

fn leaf(arg: &Arg<'_>) -> Option<Tensor> {
    match arg {
        Arg::Tensor(tensor) if dtype_of(tensor).unwrap().is_float() => {
            Some(tensor.detach().copy().set_requires_grad(true))
        }
        Arg::Tensor(_) | Arg::Scalar(_) => None,
    }
}

/// Unequal weights, so that errors do not cancel.
fn weights(op: &Op, args: &[Arg<'_>]) -> Option<Tensor> {
    let out = ops::eval(op, args, Device::Cpu).unwrap();
    let ty = type_of(&out).unwrap();
    let n = ty.shape.numel();
    let weights: Vec<f32> = (0..n).map(|i| 0.5 + (i * 7 % 5) as f32 * 0.25).collect();
    let host = HostTensor::from_vec(weights, ty.shape).unwrap();
    let there = ops::upload(&host, Device::Cpu).unwrap();
    ty.dtype.is_float().then(|| there.to_kind(kind_of(ty.dtype)))
}

/// The rows whose gradient differs from libtorch's on purpose.
///
/// | row | where | GT | libtorch | why |
/// |---|---|---|---|---|
/// | `maximum`, `minimum` | a NaN operand | 0 to both | all to both | NaN is not equal to itself |
/// | `relu` | NaN | 0 | all | NaN is not above 0 |
/// | `clamp` | x at a bound | shared | all to x | as `maximum` and `minimum` share |
/// | `prod`, `cumprod` | infinity, NaN | product of others | NaN | libtorch divides by it |
/// | `pow` | 0 to a negative power | 0 to the exponent | -inf | the base has no logarithm |
/// | `max_pool2d` | infinity, NaN | all equal to the largest | the first | padding is -inf, too |
/// | `exp2` | an infinite `f16` | infinity | a number | libtorch computes in `f32` here |
/// | `remainder`, `fmod` | next to a jump | either side | either side | rounding of the quotient |
///
/// The gradient of `maximum`, `minimum` and `relu` flows to the operand that equals the result, as
/// in JAX. This function replaces NaN in their operands, so that the other elements are compared.
/// The last six rows are not compared at the listed values.
fn defined(op: &Op, args: &[Arg<'_>]) -> Vec<Option<Tensor>> {
    let differs = matches!(op, Op::Maximum | Op::Minimum | Op::Relu);
    let replaced = |arg: &Arg<'_>| match arg {
        Arg::Tensor(x) if differs && dtype_of(x).unwrap().is_float() => {
            Some(x.masked_fill(&x.isnan(), 0.75))
        }
        Arg::Tensor(_) | Arg::Scalar(_) => None,
    };
    args.iter().map(replaced).collect()
}

/// Whether the operands are where one of the last six rows of the table applies.
fn is_apart(op: &Op, args: &[Arg<'_>]) -> bool {
    let holds = |found: Tensor| found.any().int64_value(&[]) == 1;
    let wide = |arg: &Arg<'_>| match arg {
        Arg::Tensor(x) => x.to_kind(tch::Kind::Double),
        Arg::Scalar(s) => Tensor::from(s.as_f64()),
    };
    match op {
        Op::Clamp => {
            let [x, low, high] = [0, 1, 2].map(|i| wide(&args[i]));
            holds(x.eq_tensor(&low)) || holds(x.eq_tensor(&high)) || holds(low.ge_tensor(&high))
        }
        Op::Prod(_) | Op::CumProd(_) | Op::MaxPool2d(_) => {
            holds(wide(&args[0]).isfinite().logical_not())
        }
        Op::Pow => {
            let [base, exponent] = [0, 1].map(|i| wide(&args[i]));
            holds(base.eq(0.0).logical_and(&exponent.lt(0.0)))
        }
        Op::Exp2 => {
            let narrow = |x: &Tensor| dtype_of(x).unwrap() == DType::F16;
            matches!(&args[0], Arg::Tensor(x) if narrow(x)) && holds(wide(&args[0]).ge(16.0))
        }
        Op::Remainder | Op::Fmod => {
            let quotient = wide(&args[0]) / wide(&args[1]);
            holds((&quotient - quotient.round()).abs().lt(1e-3))
        }
        _ => false,
    }
}

/// What differs, if anything; `None` where there is nothing to compare.
fn compare(op: &Op, args: &[Arg<'_>], near: Near) -> Option<Result<(), String>> {
    let defined = defined(op, args);
    let args: Vec<Arg<'_>> =
        args.iter().zip(&defined).map(|(a, d)| d.as_ref().map_or(*a, Arg::Tensor)).collect();
    if !is_differentiable(op) || args.iter().filter_map(leaf).count() == 0 || is_apart(op, &args) {
        return None;
    }
    let weights = weights(op, &args)?;
    let (result, theirs) = (dtype_of(&weights).unwrap(), theirs(op, &args, &weights)?);
    for (i, (ours, theirs)) in ours(op, &args, &weights).iter().zip(&theirs).enumerate() {
        let found = match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                let [ours, theirs] = [ours, theirs].map(|t| ops::download(t).unwrap());
                near(op, result, &ours, &theirs)
            }
            (None, None) => None,
            // Nothing depends on an element where there is none.
            (None, Some(theirs)) if theirs.numel() == 0 => None,
            (ours, _) => Some(format!("GT gives {}", if ours.is_some() { "one" } else { "none" })),
        };
        if let Some(found) = found {
            return Some(Err(format!("operand {i}: {found}: {}", shown(op, &args))));
        }
    }
    Some(Ok(()))
}

/// The first difference of two gradients of an op whose result has a dtype.
type Near = fn(&Op, DType, &HostTensor, &HostTensor) -> Option<String>;

/// To 4e-5 of the largest element for `f32`, to three roundings of narrow floats; to six for
/// `rsqrt`, since libtorch takes the third power of its narrow result, and rounds each product. The
/// gradient of a wide operand is as precise as the result.
fn altogether(op: &Op, result: DType, ours: &HostTensor, theirs: &HostTensor) -> Option<String> {
    let digits = |dtype| match dtype {
        DType::Bf16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        _ => 53,
    };
    let own = digits(ours.ty().dtype);
    let least = own.min(digits(result));
    let units = match (least < digits(DType::F32), op) {
        (true, Op::Rsqrt) => 3.0,
        (true, _) => 1.5,
        (false, _) => 40.0,
    };
    difference(ours, theirs, units * f64::from(own - least).exp2())
}

/// To 1e-4 of each element for `f32`, and zeros where the others have subnormals.
fn each(op: &Op, result: DType, ours: &HostTensor, theirs: &HostTensor) -> Option<String> {
    if ours.ty() != theirs.ty() {
        return altogether(op, result, ours, theirs);
    }
    let (unit, least) = match ours.ty().dtype {
        DType::F64 => (1e-11, 1e-300),
        DType::F16 => (1e-2, 1e-6),
        DType::Bf16 => (5e-2, 1e-37),
        _ => (1e-4, 1e-37),
    };
    let (a, b) = (ours.to_f64(), theirs.to_f64());
    let near = |x: f64, y: f64| {
        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= unit * x.abs().max(y.abs()) + least
    };
    let at = a.iter().zip(&b).position(|(x, y)| !near(*x, *y))?;
    Some(format!("{}: element {at} is {} and {}", ours.ty(), a[at], b[at]))
}

/// The arguments of a sweep, brought to libtorch.
fn uploaded(args: &[interp::Arg<'_>]) -> Vec<Tensor> {
    let tensors = args.iter().filter_map(|arg| match arg {
        interp::Arg::Tensor(tensor) => Some(ops::upload(tensor, Device::Cpu).unwrap()),
        interp::Arg::Scalar(_) => None,
    });
    tensors.collect()
}

#[test]
fn gradients_at_the_edges() {
    let mut faults = Vec::new();
    sweeps::pointwise_ops_at_the_edges(&mut |op, args| {
        let tensors = uploaded(args);
        let there: Vec<Arg<'_>> = tensors.iter().map(Arg::Tensor).collect();
        let broadcasts = tensors.iter().any(|t| t.size() != tensors[0].size());
        let near = if broadcasts { altogether } else { each };
        faults.extend(compare(op, &there, near).and_then(Result::err));
        interp::eval(op, args).unwrap()
    });
    none(&faults);
}

/// Shows the first of them.
fn none(faults: &[String]) {
    let few = faults[..faults.len().min(20)].join("\n");
    assert!(faults.is_empty(), "{} faults\n{few}", faults.len());
}

/// All rows in 600 programs. Operands of some rows are seldom where the gradients have to agree, so
/// rows that were not compared by then are looked for in further programs.
#[test]
fn every_gradient_is_libtorchs() {
    let (mut judged, mut faults) = (BTreeSet::new(), Vec::new());
    let config = Config { jumps: true, ..Config::default() };
    for first in (0..6_000).step_by(600) {
        instructions(&config, first..first + 600, |op, args| {
            if (first == 0 || !judged.contains(&op.kind()))
                && let Some(result) = compare(op, args, altogether)
            {
                judged.insert(op.kind());
                faults.extend(result.err());
            }
        });
        if never(&judged).is_empty() {
            break;
        }
    }
    none(&faults);
    assert_eq!(never(&judged), Vec::<&str>::new());
}

/// The names of the differentiable rows that nothing has compared, of those that libtorch has.
fn never(judged: &BTreeSet<OpKind>) -> Vec<&'static str> {
    let missing = OpKind::ALL.iter().filter(|kind| {
        let is_differentiable = !matches!(kind.spec().grad, gt_ir::op::Grad::Zero);
        is_differentiable && !judged.contains(kind) && !UNJUDGED.contains(kind)
    });
    missing.map(|kind| kind.name()).collect()
}
