//! Every row of the op table, on random operands of random tapes: written, or refused by name.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::interp::{self, eval};
use gt_ir::testing::{Config, Source, inputs, tape};
use gt_ir::{Entry, HostTensor, Instr, Op, OpKind, Operand, ValueId};

use super::super::{OnnxConfig, to_bytes};
use super::cases::{decoded, keep, run};
use crate::core::{Arg, DynTensor};

/// The rows that ONNX has no operators for.
const REFUSED: [&str; 12] = [
    "cholesky",
    "dropout",
    "eigh",
    "matrix_exp",
    "pinv",
    "qr",
    "rand",
    "randint",
    "randn",
    "solve",
    "svd",
    "triangular_solve",
];
/// The number of cases of each row and dtype.
const CASES: usize = 3;
/// The number of random tapes, of 12 instructions each.
const TAPES: u64 = 1500;

/// An instruction with its operands and its result.
struct Case<'a> {
    op: Op,
    args: Vec<interp::Arg<'a>>,
    result: &'a HostTensor,
}

#[derive(Default)]
struct Seen {
    written: BTreeSet<OpKind>,
    refused: BTreeMap<&'static str, String>,
    counts: BTreeMap<(OpKind, String), usize>,
}

#[test]
fn every_row_is_written_or_refused() {
    let mut seen = Seen::default();
    for seed in 0..TAPES {
        let mut source = Source::from_seed(seed);
        let tape = tape(&mut source, &Config::default());
        let mut values: BTreeMap<ValueId, HostTensor> = inputs(&tape, &mut source);
        let instrs = tape.entries.iter().filter_map(|entry| match entry {
            Entry::Instr(instr) => Some(instr),
            _ => None,
        });
        for instr in instrs {
            let result = eval(&instr.op, &args(instr, &values)).unwrap();
            let case = Case { op: instr.op, args: args(instr, &values), result: &result };
            run(|| seen.look(&case));
            values.insert(instr.out, result);
        }
    }
    let refused: Vec<&str> = seen.refused.keys().copied().collect();
    assert_eq!(refused, REFUSED, "{:?}", seen.refused);
    let missing: Vec<&str> = (OpKind::ALL.iter())
        .filter(|kind| !seen.written.contains(kind) && !refused.contains(&kind.name()))
        .map(|kind| kind.name())
        .collect();
    assert!(missing.is_empty(), "{missing:?} are neither written nor refused");
}

fn args<'a>(instr: &Instr, values: &'a BTreeMap<ValueId, HostTensor>) -> Vec<interp::Arg<'a>> {
    let arg = |operand: &Operand| match operand {
        Operand::Scalar(scalar) => interp::Arg::Scalar(*scalar),
        Operand::Value(id) => interp::Arg::Tensor(&values[id]),
    };
    instr.inputs.iter().map(arg).collect()
}

impl Seen {
    /// Exports an instruction, unless there are enough like it.
    fn look(&mut self, case: &Case<'_>) {
        let tensors = case.args.iter().filter_map(|arg| match arg {
            interp::Arg::Tensor(x) => Some((*x).clone()),
            interp::Arg::Scalar(_) => None,
        });
        let tensors: Vec<HostTensor> = tensors.collect();
        let dtype = tensors.first().map_or(case.result.ty().dtype, |x| x.ty().dtype);
        let count = self.counts.entry((case.op.kind(), dtype.to_string())).or_default();
        if *count == CASES {
            return;
        }
        *count += 1;
        let name = format!("{}-{dtype}-{count}", case.op.name());
        let inputs: Vec<DynTensor> =
            tensors.iter().map(|x| DynTensor::from_host(x.clone())).collect();
        let inputs: Vec<&DynTensor> = inputs.iter().collect();
        match to_bytes(&inputs[..], |x| record(case, &x), &OnnxConfig::default()) {
            Err(error) => {
                assert!(error.loc().file().ends_with("tests/rows.rs"), "{error}");
                assert!(error.cure().is_some(), "{error}");
                self.refused.insert(case.op.name(), error.message().to_owned());
            }
            Ok(bytes) => {
                assert_eq!(decoded(&bytes).graph.unwrap().output.len(), 1);
                keep(&name, &bytes, &tensors, std::slice::from_ref(case.result));
                self.written.insert(case.op.kind());
            }
        }
    }
}

fn record(case: &Case<'_>, inputs: &[DynTensor]) -> DynTensor {
    let mut inputs = inputs.iter();
    let args = case.args.iter().map(|arg| match arg {
        interp::Arg::Tensor(_) => Arg::Tensor(inputs.next().unwrap()),
        interp::Arg::Scalar(scalar) => Arg::Scalar(*scalar),
    });
    DynTensor::record(case.op, &args.collect::<Vec<_>>())
}
