//! Data for random tapes, and the comparison of results.
//!
//! Inputs are multiples of 1/8 from -2 to 2. Sums and products of a few of them are exact in every
//! float dtype, so that a difference between engines is a mistake and not a rounding.

use std::collections::BTreeMap;

use half::{bf16, f16};

use super::Source;
use crate::{
    data::HostTensor,
    dtype::DType,
    graph::Graph,
    op::{Class, Op},
    shape::Type,
    tape::{Entry, Tape, ValueId},
};

/// Data for the inputs of a tape.
///
/// ```
/// use gt_ir::{interp, testing::{Config, Source, inputs, tape}};
/// let mut source = Source::from_seed(1);
/// let tape = tape(&mut source, &Config::integers());
/// let data = inputs(&tape, &mut source);
/// assert_eq!(interp::run(&tape, &data), interp::run(&tape, &data));
/// ```
pub fn inputs(tape: &Tape, source: &mut Source<'_>) -> BTreeMap<ValueId, HostTensor> {
    inputs_by(tape, |ty| tensor(ty, source))
}

/// As [`inputs`], with infinities, NaN, negative zeros and subnormal numbers among the floats.
pub fn special_inputs(tape: &Tape, source: &mut Source<'_>) -> BTreeMap<ValueId, HostTensor> {
    inputs_by(tape, |ty| special_tensor(ty, source))
}

/// One tensor for each input of the tape, in the order of its entries: the source is drawn from in
/// this order, so equal seeds give equal data.
fn inputs_by(
    tape: &Tape,
    mut make: impl FnMut(Type) -> HostTensor,
) -> BTreeMap<ValueId, HostTensor> {
    let inputs = tape.entries.iter().filter_map(|entry| match entry {
        Entry::Input { out, ty, name: _ } => Some((*out, *ty)),
        Entry::Instr(_)
        | Entry::Free(_)
        | Entry::Enter(_)
        | Entry::Exit(_)
        | Entry::Output { .. } => None,
    });
    inputs.map(|(id, ty)| (id, make(ty))).collect()
}

/// A tensor of small numbers: integers within the dtype's reach, floats that every float dtype
/// holds exactly.
pub fn tensor(ty: Type, source: &mut Source<'_>) -> HostTensor {
    tensor_of(ty, || {
        let n = source.below(33) as i64 - 16;
        (n, n as f64 / 8.0)
    })
}

/// As [`tensor`], but every eighth float is a special one.
pub fn special_tensor(ty: Type, source: &mut Source<'_>) -> HostTensor {
    const SPECIAL: [f64; 6] = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 0.0, 1e-40];
    tensor_of(ty, || {
        let n = source.below(33) as i64 - 16;
        let float = if source.chance(1, 8) { SPECIAL[source.below(6)] } else { n as f64 / 8.0 };
        (n, float)
    })
}

/// A tensor of which each element is given as an integer and as a float; the dtype decides which of
/// them is used. A `bool` is true for a positive integer.
fn tensor_of(ty: Type, mut element: impl FnMut() -> (i64, f64)) -> HostTensor {
    let mut bytes = Vec::with_capacity(ty.bytes());
    for _ in 0..ty.shape.numel() {
        let (n, float) = element();
        match ty.dtype {
            DType::F32 => bytes.extend((float as f32).to_ne_bytes()),
            DType::F64 => bytes.extend(float.to_ne_bytes()),
            DType::Bf16 => bytes.extend(bf16::from_f64(float).to_ne_bytes()),
            DType::F16 => bytes.extend(f16::from_f64(float).to_ne_bytes()),
            DType::I64 => bytes.extend(n.to_ne_bytes()),
            DType::I32 => bytes.extend((n as i32).to_ne_bytes()),
            DType::U8 => bytes.push(n as u8),
            DType::Bool => bytes.push(u8::from(n > 0)),
        }
    }
    HostTensor::new(ty, bytes.into()).expect("as many elements as the type has, each of its size")
}

/// The first difference between two results that rounding does not explain: integers and bools
/// agree to the bit, floats to a few units of the dtype relative to the largest element (or
/// `tolerance` times as many), `nan` with `nan`.
///
/// The tolerance is relative to the largest finite element and not to each one, because an element
/// near 0 is often the difference of two large numbers.
///
/// ```
/// use gt_ir::{HostTensor, Shape, testing::difference};
/// let shape = Shape::new(&[3])?;
/// let a = HostTensor::from_vec([1000.0_f32, 0.0, f32::NAN].to_vec(), shape)?;
/// let b = HostTensor::from_vec([1000.0_f32, 0.0001, f32::NAN].to_vec(), shape)?;
/// assert_eq!(difference(&a, &b, 1.0), None);
/// assert!(difference(&a, &b, 0.01).is_some());
/// # Ok::<(), gt_ir::OpError>(())
/// ```
pub fn difference(a: &HostTensor, b: &HostTensor, tolerance: f64) -> Option<String> {
    let (ty, other) = (a.ty(), b.ty());
    if !ty.same_layout(other) {
        return Some(format!("types {ty} and {other}"));
    }
    if !ty.dtype.is_float() {
        return (a.bytes() != b.bytes())
            .then(|| format!("{ty}: {:?} and {:?}", a.to_f64(), b.to_f64()));
    }
    let unit = match ty.dtype {
        DType::F64 => 1e-14,
        DType::Bf16 => 1e-2,
        DType::F16 => 2e-3,
        DType::F32 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => 1e-6,
    };
    let (a, b) = (a.to_f64(), b.to_f64());
    let largest =
        a.iter().chain(&b).filter(|x| x.is_finite()).fold(1.0, |m: f64, x| m.max(x.abs()));
    let near = |x: f64, y: f64| {
        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= unit * tolerance * largest
    };
    let at = a.iter().zip(&b).position(|(x, y)| !near(*x, *y))?;
    Some(format!("{ty}: element {at} is {} and {}", a[at], b[at]))
}

/// Whether a tape has no digits to agree in: a sine of something huge turns the last bit of its
/// argument into anything. Powers are huge, and so are sums of integers.
pub fn ill_conditioned(tape: &Tape) -> bool {
    let has = |f: fn(&Op) -> bool| tape.instrs().any(|i| f(&i.op));
    let grows = |op: &Op| {
        matches!(op, Op::Exp | Op::Exp2 | Op::Expm1 | Op::Pow | Op::Sum(_) | Op::CumSum(_))
    };
    has(|op| op.spec().class == Class::Matrix)
        || has(|op| matches!(op, Op::Sin | Op::Cos)) && has(grows)
}

/// The distance from 1 to the next number of a float dtype. Integers are exact, so theirs is next
/// to nothing.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => f64::from(f32::EPSILON),
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => f64::MIN_POSITIVE,
    }
}

/// The coarsest rounding anywhere in a graph, in units of a dtype's precision: a later cast to a
/// finer dtype does not undo it.
///
/// A comparison of two engines multiplies its tolerance by this number.
pub fn units(graph: &Graph, dtype: DType) -> f64 {
    let roundings = graph.ids().map(|id| epsilon(graph.node(id).ty.dtype));
    roundings.fold(0.0, f64::max) / epsilon(dtype)
}

/// Whether two tensors are the same to the bit, every `nan` being the same.
pub fn same_bits(a: &HostTensor, b: &HostTensor) -> bool {
    let nan = |x: f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
    let bits = |t: &HostTensor| t.to_f64().into_iter().map(nan).collect::<Vec<_>>();
    a.ty().same_layout(b.ty()) && (a.bytes() == b.bytes() || bits(a) == bits(b))
}
