//! Functions of square matrices.

use gt_ir::Op;

use super::{inv, on, refused, sides, unit};
use crate::core::DynTensor;

/// The exponential of square matrices, the sum of `a^k / k!`.
#[must_use]
#[track_caller]
pub fn matrix_exp(a: &DynTensor) -> DynTensor {
    on(Op::MatrixExp, a)
}

/// The product of `n` times the same square matrices: the unit matrix for 0, and powers of the
/// inverse for negative numbers.
///
/// It takes about `2 log2(n)` products.
#[must_use]
#[track_caller]
pub fn matrix_power(a: &DynTensor, n: i64) -> DynTensor {
    let (rows, columns) = sides(a);
    if (a.rank() < 2 || rows != columns) && a.error().is_none() {
        let message = format!("matrix_power: takes square matrices, but got {}", a.ty());
        return refused(a, message, "matrices are the last two axes");
    }
    let mut square = if n < 0 { inv(a) } else { a.clone() };
    let mut rest = n.unsigned_abs();
    let mut power: Option<DynTensor> = None;
    while rest > 0 {
        if rest % 2 == 1 {
            power = Some(power.map_or_else(|| square.clone(), |power| square.matmul(&power)));
        }
        rest /= 2;
        if rest > 0 {
            square = square.matmul(&square);
        }
    }
    power.unwrap_or_else(|| unit(a).expand(a.shape().sizes()))
}
