//! Instructions with their operands, from random tapes.

use std::collections::BTreeMap;

use gt_ir::testing::{self, Config, Source};
use gt_ir::{
    Class, DType, Entry, HostTensor, Instr, Op, OpKind, Operand, Scalar, Type, ValueId, interp,
};

use super::Data;
use super::recorder::Recorder;

/// An op with its operands.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) op: Op,
    pub(super) args: Vec<Result<HostTensor, Scalar>>,
}

/// So many samples of each op for each dtype of its first operand.
pub(super) fn samples(each: usize) -> Vec<Sample> {
    let mut found: BTreeMap<(OpKind, DType), Vec<Sample>> = BTreeMap::new();
    for sample in (0..1_000).flat_map(instructions) {
        let Some(ty) = sample.types().first().copied() else { continue };
        let these = found.entry((sample.op.kind(), ty.dtype)).or_default();
        if these.len() < each {
            these.push(sample);
        }
    }
    for kind in OpKind::ALL.iter().filter(|kind| kind.spec().class != Class::Source) {
        assert!(found.keys().any(|(other, _)| other == kind), "no sample of {}", kind.name());
    }
    found.into_values().flatten().collect()
}

/// The instructions of a random tape.
fn instructions(seed: u64) -> Vec<Sample> {
    let config = Config { jumps: true, max_numel: 200, ..Config::default() };
    let mut source = Source::from_seed(seed);
    let mut tape = testing::tape(&mut source, &config);
    let data = testing::inputs(&tape, &mut source);
    tape.entries.retain(|entry| !matches!(entry, Entry::Output { .. } | Entry::Free(_)));
    let defined: Vec<ValueId> = tape.entries.iter().filter_map(Entry::defines).collect();
    let outputs = defined.iter().map(|&value| Entry::Output { value, name: None });
    tape.entries.extend(outputs);
    let values = interp::run(&tape, &data).unwrap();
    let arg = |operand: &Operand| match operand {
        Operand::Value(id) => Ok(values[id].clone()),
        Operand::Scalar(scalar) => Err(*scalar),
    };
    let sample = |i: &Instr| Sample { op: i.op, args: i.inputs.iter().map(arg).collect() };
    tape.instrs().map(sample).collect()
}

impl Sample {
    /// Whether all elements of the operands are numbers.
    pub(super) fn is_finite(&self) -> bool {
        self.args.iter().flatten().all(|x| x.to_f64().iter().all(|x| x.is_finite()))
    }

    /// The types of the operands that are tensors.
    pub(super) fn types(&self) -> Vec<Type> {
        self.args.iter().flatten().map(|tensor| *tensor.ty()).collect()
    }

    /// A program with the tensors as values from outside, numbered from 0 on.
    pub(super) fn recorder(&self) -> (Recorder, Data) {
        let mut recorder = Recorder::default();
        let tensors = self.args.iter().flatten();
        let data = tensors.map(|tensor| (recorder.outside(*tensor.ty()), tensor.clone())).collect();
        (recorder, data)
    }

    pub(super) fn operands(&self) -> Vec<Operand> {
        let mut next = 0;
        let operand = |arg: &Result<HostTensor, Scalar>| match arg {
            Err(scalar) => Operand::Scalar(*scalar),
            Ok(_) => {
                next += 1;
                Operand::Value(ValueId(next - 1))
            }
        };
        self.args.iter().map(operand).collect()
    }
}
