//! The floating-point operations of an instruction: those of the primitives that it stands for.
//!
//! Estimates that rank alternatives. What an instruction reads and writes is not counted here.

use std::cell::RefCell;

use gt_ir::op::{Meaning, infer};
use gt_ir::{Class, Emit, Op, OpError, Operand, OperandType, Type, ValueId, matrix};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The most instructions whose operations are remembered.
const MAX_KNOWN: usize = 4096;

/// An op with the types of its operands.
type Case = (Op, SmallVec<[OperandType; 3]>);

thread_local! {
    static KNOWN: RefCell<FxHashMap<Case, f64>> = RefCell::default();
}

/// The operations of an op on operands of these types, whose result has this type. The same
/// instruction comes again in each layer, and for each plan.
pub(super) fn flops(op: &Op, operands: &[OperandType], out: &Type) -> f64 {
    if !matches!(op.spec().meaning, Meaning::Derived(_)) {
        return primitive(op, operands, out);
    }
    let case = (*op, SmallVec::from(operands));
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&case).copied()) {
        return known;
    }
    let flops = Count::of(op, operands).unwrap_or_else(|_| out.shape.numel() as f64);
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(case, flops);
    });
    flops
}

fn primitive(op: &Op, operands: &[OperandType], out: &Type) -> f64 {
    let tensors = || {
        operands.iter().filter_map(|operand| match operand {
            OperandType::Tensor(ty) => Some(*ty),
            OperandType::Scalar(_) => None,
        })
    };
    let first = tensors().next();
    let numel = out.shape.numel() as f64;
    match op.spec().class {
        Class::Contract => {
            let depth = first.and_then(|ty| ty.shape.sizes().last().copied()).unwrap_or(1);
            2.0 * numel * depth as f64
        }
        Class::Matrix => matrix::work(op, &tensors().collect::<Vec<_>>(), out),
        Class::Reduce => first.map_or(numel, |ty| ty.shape.numel() as f64),
        Class::Pointwise | Class::Source => numel * f64::from(op.spec().marks.weight),
        Class::Gather => numel,
        // Views, or part of what reads them.
        Class::Move => 0.0,
    }
}

/// Counts what is emitted.
struct Count {
    types: Vec<Type>,
    flops: f64,
}

impl Count {
    fn of(op: &Op, operands: &[OperandType]) -> Result<f64, OpError> {
        let mut count = Count { types: Vec::new(), flops: 0.0 };
        let mut inputs: SmallVec<[Operand; 3]> = SmallVec::new();
        for operand in operands {
            inputs.push(match operand {
                OperandType::Tensor(ty) => Operand::Value(count.value(*ty)),
                OperandType::Scalar(scalar) => Operand::Scalar(*scalar),
            });
        }
        count.emit(*op, &inputs)?;
        Ok(count.flops)
    }

    fn value(&mut self, ty: Type) -> ValueId {
        self.types.push(ty);
        ValueId(self.types.len() as u64 - 1)
    }
}

impl Emit for Count {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        if let Meaning::Derived(expansion) = op.spec().meaning {
            return expansion(self, &op, inputs);
        }
        let types: SmallVec<[OperandType; 3]> =
            inputs.iter().map(|operand| self.operand_type(*operand)).collect();
        let ty = infer(&op, &types)?;
        self.flops += primitive(&op, &types, &ty);
        Ok(self.value(ty))
    }

    fn ty(&self, value: ValueId) -> Type {
        self.types[value.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::attr::Conv;
    use gt_ir::{DType, Shape};

    use super::*;

    fn tensor(sizes: &[usize]) -> OperandType {
        OperandType::Tensor(Type::new(DType::F32, Shape::new(sizes).unwrap()))
    }

    fn count(op: &Op, operands: &[OperandType]) -> f64 {
        flops(op, operands, &infer(op, operands).unwrap())
    }

    #[test]
    fn products_count_their_depth_once_for_each_matrix_of_a_batch() {
        let operands = [tensor(&[8, 16, 32]), tensor(&[8, 32, 4])];
        assert_eq!(count(&Op::MatMul, &operands), 2.0 * 8.0 * 16.0 * 32.0 * 4.0);
    }

    #[test]
    fn a_derived_op_counts_what_it_stands_for() {
        let x = [tensor(&[64, 64])];
        let (gelu, exp) = (count(&Op::Gelu, &x), count(&Op::Exp, &x));
        assert!(gelu > exp, "{gelu} and {exp}");
        let conv = Conv { stride: [1; 2], padding: [0; 2], dilation: [1; 2], groups: 1 };
        let got = count(&Op::Conv2d(conv), &[tensor(&[2, 3, 10, 10]), tensor(&[4, 3, 3, 3])]);
        let products = 2.0 * 2.0 * 4.0 * 8.0 * 8.0 * 27.0;
        assert!(got >= products && got < 1.5 * products, "{got} and {products}");
    }
}
