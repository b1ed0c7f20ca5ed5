//! Extrema: NaN wins, and of two zeros the positive is the larger, so that bits do not depend on
//! the order in which elements are met.

use gt_ir::attr::{Keep, Reduce};
use tch::{Kind, Tensor};

use super::{Made, axes, host::dtype_of};

/// The larger of two.
pub(super) fn maximum(x: &Tensor, y: &Tensor) -> Made {
    let larger = x.f_maximum(y)?;
    if !dtype_of(x)?.is_float() {
        return Ok(larger);
    }
    let positive = y.f_where_self(&x.f_signbit()?, x)?;
    Ok(positive.f_where_self(&x.f_eq_tensor(y)?, &larger)?)
}

/// The smaller of two.
pub(super) fn minimum(x: &Tensor, y: &Tensor) -> Made {
    let smaller = x.f_minimum(y)?;
    if !dtype_of(x)?.is_float() {
        return Ok(smaller);
    }
    let negative = x.f_where_self(&x.f_signbit()?, y)?;
    Ok(negative.f_where_self(&x.f_eq_tensor(y)?, &smaller)?)
}

/// The largest over axes.
pub(super) fn max(x: &Tensor, reduce: Reduce) -> Made {
    over(x, reduce, |x, axes, keep| x.f_amax(axes, keep))
}

/// The smallest over axes.
pub(super) fn min(x: &Tensor, reduce: Reduce) -> Made {
    over(x, reduce, |x, axes, keep| x.f_amin(axes, keep))
}

type Fold = fn(&Tensor, &[i64], bool) -> Result<Tensor, tch::TchError>;

/// To libtorch no axes mean all axes.
fn over(x: &Tensor, reduce: Reduce, fold: Fold) -> Made {
    if reduce.axes.is_empty() {
        return Ok(x.f_alias()?);
    }
    let (axes, keep) = (axes(reduce.axes), reduce.keep == Keep::Yes);
    let extremum = fold(x, &axes, keep)?;
    if !dtype_of(x)?.is_float() {
        return Ok(extremum);
    }
    // No element is larger than a zero that is the largest, so the sign of the extremum is the
    // extremum of the signs.
    let sign = x.f_signbit()?.f_to_kind(Kind::Int)?.f_mul_scalar(-2)?.f_add_scalar(1)?;
    let sign = fold(&sign, &axes, keep)?.f_to_kind(extremum.f_kind()?)?;
    Ok(extremum.f_copysign(&sign)?)
}
