//! Loops of a number of rounds: [`scan`], [`scan_reverse`] and [`fori_loop`].

use std::panic::Location;

use gt_ir::body::MAX_WORK;
use gt_ir::{DType, Dim, Op, Scan, Shape, Type};

use super::traced::{Traced, parts, stand_in, undrawn};
use crate::autograd::{Outcome, common, refused};
use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Session;

/// What a round gives: the values for the next round, and what is stacked.
pub type Round = (Vec<DynTensor>, Vec<DynTensor>);

/// Calls `f` for each slice of `xs` along their first axes, and hands what it carries from one
/// round to the next, beginning with `init`. Gives the values after the last round, and the stacked
/// results of all rounds. `lax.scan` of JAX, `torch.scan`.
///
/// `f` gets the carried values and the slices. It gives values of the types that it got, and
/// whatever is to be stacked. Numbers of Rust in `f` are a part of the loop, so a number that
/// changes from step to step should be a tensor.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::control::scan;
/// // An exponential moving average of 1,000 rows.
/// let (x, start) = (DynTensor::randn([1000, 8], DType::F32), DynTensor::zeros([8], DType::F32));
/// let (last, all) = scan(
///     |mean, x| {
///         let mean = &mean[0] * 0.9 + &x[0] * 0.1;
///         (vec![mean.clone()], vec![mean])
///     },
///     &[&start],
///     &[&x],
/// )?;
/// assert_eq!((last[0].sizes(), all[0].sizes()), (vec![8], vec![1000, 8]));
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// That of `f`; also scanned values without a common number of slices, an `f` that gives other
/// types than it gets, that reads a value or that changes what outlives it.
#[track_caller]
pub fn scan<R: Outcome<Round>>(
    f: impl FnMut(&[DynTensor], &[DynTensor]) -> R,
    init: &[&DynTensor],
    xs: &[&DynTensor],
) -> Result<Round> {
    ordered(f, init, xs, false)
}

/// As [`scan`], from the last slices to the first. Stacked results are in the order of the slices.
/// `lax.scan` of JAX with `reverse=True`.
///
/// # Errors
/// As [`scan`].
#[track_caller]
pub fn scan_reverse<R: Outcome<Round>>(
    f: impl FnMut(&[DynTensor], &[DynTensor]) -> R,
    init: &[&DynTensor],
    xs: &[&DynTensor],
) -> Result<Round> {
    ordered(f, init, xs, true)
}

#[track_caller]
fn ordered<R: Outcome<Round>>(
    mut f: impl FnMut(&[DynTensor], &[DynTensor]) -> R,
    init: &[&DynTensor],
    xs: &[&DynTensor],
    reverse: bool,
) -> Result<Round> {
    if let Some(error) = init.iter().chain(xs).find_map(|x| x.error()) {
        return Err(error);
    }
    rounds(&mut f, init, xs, length(xs)?, reverse).map(|(round, _)| round)
}

/// So many rounds, which take slices of `xs`, and how many instructions a round has.
#[track_caller]
pub(super) fn rounds<R: Outcome<Round>>(
    f: &mut impl FnMut(&[DynTensor], &[DynTensor]) -> R,
    init: &[&DynTensor],
    xs: &[&DynTensor],
    length: usize,
    reverse: bool,
) -> Result<(Round, usize)> {
    let at = Location::caller();
    let session = init.iter().chain(xs).find_map(|x| x.session());
    let _entered = session.as_ref().map(Session::enter);
    let (looped, draws) = undrawn(session.as_ref(), || Loop::of(f, init, xs))?;
    let round = match looped.scan(length, reverse).filter(|_| !draws) {
        Some(scan) => looped.record(scan, init, xs, at)?,
        None if length == 0 => (init.iter().map(|x| x.present()).collect(), looped.nothing()),
        None => {
            let rounds: Vec<usize> =
                if reverse { (0..length).rev().collect() } else { (0..length).collect() };
            one_by_one(f, init, xs, &rounds, at)?
        }
    };
    Ok((round, looped.round.len()))
}

/// Calls `f` with the numbers from 0 to `n - 1`, as `i64` tensors, and hands the values that it
/// gives to the next round, beginning with `init`. `lax.fori_loop` of JAX.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::control::fori_loop;
/// // Euler's method for y' = -y.
/// let y = fori_loop(100, |_, y| vec![&y[0] - &y[0] * 0.01], &[&DynTensor::from(1.0)])?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// As [`scan`].
#[track_caller]
pub fn fori_loop(
    n: usize,
    mut f: impl FnMut(&DynTensor, &[DynTensor]) -> Vec<DynTensor>,
    init: &[&DynTensor],
) -> Result<Vec<DynTensor>> {
    let session = init.iter().find_map(|x| x.session());
    let _entered = session.as_ref().map(Session::enter);
    let numbers = DynTensor::arange(0, n as i64, 1, DType::I64);
    scan(|carried, i| (f(&i[0], carried), Vec::new()), init, &[&numbers]).map(|(last, _)| last)
}

/// How many slices all scanned values have.
#[track_caller]
fn length(xs: &[&DynTensor]) -> Result<usize> {
    common(xs).ok_or_else(|| {
        let types: Vec<String> = xs.iter().map(|x| x.ty().to_string()).collect();
        refused(
            format!("scan: no number of slices is common to [{}]", types.join(", ")),
            "the first axis of each scanned value counts rounds; `fori_loop` takes a number",
        )
    })
}

/// The rounds as the function records them, over slices in this order.
fn one_by_one<R: Outcome<Round>>(
    f: &mut impl FnMut(&[DynTensor], &[DynTensor]) -> R,
    init: &[&DynTensor],
    xs: &[&DynTensor],
    order: &[usize],
    at: &'static Location<'static>,
) -> Result<Round> {
    let mut carried: Vec<DynTensor> = init.iter().map(|x| x.present()).collect();
    let mut stacked: Vec<Vec<DynTensor>> = Vec::new();
    for &i in order {
        let slices: Vec<DynTensor> = xs.iter().map(|x| x.slice(i as i64)).collect();
        let (next, given) = f(&carried, &slices).outcome()?;
        fit("scan", &next, init, at)?;
        carried = next;
        stacked.resize_with(given.len(), Vec::new);
        stacked.iter_mut().zip(given).for_each(|(all, value)| all.push(value));
    }
    if !order.is_sorted() {
        stacked.iter_mut().for_each(|all| all.reverse());
    }
    let stacked = stacked.iter().map(|all| DynTensor::stack(all, 0));
    Ok((carried, stacked.collect()))
}

/// Whether a round gives values of the types that it gets. `op` is the loop.
pub(super) fn fit(
    op: &str,
    given: &[DynTensor],
    init: &[&DynTensor],
    at: &'static Location<'static>,
) -> Result<()> {
    if let Some(error) = given.iter().find_map(DynTensor::error) {
        return Err(error);
    }
    let same = |(a, b): (&DynTensor, &&DynTensor)| {
        a.dtype() == b.dtype() && a.shape().same_sizes(&b.shape())
    };
    if given.len() == init.len() && given.iter().zip(init).all(same) {
        return Ok(());
    }
    let types = |all: &mut dyn Iterator<Item = Type>| {
        all.map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ")
    };
    let message = format!(
        "{op}: a round gets [{}] and gives [{}] for the next",
        types(&mut init.iter().map(|x| x.ty())),
        types(&mut given.iter().map(DynTensor::ty))
    );
    let error = Error::new(ErrorKind::Operation, message, at);
    Err(error.hint("carry values of the same types in all rounds"))
}

/// A loop whose function was called once.
struct Loop {
    round: Traced,
    n_carried: usize,
}

impl Loop {
    #[track_caller]
    fn of<R: Outcome<Round>>(
        f: &mut impl FnMut(&[DynTensor], &[DynTensor]) -> R,
        init: &[&DynTensor],
        xs: &[&DynTensor],
    ) -> Result<Loop> {
        let at = Location::caller();
        let carried = init.iter().map(|x| stand_in(x.ty()));
        let slices = xs.iter().map(|x| stand_in(slice_type(x.ty())));
        let stand_ins: Vec<DynTensor> = carried.chain(slices).collect();
        let (carried, slices) = stand_ins.split_at(init.len());
        let results = || {
            let (mut next, stacked) = f(carried, slices).outcome()?;
            fit("scan", &next, init, at)?;
            next.extend(stacked);
            Ok(next)
        };
        let values: Vec<&DynTensor> = init.iter().chain(xs).copied().collect();
        let round = Traced::of("scan", results, &stand_ins, &values)?;
        Ok(Loop { round, n_carried: init.len() })
    }

    /// What no rounds stack.
    fn nothing(&self) -> Vec<DynTensor> {
        let none = |x: &DynTensor| DynTensor::zeros([&[0], &x.sizes()[..]].concat(), x.dtype());
        self.round.results()[self.n_carried..].iter().map(none).collect()
    }

    /// The attribute of the loop; `None` if its body would not do what the function does, or if
    /// there are too many instructions in all rounds, with room for the gradient of a gradient.
    fn scan(&self, length: usize, reverse: bool) -> Option<Scan> {
        let n_scanned = self.round.stand_ins().len() - self.n_carried;
        let scan = Scan {
            length: length as u64,
            n_carried: u16::try_from(self.n_carried).ok()?,
            n_scanned: u16::try_from(n_scanned).ok()?,
            dtype: DType::F32,
            reverse,
            body: self.round.body(self.round.same())?,
        };
        (scan.work() <= MAX_WORK / 4).then_some(scan)
    }

    /// Records the loop.
    fn record(
        &self,
        scan: Scan,
        init: &[&DynTensor],
        xs: &[&DynTensor],
        at: &'static Location<'static>,
    ) -> Result<Round> {
        let operands = init.iter().chain(xs).copied().chain(self.round.same());
        let operands: Vec<&DynTensor> = operands.collect();
        let types: Vec<Type> = (0..self.round.results().len())
            .map(|i| self.ty(i, &scan, at))
            .collect::<Result<_>>()?;
        let op = |dtype| Op::Scan(Scan { dtype, ..scan });
        let mut all = parts(op, &operands, &types, at)?;
        let stacked = all.split_off(self.n_carried);
        Ok((all, stacked))
    }

    /// The type of a result of the loop.
    fn ty(&self, i: usize, scan: &Scan, at: &'static Location<'static>) -> Result<Type> {
        let ty = self.round.results()[i].ty();
        let rounds = (i >= self.n_carried).then(|| Dim::new(scan.length as usize));
        let shape = Shape::collect(rounds.into_iter().chain(ty.shape.dims()));
        Ok(Type::new(ty.dtype, shape.map_err(|error| Error::from_op(error, at))?))
    }
}

/// The type of a slice along the first axis.
fn slice_type(ty: Type) -> Type {
    let inner = Shape::collect(ty.shape.dims().skip(1)).unwrap_or(ty.shape);
    Type::new(ty.dtype, inner)
}
