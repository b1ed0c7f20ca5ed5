//! Pointwise ops at the edges of their dtypes, and casts.

use gt_ir::{DType, Op, OpKind, Type};

use super::{Run, check, edgy, shape, units};

/// The pointwise ops without attributes, from the table.
fn pointwise() -> Vec<Op> {
    let ops = OpKind::ALL.iter().filter(|k| k.spec().class == gt_ir::Class::Pointwise);
    ops.filter_map(|k| k.spec().name.parse().ok()).collect()
}

pub(crate) fn pointwise_ops_at_the_edges(run: &mut Run<'_>) {
    let unary = [shape(&[67]), shape(&[]), shape(&[0, 3]), shape(&[2, 1, 33])];
    let pairs = [
        [shape(&[67]), shape(&[67])],
        [shape(&[5, 1]), shape(&[1, 39])],
        [shape(&[]), shape(&[18])],
        [shape(&[3, 0]), shape(&[1, 1])],
        [shape(&[2, 3, 20]), shape(&[3, 20])],
    ];
    for op in pointwise() {
        for dtype in DType::ALL {
            for s in &unary {
                check(run, op, &[&edgy(Type::new(dtype, *s), 1)], units(&op, dtype));
            }
            for other in DType::ALL {
                for [a, b] in &pairs {
                    check(
                        run,
                        op,
                        &[&edgy(Type::new(dtype, *a), 1), &edgy(Type::new(other, *b), 2)],
                        4.0,
                    );
                }
            }
            let condition = edgy(Type::new(DType::Bool, shape(&[67])), 3);
            let (x, y) =
                (edgy(Type::new(dtype, shape(&[67])), 1), edgy(Type::new(dtype, shape(&[1])), 2));
            check(run, op, &[&condition, &x, &y], 4.0);
        }
    }
}

pub(crate) fn casts(run: &mut Run<'_>) {
    for from in DType::ALL {
        for to in DType::ALL {
            check(run, Op::Cast(to), &[&edgy(Type::new(from, shape(&[53])), 0)], 1.0);
        }
    }
}
