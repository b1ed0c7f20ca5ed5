//! Which values a gradient rule reads, found by running the rule once on types alone.
//!
//! Guarantees: a value no rule reads is not kept alive by the graph, so its memory can be reused at once. The answer
//! depends on the op, on which operands are literals and on which gradients are wanted; it is remembered by those.
//! Should a rule ever read more than that, `backward` reports it instead of using a freed value.

use std::sync::atomic::{AtomicU8, Ordering};

use gt_ir::grad::{Vjp, vjp};
use gt_ir::{Emit, Op, OpError, OpKind, Operand, OperandType, Type, ValueId, infer};
use smallvec::SmallVec;

use super::node::Input;
use crate::core::record::NO_TYPE;

/// Operands the memory covers; an op with more is looked at each time.
const MAX_INPUTS: usize = 4;
const KEYS: usize = 1 << (2 * MAX_INPUTS);
const KNOWN: u8 = 1 << 7;
const OUTPUT: u8 = 1 << 6;

static MEMORY: [AtomicU8; OpKind::ALL.len() * KEYS] =
    [const { AtomicU8::new(0) }; OpKind::ALL.len() * KEYS];

/// The values a rule reads.
pub(crate) enum Needs {
    /// Bit `i` for operand `i`, bit 6 for the result.
    Few(u8),
    Many {
        inputs: Vec<bool>,
        output: bool,
    },
}

impl Needs {
    pub(crate) fn input(&self, i: usize) -> bool {
        match self {
            Needs::Few(bits) => bits >> i & 1 == 1,
            Needs::Many { inputs, .. } => inputs[i],
        }
    }

    pub(crate) fn output(&self) -> bool {
        match self {
            Needs::Few(bits) => bits & OUTPUT != 0,
            Needs::Many { output, .. } => *output,
        }
    }
}

/// What the rule of `op` reads when the gradients of the operands with an edge are wanted.
pub(crate) fn needs(op: &Op, inputs: &[Input], output: Type) -> Needs {
    if inputs.len() > MAX_INPUTS {
        let (inputs, output) = probe(op, inputs, output);
        return Needs::Many { inputs, output };
    }
    let bits = |f: &dyn Fn(&Input) -> bool| {
        inputs.iter().enumerate().fold(0, |bits, (i, input)| bits | usize::from(f(input)) << i)
    };
    let wanted = bits(&|input| input.edge.is_some());
    let literal = bits(&|input| matches!(input.operand, Operand::Scalar(_)));
    let memory = &MEMORY[op.kind() as usize * KEYS + (wanted << MAX_INPUTS | literal)];
    let known = memory.load(Ordering::Relaxed);
    if known & KNOWN != 0 {
        return Needs::Few(known & !KNOWN);
    }
    let (read, reads_output) = probe(op, inputs, output);
    let found = read.iter().enumerate().fold(0, |bits, (i, &read)| bits | u8::from(read) << i);
    let found = found | if reads_output { OUTPUT } else { 0 };
    memory.store(found | KNOWN, Ordering::Relaxed);
    Needs::Few(found)
}

/// Runs the rule on types and notes the operands it uses. A rule that fails reads everything: `backward` will report why.
fn probe(op: &Op, inputs: &[Input], output: Type) -> (Vec<bool>, bool) {
    let n = inputs.len();
    // Names: operands 0..n (equal operands count as different ones), the result n, its gradient n + 1.
    let mut probe = Probe { types: Vec::with_capacity(n + 16), read: vec![false; n + 2] };
    probe.types.extend(inputs.iter().map(|input| match input.ty {
        OperandType::Tensor(ty) => ty,
        OperandType::Scalar(_) => NO_TYPE,
    }));
    probe.types.extend([output, output]);
    let name = |i: usize| ValueId(i as u64);
    let operands: SmallVec<[Operand; 4]> = inputs
        .iter()
        .enumerate()
        .map(|(i, input)| match input.operand {
            Operand::Value(_) => Operand::Value(name(i)),
            scalar @ Operand::Scalar(_) => scalar,
        })
        .collect();
    let wanted: SmallVec<[bool; 4]> = inputs.iter().map(|input| input.edge.is_some()).collect();
    let result = vjp(Vjp {
        e: &mut probe,
        op,
        inputs: &operands,
        output: name(n),
        grad: name(n + 1),
        wanted: &wanted,
    });
    let Ok(grads) = result else { return (vec![true; n], true) };
    // A rule may also hand back an operand or the result as a gradient.
    grads.into_iter().flatten().for_each(|grad| probe.mark(grad));
    (probe.read[..n].to_vec(), probe.read[n])
}

/// Takes instructions and keeps only their types.
struct Probe {
    types: Vec<Type>,
    read: Vec<bool>,
}

impl Probe {
    fn mark(&mut self, value: ValueId) {
        if let Some(read) = self.read.get_mut(value.0 as usize) {
            *read = true;
        }
    }
}

impl Emit for Probe {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let types: SmallVec<[OperandType; 4]> =
            inputs.iter().map(|&o| self.operand_type(o)).collect();
        let ty = infer(&op, &types)?;
        for input in inputs {
            if let Operand::Value(value) = input {
                self.mark(*value);
            }
        }
        self.types.push(ty);
        Ok(ValueId(self.types.len() as u64 - 1))
    }

    fn ty(&self, value: ValueId) -> Type {
        self.types.get(value.0 as usize).copied().unwrap_or(NO_TYPE)
    }
}
