//! Branches: [`cond`].

use std::panic::Location;

use gt_ir::body::MAX_WORK;
use gt_ir::{Cond, DType, Op, Type};

use super::traced::{Traced, parts, stand_in, undrawn};
use crate::autograd::Outcome;
use crate::core::DynTensor;
use crate::error::{Error, Result};
use crate::session::Session;

/// How many times as many instructions the gradient of a gradient may have: four for each walk
/// back through a loop in a function.
const ROOM: usize = 16;

/// The results of `on_true` where the condition is true, else those of `on_false`, on the same
/// operands. The condition is one `bool`, `[]`. `lax.cond` of JAX, `torch.cond`.
///
/// Nothing is read: both functions are recorded, and engines compute both. An index outside of its
/// axis is an error in either. The gradient is that of the function whose results are taken, even
/// where the other one's is infinite or NaN, which comes through [`where_`](DynTensor::where_).
/// There are exceptions, for which a `where_` is recorded: functions that draw random numbers, stop
/// gradients, have gradients written by hand or have more than 16,384 instructions, and
/// [`vmap`](crate::autograd::vmap), for which each example has a condition.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::control::cond;
/// // Clips a gradient whose norm is too large.
/// let g = DynTensor::randn([1000], DType::F32);
/// let norm = g.square().sum(..).sqrt();
/// let clipped =
///     cond(&norm.gt(1.0), |x| vec![&x[0] / &x[1]], |x| vec![x[0].clone()], &[&g, &norm])?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// Those of the functions; also results of different types, a condition that is not one `bool`, and
/// a function that reads a value or changes what outlives it.
#[track_caller]
pub fn cond<R, S>(
    condition: &DynTensor,
    mut on_true: impl FnMut(&[DynTensor]) -> R,
    mut on_false: impl FnMut(&[DynTensor]) -> S,
    operands: &[&DynTensor],
) -> Result<Vec<DynTensor>>
where
    R: Outcome<Vec<DynTensor>>,
    S: Outcome<Vec<DynTensor>>,
{
    let at = Location::caller();
    if let Some(error) = condition.error().or_else(|| operands.iter().find_map(|x| x.error())) {
        return Err(error);
    }
    Cond::condition("cond", &condition.ty()).map_err(|error| Error::from_op(error, at))?;
    let session = condition.session();
    let _entered = session.as_ref().map(Session::enter);
    let stand_ins = || operands.iter().map(|x| stand_in(x.ty())).collect::<Vec<_>>();
    let (x, y) = (stand_ins(), stand_ins());
    let ((x, y), draws) = undrawn(session.as_ref(), || {
        let x = Traced::of("cond", || on_true(&x).outcome(), &x, operands)?;
        Ok((x, Traced::of("cond", || on_false(&y).outcome(), &y, operands)?))
    })?;
    let [types, others] = [&x, &y].map(|f| f.results().iter().map(DynTensor::ty).collect());
    let (types, others): (Vec<Type>, Vec<Type>) = (types, others);
    Cond::common(&types, &others).map_err(|error| Error::from_op(error, at))?;
    let same: Vec<DynTensor> = x.same().iter().chain(y.same()).cloned().collect();
    if let (false, Some(on_true), Some(on_false)) = (draws, x.body(&same), y.body(&same)) {
        let cond = Cond { dtype: DType::F32, on_true, on_false };
        if cond.work() <= MAX_WORK / ROOM {
            let all: Vec<&DynTensor> =
                std::iter::once(condition).chain(operands.iter().copied()).chain(&same).collect();
            return parts(|dtype| Op::Cond(Cond { dtype, ..cond }), &all, &types, at);
        }
    }
    let operands: Vec<DynTensor> = operands.iter().map(|x| x.present()).collect();
    let (x, y) = (on_true(&operands).outcome()?, on_false(&operands).outcome()?);
    Ok(x.iter().zip(&y).map(|(x, y)| condition.where_(x, y)).collect())
}
