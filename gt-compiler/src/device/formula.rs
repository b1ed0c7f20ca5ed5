//! Recognizes a pointwise op inside a kernel by what the op table makes of it.
//!
//! The op is expanded and scheduled as any program is; what its kernel computes is the pattern. It
//! fits whatever computes the same from one value by the same operations on the same constants,
//! operands of sums, products and extrema in either order. It knows no op by name, and nothing that
//! rewriting has made another formula of.

use gt_ir::{DType, Op, OperandType, Shape, Type};

use crate::{
    kernel::{Binary, Expr, ExprId, Node},
    schedule::{KernelPiece, Piece, Updates, schedule},
};

/// An op of one operand as a kernel computes it.
pub(super) struct Formula {
    kernel: KernelPiece,
    value: ExprId,
}

impl Formula {
    /// The formula of an op on a dtype; none where it takes more than a kernel.
    pub(super) fn of(op: &Op, dtype: DType) -> Option<Formula> {
        let operand = OperandType::Tensor(Type::new(dtype, Shape::new(&[2]).ok()?));
        let graph = gt_ir::expand(op, &[operand]).ok()?;
        let mut pieces = schedule(&graph, Updates::Whole).ok()?.pieces.into_iter();
        let (Some(Piece::Kernel(kernel)), None) = (pieces.next(), pieces.next()) else {
            return None;
        };
        let value = kernel.spec.stores.first()?.value;
        Some(Formula { kernel: *kernel, value })
    }

    /// What it is applied to, where `at` of another kernel is this formula of something.
    pub(super) fn operand(&self, other: &KernelPiece, at: ExprId) -> Option<ExprId> {
        let mut operand = None;
        self.fits(self.value, other, at, &mut operand).then_some(operand)?
    }

    /// Whether `own` is what `at` is, the operand being what was found for it before.
    fn fits(
        &self,
        own: ExprId,
        other: &KernelPiece,
        at: ExprId,
        operand: &mut Option<ExprId>,
    ) -> bool {
        let (Node { expr, dtype }, there) = (self.kernel.spec.node(own), other.spec.node(at));
        *dtype == there.dtype
            && match (expr, &there.expr) {
                (Expr::Load { .. }, _) => *operand.get_or_insert(at) == at,
                (Expr::Scalar(a), Expr::Scalar(b)) => {
                    self.kernel.scalars[usize::from(*a)] == other.scalars[usize::from(*b)]
                }
                (Expr::Cast(a), Expr::Cast(b)) => self.fits(*a, other, *b, operand),
                (Expr::Unary(f, a), Expr::Unary(g, b)) => {
                    f == g && self.fits(*a, other, *b, operand)
                }
                (Expr::Binary(f, a, b), Expr::Binary(g, c, d)) => {
                    let before = *operand;
                    f == g
                        && (self.both([*a, *b], other, [*c, *d], operand) || {
                            *operand = before;
                            commutes(*f) && self.both([*a, *b], other, [*d, *c], operand)
                        })
                }
                _ => false,
            }
    }

    fn both(
        &self,
        own: [ExprId; 2],
        other: &KernelPiece,
        at: [ExprId; 2],
        operand: &mut Option<ExprId>,
    ) -> bool {
        self.fits(own[0], other, at[0], operand) && self.fits(own[1], other, at[1], operand)
    }
}

fn commutes(op: Binary) -> bool {
    matches!(op, Binary::Add | Binary::Mul | Binary::Maximum | Binary::Minimum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ScalarArg;

    const OPS: [Op; 6] = [Op::Relu, Op::GeluTanh, Op::Gelu, Op::Silu, Op::Sigmoid, Op::Tanh];

    #[test]
    fn an_op_is_known_and_told_from_others() {
        for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F16] {
            let all = OPS.map(|op| Formula::of(&op, dtype).expect("a kernel"));
            for (i, formula) in all.iter().enumerate() {
                for (j, other) in all.iter().enumerate() {
                    let found = formula.operand(&other.kernel, other.value);
                    assert_eq!(found.is_some(), i == j, "{} in {}", OPS[i], OPS[j]);
                    let expr = found.map(|id| &other.kernel.spec.node(id).expr);
                    assert!(expr.is_none_or(|expr| matches!(expr, Expr::Load { .. })));
                }
            }
        }
    }

    #[test]
    fn operands_may_be_swapped_and_constants_may_not_change() {
        let formula = Formula::of(&Op::GeluTanh, DType::F32).expect("a kernel");
        let mut swapped = formula.kernel.clone();
        for node in &mut swapped.spec.nodes {
            if let Expr::Binary(_, a, b) = &mut node.expr {
                std::mem::swap(a, b);
            }
        }
        assert!(formula.operand(&swapped, formula.value).is_some());
        for i in 0..formula.kernel.scalars.len() {
            let mut changed = formula.kernel.clone();
            changed.scalars[i] = ScalarArg::Bits(2.5f32.to_bits().into());
            assert_eq!(formula.operand(&changed, formula.value), None, "constant {i}");
        }
    }

    /// The square of one value by another is no square.
    #[test]
    fn the_operand_is_one_value() {
        let formula = Formula::of(&Op::GeluTanh, DType::F32).expect("a kernel");
        let mut other = formula.kernel.clone();
        let load = formula.operand(&other, formula.value).expect("it fits itself");
        let load = other.spec.node(load).clone();
        other.spec.nodes.push(load);
        let second = ExprId(other.spec.nodes.len() as u32 - 1);
        let square = other.spec.nodes.iter_mut().find_map(|node| {
            let Expr::Binary(Binary::Mul, a, b) = &mut node.expr else { return None };
            (a == b).then_some(b)
        });
        *square.expect("a square") = second;
        assert_eq!(formula.operand(&other, formula.value), None);
    }
}
