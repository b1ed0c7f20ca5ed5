//! Which values a gradient rule reads, found by running the rule once on types alone.
//!
//! Guarantees: a value no rule reads is not kept alive by the graph, so its memory can be reused at
//! once. The answer depends on the op, on which operands are literals and on which gradients are
//! wanted; it is remembered by those. Should a rule ever read more than that, `backward` reports it
//! instead of using a freed value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use gt_ir::grad::reads;
use gt_ir::op::Grad;
use gt_ir::{Op, OpKind, Operand, OperandType, Type, ValueId};
use smallvec::SmallVec;

use super::Arg;
use super::tensor::{Held, Input, Inputs, NO_TYPE, Saved, TapeValue, edge};

/// Operands the memory covers; an op with more is looked at each time.
const MAX_INPUTS: usize = 4;
const KEYS: usize = 1 << (2 * MAX_INPUTS);
const KNOWN: u8 = 1 << 7;
const OUTPUT: u8 = 1 << 6;

static MEMORY: [AtomicU8; OpKind::ALL.len() * KEYS] =
    [const { AtomicU8::new(0) }; OpKind::ALL.len() * KEYS];

/// What the rule of an instruction just recorded reads of its operands and of its result.
pub(super) fn save(
    op: &Op,
    args: &[Arg<'_>],
    held: &[Option<Held<'_>>],
    output: &Arc<TapeValue>,
) -> Saved {
    let needs = needs(op, args, held, output.ty);
    let mut inputs: Inputs = SmallVec::new();
    for (i, (arg, held)) in args.iter().zip(held).enumerate() {
        inputs.push(match (arg, held) {
            (Arg::Scalar(scalar), _) => {
                Input { operand: Operand::Scalar(*scalar), ty: NO_TYPE, value: None, edge: None }
            }
            // The values of tensors are always held.
            (Arg::Tensor(_), None) => continue,
            (Arg::Tensor(tensor), Some(held)) => Input {
                operand: held
                    .place()
                    .map_or(Operand::Value(ValueId(u64::MAX)), |(_, id)| Operand::Value(id)),
                ty: held.ty,
                value: needs.input(i).then(|| Arc::clone(held)),
                edge: edge(tensor),
            },
        });
    }
    Saved { inputs, output: needs.output().then(|| output.clone()), rule: None }
}

/// The values a rule reads.
enum Needs {
    /// Bit `i` for operand `i`, bit 6 for the result.
    Few(u8),
    Many {
        inputs: Vec<bool>,
        output: bool,
    },
}

impl Needs {
    /// Whether operand `i` is read.
    fn input(&self, i: usize) -> bool {
        match self {
            Needs::Few(bits) => bits >> i & 1 == 1,
            Needs::Many { inputs, .. } => inputs[i],
        }
    }

    /// Whether the result is read.
    fn output(&self) -> bool {
        match self {
            Needs::Few(bits) => bits & OUTPUT != 0,
            Needs::Many { output, .. } => *output,
        }
    }
}

/// What the rule of `op` reads when the gradients of the tracked operands are wanted.
fn needs(op: &Op, args: &[Arg<'_>], held: &[Option<Held<'_>>], output: Type) -> Needs {
    if matches!(op.spec().grad, Grad::Expansion) || op.spec().marks.keeps {
        // The expansion reads the operands; which of them may depend on shapes or attributes, so
        // that none is left out.
        return Needs::Many {
            inputs: vec![true; args.len()],
            output: op.spec().marks.keeps_result,
        };
    }
    if args.len() > MAX_INPUTS {
        let (inputs, output) = probe(op, args, held, output);
        return Needs::Many { inputs, output };
    }
    let mut key = 0;
    for (i, arg) in args.iter().enumerate() {
        key |= match arg {
            // An exponent of 0 has a gradient that reads nothing.
            Arg::Scalar(scalar) if scalar.as_f64() == 0.0 => (1 | 1 << MAX_INPUTS) << i,
            Arg::Scalar(_) => 1 << i,
            Arg::Tensor(tensor) => usize::from(tensor.is_tracked()) << (MAX_INPUTS + i),
        };
    }
    let memory = &MEMORY[op.kind() as usize * KEYS + key];
    let known = memory.load(Ordering::Relaxed);
    if known & KNOWN != 0 {
        return Needs::Few(known & !KNOWN);
    }
    let (read, reads_output) = probe(op, args, held, output);
    let found = read.iter().enumerate().fold(0, |bits, (i, &read)| bits | u8::from(read) << i);
    let found = found | if reads_output { OUTPUT } else { 0 };
    memory.store(found | KNOWN, Ordering::Relaxed);
    Needs::Few(found)
}

/// Which operands the rule reads, and whether it reads the result. A rule that fails reads
/// everything: `backward` will report why.
fn probe(op: &Op, args: &[Arg<'_>], held: &[Option<Held<'_>>], output: Type) -> (Vec<bool>, bool) {
    let ty = |(arg, held): (&Arg<'_>, &Option<Held<'_>>)| match arg {
        Arg::Tensor(_) => OperandType::Tensor(held.as_ref().map_or(NO_TYPE, |value| value.ty)),
        Arg::Scalar(scalar) => OperandType::Scalar(*scalar),
    };
    let operands: SmallVec<[OperandType; 4]> = args.iter().zip(held).map(ty).collect();
    let wanted: SmallVec<[bool; 4]> =
        args.iter().map(|arg| matches!(arg, Arg::Tensor(tensor) if tensor.is_tracked())).collect();
    let found = reads(op, &operands, output, &wanted);
    let mut read = found.unwrap_or_else(|_| vec![true; args.len() + 1]);
    let reads_output = read.pop().unwrap_or(true);
    (read, reads_output)
}
