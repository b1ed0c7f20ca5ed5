//! Loops and branches of typed tensors that are recorded once: those of [`control`], of any
//! structure of tensors.

use super::kind::{Bool, Int};
use super::tensor::Tensor;
use super::tree::{Slices, Stacks, Tree};
use crate::autograd::{Outcome, refused};
use crate::control;
use crate::core::DynTensor;
use crate::error::{Error, Result};

/// Calls `f` with what it gave before and with each slice of `xs` along the first dimension,
/// beginning with `init`; see [`control::scan`]. Carried values, scanned ones and results are
/// tensors, or tuples, vectors or arrays of tensors.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Time }
/// let x: Tensor<(Time, N<8>)> = Tensor::randn_with([1000]);
/// let start: Tensor<(N<8>,)> = Tensor::zeros();
/// // An exponential moving average; `all` is a `T![Time, 8]`.
/// let (last, all) = gt::typed::scan(
///     |mean, x| {
///         let mean: Tensor<(N<8>,)> = mean * 0.9 + x * 0.1;
///         (mean.clone(), mean)
///     },
///     &start,
///     &x,
/// )?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// As [`control::scan`].
#[track_caller]
pub fn scan<C: Tree, X: Slices, Y: Stacks<X::Length>, R: Outcome<(C, Y)>>(
    f: impl FnMut(&C, X::Slice) -> R,
    init: &C,
    xs: &X,
) -> Result<(C, Y::Stacked)> {
    ordered(f, init, xs, false)
}

/// As [`scan`], from the last slices to the first; see [`control::scan_reverse`].
///
/// # Errors
/// As [`control::scan`].
#[track_caller]
pub fn scan_reverse<C: Tree, X: Slices, Y: Stacks<X::Length>, R: Outcome<(C, Y)>>(
    f: impl FnMut(&C, X::Slice) -> R,
    init: &C,
    xs: &X,
) -> Result<(C, Y::Stacked)> {
    ordered(f, init, xs, true)
}

#[track_caller]
fn ordered<C: Tree, X: Slices, Y: Stacks<X::Length>, R: Outcome<(C, Y)>>(
    mut f: impl FnMut(&C, X::Slice) -> R,
    init: &C,
    xs: &X,
    reverse: bool,
) -> Result<(C, Y::Stacked)> {
    let mut given: Option<Y> = None;
    let round = |carried: &[DynTensor], slices: &[DynTensor]| -> Result<control::Round> {
        let slices = xs.slice_of(&mut slices.iter().cloned());
        let (next, results) = f(&init.like(&mut carried.iter().cloned()), slices).outcome()?;
        let round = (owned(&next), owned(&results));
        given = Some(results);
        Ok(round)
    };
    let (init_leaves, xs) = (leaves(init), leaves(xs));
    let (last, all) = match reverse {
        true => control::scan_reverse(round, &init_leaves, &xs)?,
        false => control::scan(round, &init_leaves, &xs)?,
    };
    let given = given.ok_or_else(never_called)?;
    Ok((init.like(&mut last.into_iter()), given.stacked(&mut all.into_iter())))
}

/// Calls `f` with the numbers from 0 to `n - 1` and with what it gave before; see
/// [`control::fori_loop`].
///
/// # Errors
/// As [`control::scan`].
#[track_caller]
pub fn fori_loop<C: Tree>(
    n: usize,
    mut f: impl FnMut(Tensor<(), Int>, &C) -> C,
    init: &C,
) -> Result<C> {
    let round = |i: &DynTensor, carried: &[DynTensor]| {
        owned(&f(Tensor::conform("fori_loop", i.clone()), &init.like(&mut carried.iter().cloned())))
    };
    Ok(init.like(&mut control::fori_loop(n, round, &leaves(init))?.into_iter()))
}

/// Calls `f` with what it gave before, as long as the condition holds; see
/// [`control::while_loop`].
///
/// # Errors
/// As [`control::while_loop`].
#[track_caller]
pub fn while_loop<C: Tree, R: Outcome<C>>(
    mut condition: impl FnMut(&C) -> Tensor<(), Bool>,
    mut f: impl FnMut(&C) -> R,
    init: &C,
) -> Result<C> {
    let structure = |all: &[DynTensor]| init.like(&mut all.iter().cloned());
    let last = control::while_loop(
        |all| condition(&structure(all)).into_dyn(),
        |all| f(&structure(all)).outcome().map(|next| owned(&next)),
        &leaves(init),
    )?;
    Ok(init.like(&mut last.into_iter()))
}

/// The result of `on_true` where the condition is true, else that of `on_false`, on the same
/// operands; see [`control::cond`].
///
/// # Errors
/// As [`control::cond`].
#[track_caller]
pub fn cond<C: Tree, T: Tree, R: Outcome<T>, S: Outcome<T>>(
    condition: &Tensor<(), Bool>,
    mut on_true: impl FnMut(&C) -> R,
    mut on_false: impl FnMut(&C) -> S,
    operands: &C,
) -> Result<T> {
    let mut given: Option<T> = None;
    let structure = |all: &[DynTensor]| operands.like(&mut all.iter().cloned());
    let taken = control::cond(
        condition.as_dyn(),
        |all| -> Result<Vec<DynTensor>> {
            let result = on_true(&structure(all)).outcome()?;
            let values = owned(&result);
            given = Some(result);
            Ok(values)
        },
        |all| on_false(&structure(all)).outcome().map(|result| owned(&result)),
        &leaves(operands),
    )?;
    Ok(given.ok_or_else(never_called)?.like(&mut taken.into_iter()))
}

fn leaves<T: Tree>(tree: &T) -> Vec<&DynTensor> {
    let mut all = Vec::new();
    tree.leaves(&mut all);
    all
}

fn owned<T: Tree>(tree: &T) -> Vec<DynTensor> {
    leaves(tree).into_iter().cloned().collect()
}

/// Each loop and each branch calls its function, so this error is a defect.
#[track_caller]
fn never_called() -> Error {
    refused("the function was not called".into(), "report this as a defect")
}
