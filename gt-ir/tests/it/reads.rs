//! Which operands a gradient rule reads depends on the op, on which operands are literals or zeros
//! and on which gradients are wanted, and on no shape: recorders remember it by those, and keep no
//! other values.

use std::collections::BTreeMap;

use gt_ir::{
    OpKind, Operand, OperandType, Type, ValueId,
    grad::reads,
    infer,
    op::Grad,
    testing::{Config, Source, tape},
};

#[test]
fn rules_read_the_same_whatever_the_shapes() {
    type Key = (OpKind, Vec<Option<bool>>, Vec<bool>);
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
            let output = infer(&instr.op, &operands).unwrap();
            types.insert(instr.out, output);
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
                let is_zero = |operand: &OperandType| match operand {
                    OperandType::Scalar(scalar) => Some(scalar.as_f64() == 0.0),
                    OperandType::Tensor(_) => None,
                };
                let literals: Vec<Option<bool>> = operands.iter().map(is_zero).collect();
                let Ok(read) = reads(&instr.op, &operands, output, &wanted) else { continue };
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
