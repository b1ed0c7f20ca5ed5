//! Every row of the op table on operands in every layout: split along each dimension, whole, on one
//! member, partial, placed by signals. Random tapes give the operands.

mod layouts;
mod recorder;
mod samples;

use std::collections::BTreeMap;

use gt_compiler::shard::{Rates, at};
use gt_ir::attr::{Axis, Extent, Reduce};
use gt_ir::layout::Layout;
use gt_ir::signal::{ShardAxis, ShardConfig, SignalConfig};
use gt_ir::testing::{self, Source};
use gt_ir::{
    Class, DType, Emit, Entry, HostTensor, Op, OpKind, Operand, OperandType, Type, ValueId, grad,
    infer,
};
use half::f16;

use super::members::{Case, LATE, SHARED};
use layouts::{layouts, line};
use recorder::Recorder;
use samples::{Sample, samples};

/// What is compared with the interpreter's result to the bit: what rounds nothing, or each element
/// alone.
fn to_the_bit(op: &Op) -> bool {
    match op.spec().class {
        Class::Pointwise | Class::Move | Class::Source => true,
        Class::Gather => matches!(op, Op::Gather(_) | Op::IndexSelect(_)),
        Class::Reduce => matches!(
            op.kind(),
            OpKind::Max
                | OpKind::Min
                | OpKind::Argmax
                | OpKind::Argmin
                | OpKind::ArgSort
                | OpKind::Any
                | OpKind::All
                | OpKind::MaxPool2d
        ),
        Class::Contract | Class::Matrix => false,
    }
}

type Data = BTreeMap<ValueId, HostTensor>;

/// Checks a program under layouts of its values from outside, to the bit or to so many units of the
/// coarsest rounding in it.
fn check(recorder: &Recorder, data: &Data, layouts: &[Layout], n: u32, rates: Rates, units: f64) {
    let (tape, whole) = recorder.run(data);
    let outside = recorder.outside.iter().copied().zip(layouts.iter().cloned()).collect();
    let (segment, signals) = (recorder.tape.clone(), recorder.signals.clone());
    let case =
        Case { segment, outside, uploads: Vec::new(), signals, n_members: n, auto: None, rates };
    let graph = gt_ir::lower(&tape).unwrap();
    case.check(data, &whole, |_, expected, got| {
        if units == 0.0 {
            let text = || format!("{}: {:?} and {:?}", got.ty(), got.to_f64(), expected.to_f64());
            return (!testing::same_bits(got, expected)).then(text);
        }
        let coarse = testing::units(&graph, got.ty().dtype);
        testing::difference(got, expected, units * coarse)
    });
}

/// The op alone.
fn alone(sample: &Sample) {
    let units = if to_the_bit(&sample.op) { 0.0 } else { 4.0 };
    for (n, layouts) in layouts(&sample.types()) {
        let (mut recorder, data) = sample.recorder();
        recorder.emit(sample.op, &sample.operands()).unwrap();
        let rates = if n % 2 == 0 { Rates::default() } else { SHARED };
        check(&recorder, &data, &layouts, n, rates, units);
    }
}

/// The op in the scope of a signal, on uploads.
fn signalled(sample: &Sample) {
    let units = if to_the_bit(&sample.op) { 0.0 } else { 4.0 };
    for (n, axis) in [(2, 0), (3, -1), (4, 1)] {
        let shard = Some(ShardConfig { axis: ShardAxis::Number(axis), ..ShardConfig::default() });
        let (mut recorder, data) = sample.recorder();
        recorder.signals.set("a", SignalConfig { shard, ..SignalConfig::default() }).unwrap();
        recorder.uploads();
        recorder.tape.entries.insert(0, Entry::Enter("a".into()));
        recorder.emit(sample.op, &sample.operands()).unwrap();
        recorder.tape.entries.push(Entry::Exit("a".into()));
        check(&recorder, &data, &[], n, Rates::default(), units);
    }
}

/// The op on partial sums in place of each of its operands, and of all. Infinities times addends of
/// both signs are NaN, whatever the sign of the sum.
fn on_addends(sample: &Sample) {
    if sample.is_finite() {
        partial(sample, Recorder::addends);
    }
}

/// As [`on_addends`], on the largest of what members have. Only ops that move elements let these
/// pass, so no contents are positions.
fn on_maxima(sample: &Sample) {
    if sample.op.spec().class == Class::Move {
        partial(sample, |recorder, id, n, data, layouts| {
            recorder.folded(id, Op::Max, n, data, layouts)
        });
    }
}

/// What puts a partial value in the place of another one.
type Parted = fn(&mut Recorder, ValueId, u32, &mut Data, &mut Vec<Layout>) -> Option<ValueId>;

fn partial(sample: &Sample, parted: Parted) {
    let all: Vec<usize> = (0..sample.types().len()).collect();
    let sets = all.iter().map(|i| vec![*i]).chain((all.len() > 1).then(|| all.clone()));
    for which in sets {
        for n in [2, 3] {
            partial_on(sample, parted, &which, n);
        }
    }
}

/// The op with these of its tensors partial on so many members.
fn partial_on(sample: &Sample, parted: Parted, which: &[usize], n: u32) {
    let (mut recorder, mut data) = sample.recorder();
    let mut layouts: Vec<Layout> = sample.types().iter().map(|_| at(0)).collect();
    let mut operands = sample.operands();
    let mut made = Vec::new();
    for i in which {
        let id = ValueId(*i as u64);
        let Some(x) = parted(&mut recorder, id, n, &mut data, &mut layouts) else { continue };
        let is_it = |operand: &&mut Operand| **operand == Operand::Value(id);
        operands.iter_mut().filter(is_it).for_each(|operand| *operand = x.into());
        made.push(Entry::Free(x));
    }
    if !made.is_empty() {
        recorder.emit(sample.op, &operands).unwrap();
        recorder.tape.entries.extend(made);
        check(&recorder, &data, &layouts, n, LATE, 8.0);
    }
}

/// Whether an element is within a factor of 8 of the largest number of its dtype.
fn nearly_overflows(x: &HostTensor) -> bool {
    let largest = match x.ty().dtype {
        DType::F16 => f64::from(f16::MAX),
        DType::Bf16 | DType::F32 => f64::from(f32::MAX),
        DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => f64::MAX,
    };
    x.to_f64().iter().any(|x| x.abs() > largest / 8.0)
}

/// The op and its gradients.
fn gradients(sample: &Sample) {
    let types = sample.types();
    let float = |ty: &Type| ty.dtype.is_float();
    let inputs = sample.operands();
    if !grad::is_differentiable(&sample.op) || !types.iter().any(float) {
        return;
    }
    let mut source = Source::from_seed(7);
    for (n, mut layouts) in layouts(&types).into_iter().filter(|(n, _)| [2, 3].contains(n)) {
        let (mut recorder, mut data) = sample.recorder();
        let seen: Vec<OperandType> = inputs.iter().map(|o| recorder.operand_type(*o)).collect();
        let ty = infer(&sample.op, &seen).unwrap().unnamed();
        if !float(&ty) {
            return;
        }
        let grad = recorder.outside(ty);
        data.insert(grad, testing::tensor(ty, &mut source));
        layouts.push(line(n, ty.shape.rank().checked_sub(1), &ty));
        let output = recorder.emit(sample.op, &inputs).unwrap();
        let wanted = vec![true; inputs.len()];
        let (op, e) = (&sample.op, &mut recorder);
        let cx = grad::Vjp { e, op, inputs: &inputs, output, grad, wanted: &wanted };
        match (grad::vjp(cx), sample.op) {
            (Err(_), Op::Qr(Extent::Full)) => return, // a basis has no gradient
            (gradient, _) => drop(gradient.unwrap()),
        }
        // The parts of a sum that is hardly representable may be infinities of both signs.
        let (_, whole) = recorder.run(&data);
        if whole.values().any(nearly_overflows) {
            continue;
        }
        check(&recorder, &data, &layouts, n, Rates::default(), 64.0);
    }
}

#[test]
fn every_op_in_every_layout() {
    samples(2).iter().for_each(alone);
}

#[test]
fn every_op_under_signals() {
    samples(2).iter().for_each(signalled);
}

#[test]
fn every_op_on_partial_sums() {
    samples(3).iter().for_each(on_addends);
}

#[test]
fn every_movement_of_partial_maxima() {
    samples(3).iter().for_each(on_maxima);
}

#[test]
fn every_gradient_in_every_layout() {
    samples(1).iter().for_each(gradients);
}

/// From so many elements on, members combine a part each, and gather the parts.
#[test]
fn sums_and_maxima_of_many_elements() {
    let types = ["f32[1030]", "i64[3,700]", "bf16[2,3,400]", "f64[40,1,40]", "u8[2,1024]"];
    let folds: [fn(Reduce) -> Op; 3] = [Op::Sum, Op::Max, Op::Min];
    for (ty, n) in types.iter().flat_map(|ty| [3, 4].map(|n| (ty.parse::<Type>().unwrap(), n))) {
        for fold in folds {
            let mut recorder = Recorder::default();
            let (like, mut data, mut layouts) = (recorder.outside(ty), Data::new(), vec![at(0)]);
            data.insert(like, testing::tensor(ty, &mut Source::from_seed(3)));
            let x = recorder.folded(like, fold, n, &mut data, &mut layouts).unwrap();
            recorder.emit(Op::Cat(Axis(0)), &[x.into(), x.into()]).unwrap();
            check(&recorder, &data, &layouts, n, Rates::default(), 8.0);
        }
    }
}
