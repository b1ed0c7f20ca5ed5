//! Which operands a gradient rule reads depends on the op, on which operands are literals and on
//! which gradients are wanted, and on no shape: recorders remember it by those, and keep no other
//! values.

use std::collections::BTreeMap;

use gt_ir::{
    Emit, Op, OpError, OpKind, Operand, OperandType, Type, ValueId,
    grad::{Vjp, vjp},
    infer,
    op::Grad,
    testing::{Config, Source, tape},
};

/// Takes instructions and keeps their types, and which of the first values they read.
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
        let types: Vec<OperandType> = inputs.iter().map(|o| self.operand_type(*o)).collect();
        self.types.push(infer(&op, &types)?);
        for input in inputs {
            if let Operand::Value(value) = input {
                self.mark(*value);
            }
        }
        Ok(ValueId(self.types.len() as u64 - 1))
    }

    fn ty(&self, value: ValueId) -> Type {
        self.types[value.0 as usize]
    }
}

/// The operands and the result that the rule reads.
fn reads(op: &Op, operands: &[OperandType], wanted: &[bool]) -> Option<Vec<bool>> {
    let output = infer(op, operands).ok()?;
    let ty = |operand: &OperandType| match operand {
        OperandType::Tensor(ty) => *ty,
        OperandType::Scalar(scalar) => Type::scalar(scalar.weak_dtype()),
    };
    let n = operands.len();
    let types = operands.iter().map(ty).chain([output, output]).collect();
    let mut probe = Probe { types, read: vec![false; n + 2] };
    let name = |i: usize| ValueId(i as u64);
    let operand = |(i, operand): (usize, &OperandType)| match operand {
        OperandType::Tensor(_) => Operand::Value(name(i)),
        OperandType::Scalar(scalar) => Operand::Scalar(*scalar),
    };
    let inputs: Vec<Operand> = operands.iter().enumerate().map(operand).collect();
    let e = &mut probe;
    let rule = Vjp { e, op, inputs: &inputs, output: name(n), grad: name(n + 1), wanted };
    let grads = vjp(rule).ok()?;
    grads.into_iter().flatten().for_each(|grad| probe.mark(grad));
    probe.read.truncate(n + 1);
    Some(probe.read)
}

#[test]
fn rules_read_the_same_whatever_the_shapes() {
    type Key = (OpKind, Vec<bool>, Vec<bool>);
    let mut known: BTreeMap<String, (Vec<bool>, String)> = BTreeMap::new();
    let mut faults = BTreeMap::new();
    for seed in 0..1500 {
        let config = Config { jumps: true, ..Config::default() };
        let tape = tape(&mut Source::from_seed(seed), &config);
        let mut types: BTreeMap<ValueId, Type> = BTreeMap::new();
        for entry in &tape.entries {
            if let gt_ir::Entry::Input { out, ty, .. } = entry {
                types.insert(*out, *ty);
            }
            let gt_ir::Entry::Instr(instr) = entry else { continue };
            let operands: Vec<OperandType> = instr
                .inputs
                .iter()
                .map(|operand| match operand {
                    Operand::Value(id) => OperandType::Tensor(types[id]),
                    Operand::Scalar(scalar) => OperandType::Scalar(*scalar),
                })
                .collect();
            types.insert(instr.out, infer(&instr.op, &operands).unwrap());
            let spec = instr.op.spec();
            let looked_up = !matches!(spec.grad, Grad::Expansion | Grad::Zero) && !spec.marks.keeps;
            if !looked_up || operands.len() > 4 {
                continue;
            }
            for mask in 1..1_usize << operands.len() {
                let is_float = |i: usize| match &operands[i] {
                    OperandType::Tensor(ty) => ty.dtype.is_float(),
                    OperandType::Scalar(_) => false,
                };
                let wanted: Vec<bool> =
                    (0..operands.len()).map(|i| mask >> i & 1 == 1 && is_float(i)).collect();
                let literals: Vec<bool> =
                    operands.iter().map(|o| matches!(o, OperandType::Scalar(_))).collect();
                let Some(read) = reads(&instr.op, &operands, &wanted) else { continue };
                let key: Key = (instr.op.kind(), literals, wanted);
                let key = format!("{key:?}");
                let now = (read, format!("{} of {operands:?}", instr.op));
                let first = known.entry(key.clone()).or_insert_with(|| now.clone());
                if first.0 != now.0 {
                    faults.insert(key, format!("{first:?}\n  {now:?}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}
