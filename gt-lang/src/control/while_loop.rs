//! Loops that end on a value: [`while_loop`] and [`while_loop_at_most`].
//!
//! Such a loop is a `scan` that carries a `bool`: whether rounds still count. Those that do not
//! keep the values. They compute the function of values on which the loop has not ended, so that
//! what the function may not be given, such as an index one past the end, is not given to it.

use std::panic::Location;

use gt_ir::Cond;

use super::scan::{Round, fit, rounds};
use crate::autograd::{Outcome, refused};
use crate::core::{DynTensor, capture};
use crate::error::{Error, Result};

/// The rounds of the first group.
const FIRST: usize = 8;

/// The most rounds of a group.
const MOST: usize = 1024;

/// The most instructions of all rounds of a group: far fewer than those of a loop, because a group
/// is unrolled on a device.
const INSTRUCTIONS: usize = 1 << 14;

/// Calls `f` with the values that it gave before, beginning with `init`, as long as the condition
/// holds for them. Gives the first values for which it does not hold. `lax.while_loop` of JAX, but
/// with gradients.
///
/// Rounds are recorded in groups of 8, 16, 32 and so on, up to 1,024, and the condition is read
/// once for each group. Rounds of the last group that come after the end change nothing, but take
/// their time.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::control::while_loop;
/// // Newton's method, until the square is close enough.
/// let root = while_loop(
///     |y| (y[0].square() - 2.0).abs().gt(1e-12),
///     |y| vec![(&y[0] + 2.0 / &y[0]) * 0.5],
///     &[&DynTensor::from(1.0f64)],
/// )?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// Those of the functions, and of the reads; also a condition that is not one `bool`, an `f` that
/// gives other types than it gets, and functions that read a value or change what outlives them. In
/// the function of another loop, where nothing can be read, [`while_loop_at_most`] serves.
#[track_caller]
pub fn while_loop<C: Outcome<DynTensor>, R: Outcome<Vec<DynTensor>>>(
    mut condition: impl FnMut(&[DynTensor]) -> C,
    mut f: impl FnMut(&[DynTensor]) -> R,
    init: &[&DynTensor],
) -> Result<Vec<DynTensor>> {
    let mut values: Vec<DynTensor> = init.iter().map(|x| x.present()).collect();
    let mut goes_on = held(&mut condition, &values)?;
    if let Some(name) = capture::name() {
        return Err(refused(
            format!("while_loop: its condition would be read in the function of {name}"),
            "`while_loop_at_most` reads nothing",
        ));
    }
    let mut n = FIRST;
    while goes_on.item()? != 0.0 {
        let work;
        (values, goes_on, work) = group(&mut condition, &mut f, values, goes_on, n)?;
        n = (2 * n).min(MOST).min(INSTRUCTIONS / work.max(1)).max(FIRST);
    }
    Ok(values)
}

/// As [`while_loop`], for `n` rounds at most: one loop is recorded, and nothing is read, so it may
/// stand in the function of another loop, of [`cond`](super::cond) or of
/// [`vmap`](crate::autograd::vmap). All `n` rounds take their time, and `f` is computed of `init`
/// even if the condition does not hold for it.
///
/// # Errors
/// As [`while_loop`], but nothing is read.
#[track_caller]
pub fn while_loop_at_most<C: Outcome<DynTensor>, R: Outcome<Vec<DynTensor>>>(
    n: usize,
    mut condition: impl FnMut(&[DynTensor]) -> C,
    mut f: impl FnMut(&[DynTensor]) -> R,
    init: &[&DynTensor],
) -> Result<Vec<DynTensor>> {
    let values: Vec<DynTensor> = init.iter().map(|x| x.present()).collect();
    let goes_on = held(&mut condition, &values)?;
    group(&mut condition, &mut f, values, goes_on, n).map(|(values, ..)| values)
}

/// So many rounds on values for which the condition holds as `goes_on` says. Gives the values,
/// whether the condition still holds, and the instructions of a round.
#[track_caller]
fn group<C: Outcome<DynTensor>, R: Outcome<Vec<DynTensor>>>(
    condition: &mut impl FnMut(&[DynTensor]) -> C,
    f: &mut impl FnMut(&[DynTensor]) -> R,
    values: Vec<DynTensor>,
    goes_on: DynTensor,
    n: usize,
) -> Result<(Vec<DynTensor>, DynTensor, usize)> {
    let at = Location::caller();
    let mut round = |carried: &[DynTensor], _: &[DynTensor]| -> Result<Round> {
        let [goes_on, now @ ..] = carried else { return Ok(Default::default()) };
        let choose = |now: &[DynTensor], other: &[DynTensor]| -> Vec<DynTensor> {
            now.iter().zip(other).map(|(x, y)| goes_on.where_(x, y)).collect()
        };
        let next = f(&choose(now, &values)).outcome()?;
        fit("while_loop", &next, &values.iter().collect::<Vec<_>>(), at)?;
        let mut results = vec![goes_on.logical_and(&held(condition, &next)?)];
        results.extend(choose(&next, now));
        Ok((results, Vec::new()))
    };
    let init: Vec<&DynTensor> = std::iter::once(&goes_on).chain(&values).collect();
    let ((mut last, _), work) = rounds(&mut round, &init, &[], n, false)?;
    let values = last.split_off(1);
    Ok((values, last.remove(0), work))
}

/// What the condition says of these values.
#[track_caller]
fn held<C: Outcome<DynTensor>>(
    condition: &mut impl FnMut(&[DynTensor]) -> C,
    values: &[DynTensor],
) -> Result<DynTensor> {
    let holds = condition(values).outcome()?;
    if let Some(error) = holds.error() {
        return Err(error);
    }
    let at = Location::caller();
    Cond::condition("while_loop", &holds.ty()).map_err(|error| Error::from_op(error, at))?;
    Ok(holds)
}
