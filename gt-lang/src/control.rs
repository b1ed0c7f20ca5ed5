//! Loops that are recorded once: [`scan`], [`scan_reverse`] and [`fori_loop`], as `jax.lax` has
//! them.
//!
//! Guarantees: the results and the gradients are those of the same loop written in Rust, which
//! calls the function once in each round. A program of thousands of rounds records one instruction
//! in place of thousands, forwards and backwards, and sends as much less.
//!
//! The function is called once, on stand-ins, and its instructions become the body of the loop.
//! What it computes of neither a carried value nor a slice is computed once, before the loop. Where
//! a body cannot say what the function does (it draws random numbers, stops gradients, or has
//! gradients written by hand), and where all rounds have more than 65,536 instructions, the rounds
//! are recorded one by one. Does not: branch or end on values, for which programs have Rust's own
//! `if` and `while` on what they read.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;

use gt_ir::attr::Slice;
use gt_ir::body::MAX_WORK;
use gt_ir::grad::is_differentiable;
use gt_ir::{Body, Builder, DType, Dim, Emit, Op, Operand, Scalar, Scan, Shape, Type, ValueId};

use crate::autograd::{Outcome, common, refused};
use crate::core::capture::{Note, Noted, capture};
use crate::core::record::record_at;
use crate::core::{Arg, DynTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::{enable_grad, is_grad_enabled};
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
    let at = Location::caller();
    if let Some(error) = init.iter().chain(xs).find_map(|x| x.error()) {
        return Err(error);
    }
    let length = length(xs)?;
    let session = init.iter().chain(xs).find_map(|x| x.session());
    let _entered = session.as_ref().map(Session::enter);
    let before = session.as_ref().map(Session::rng_state);
    let traced = Traced::of(&mut f, init, xs)?;
    let draws = session.as_ref().map(Session::rng_state) != before;
    if draws && let (Some(session), Some(state)) = (&session, before) {
        session.set_rng_state(state);
    }
    let body = traced.body().filter(|_| !draws);
    match body.and_then(|body| traced.looped(body, length, reverse)) {
        Some(scan) => traced.record(scan, init, xs, at),
        None if length == 0 => Ok((init.iter().map(|x| x.present()).collect(), traced.nothing())),
        None => {
            let rounds: Vec<usize> =
                if reverse { (0..length).rev().collect() } else { (0..length).collect() };
            one_by_one(f, init, xs, &rounds, at)
        }
    }
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
    mut f: impl FnMut(&[DynTensor], &[DynTensor]) -> R,
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
        fit(&next, init, at)?;
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

/// Whether a round gives values of the types that it gets.
fn fit(given: &[DynTensor], init: &[&DynTensor], at: &'static Location<'static>) -> Result<()> {
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
        "scan: a round gets [{}] and gives [{}] for the next",
        types(&mut init.iter().map(|x| x.ty())),
        types(&mut given.iter().map(DynTensor::ty))
    );
    let error = Error::new(ErrorKind::Operation, message, at);
    Err(error.hint("carry values of the same types in all rounds"))
}

/// What a function did in one round, on stand-ins.
struct Traced {
    /// The instructions that results need and that depend on a stand-in.
    steps: Vec<Note>,
    /// The stand-ins: for carried values, then for slices.
    stand_ins: Vec<DynTensor>,
    /// The values that rounds take, or give, and that depend on no stand-in: each once.
    same: Vec<DynTensor>,
    n_carried: usize,
    results: Vec<DynTensor>,
    /// Whether the loop has gradients.
    is_tracked: bool,
}

/// A value, and whether gradients flow into it: `x` and `x.detach()` are two.
type Name = (ValueId, bool);

impl Traced {
    #[track_caller]
    fn of<R: Outcome<Round>>(
        mut f: impl FnMut(&[DynTensor], &[DynTensor]) -> R,
        init: &[&DynTensor],
        xs: &[&DynTensor],
    ) -> Result<Traced> {
        let carried: Vec<DynTensor> = init.iter().map(|x| stand_in(x.ty())).collect();
        let slices: Vec<DynTensor> = xs.iter().map(|x| stand_in(slice_type(x.ty()))).collect();
        let (round, mut steps) =
            capture("scan", || enable_grad(|| f(&carried, &slices).outcome()))?;
        let (next, stacked) = round?;
        fit(&next, init, Location::caller())?;
        if let Some(error) = stacked.iter().find_map(DynTensor::error) {
            return Err(error);
        }
        let stand_ins: Vec<DynTensor> = carried.into_iter().chain(slices).collect();
        let results: Vec<DynTensor> = next.into_iter().chain(stacked).collect();
        let depending = keep_needed(&mut steps, &stand_ins, &results);
        let same = same(&steps, &results, &depending);
        let is_tracked = is_grad_enabled()
            && init.iter().chain(xs).copied().chain(&same).any(DynTensor::is_tracked);
        Ok(Traced { steps, stand_ins, same, n_carried: init.len(), results, is_tracked })
    }

    /// What no rounds stack.
    fn nothing(&self) -> Vec<DynTensor> {
        let none = |x: &DynTensor| DynTensor::zeros([&[0], &x.sizes()[..]].concat(), x.dtype());
        self.results[self.n_carried..].iter().map(none).collect()
    }

    fn name(&self, x: &DynTensor) -> Option<Name> {
        x.value_id().map(|id| (id, x.is_tracked() && self.is_tracked))
    }

    /// The body, unless it would not do what the function does.
    fn body(&self) -> Option<Body> {
        let arguments = || self.stand_ins.iter().chain(&self.same);
        let mut builder = Builder::new(arguments().map(DynTensor::ty));
        let mut known: BTreeMap<Name, Operand> = BTreeMap::new();
        for (i, x) in arguments().enumerate() {
            known.insert(self.name(x)?, Builder::argument(i));
        }
        for note in &self.steps {
            if note.rule.is_some() || self.stops(note) {
                return None;
            }
            let operand = |operand: &Noted| match operand {
                Noted::Scalar(scalar) => Some(Operand::Scalar(*scalar)),
                Noted::Tensor(x) => known.get(&self.name(x)?).copied(),
            };
            let operands: Vec<Operand> =
                note.operands.iter().map(operand).collect::<Option<_>>()?;
            let value = builder.emit(note.op.unnamed(), &operands).ok()?;
            known.insert(self.name(&note.result)?, value.into());
        }
        let results = self.results.iter().map(|x| known.get(&self.name(x)?).copied());
        builder.body(&results.collect::<Option<Vec<Operand>>>()?).ok()
    }

    /// Whether an instruction stops the gradients that would flow through it.
    fn stops(&self, note: &Note) -> bool {
        self.is_tracked
            && !note.result.is_tracked()
            && note.result.dtype().is_float()
            && is_differentiable(&note.op)
            && note.tensors().any(DynTensor::is_tracked)
    }

    /// The loop of a body; `None` if there are too many instructions in all rounds, with room for
    /// the gradient of a gradient.
    fn looped(&self, body: Body, length: usize, reverse: bool) -> Option<Scan> {
        let n_scanned = self.stand_ins.len() - self.n_carried;
        let scan = Scan {
            length: length as u64,
            n_carried: u16::try_from(self.n_carried).ok()?,
            n_scanned: u16::try_from(n_scanned).ok()?,
            dtype: DType::F32,
            reverse,
            body,
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
        let operands = init.iter().chain(xs).copied().chain(&self.same);
        let args: Vec<Arg<'_>> = operands.map(Arg::Tensor).collect();
        let types: Vec<Type> =
            (0..self.results.len()).map(|i| self.ty(i, &scan, at)).collect::<Result<_>>()?;
        let mut all: Vec<Option<DynTensor>> = vec![None; types.len()];
        for dtype in DType::ALL.into_iter().filter(|d| types.iter().any(|ty| ty.dtype == *d)) {
            let scan = Scan { dtype, ..scan };
            let line = record_at(&Op::Scan(scan), &args, at);
            for (i, start) in scan.places(&types).into_iter().enumerate() {
                if let Some(start) = start {
                    all[i] = Some(part(&line, start, types[i].shape));
                }
            }
        }
        let mut all: Vec<DynTensor> = all.into_iter().flatten().collect();
        let stacked = all.split_off(self.n_carried);
        match all.iter().chain(&stacked).find_map(DynTensor::error) {
            Some(error) => Err(error),
            None => Ok((all, stacked)),
        }
    }

    /// The type of a result of the loop.
    fn ty(&self, i: usize, scan: &Scan, at: &'static Location<'static>) -> Result<Type> {
        let ty = self.results[i].ty();
        let rounds = (i >= self.n_carried).then(|| Dim::new(scan.length as usize));
        let shape = Shape::collect(rounds.into_iter().chain(ty.shape.dims()));
        Ok(Type::new(ty.dtype, shape.map_err(|error| Error::from_op(error, at))?))
    }
}

/// A value that lies in a line from an element on.
fn part(line: &DynTensor, start: u64, shape: Shape) -> DynTensor {
    let stop = start + shape.numel() as u64;
    let part = line.record_with(|_| Ok(Op::Slice(Slice { axis: 0, start, stop, step: 1 })));
    part.record_with(|_| Ok(Op::Reshape(shape)))
}

/// Keeps the instructions that results need and that depend on a stand-in. Gives the values that
/// depend on one.
fn keep_needed(
    notes: &mut Vec<Note>,
    stand_ins: &[DynTensor],
    results: &[DynTensor],
) -> BTreeSet<ValueId> {
    let mut needed: BTreeSet<ValueId> = results.iter().filter_map(DynTensor::value_id).collect();
    for note in notes.iter().rev() {
        if note.result.value_id().is_some_and(|id| needed.contains(&id)) {
            needed.extend(note.tensors().filter_map(DynTensor::value_id));
        }
    }
    let mut depending: BTreeSet<ValueId> =
        stand_ins.iter().filter_map(DynTensor::value_id).collect();
    notes.retain(|note| {
        let Some(id) = note.result.value_id().filter(|id| needed.contains(id)) else {
            return false;
        };
        let depends =
            note.tensors().any(|x| x.value_id().is_some_and(|id| depending.contains(&id)));
        if depends {
            depending.insert(id);
        }
        depends
    });
    depending
}

/// The values that instructions take, or that are results, and that depend on no stand-in.
fn same(steps: &[Note], results: &[DynTensor], depending: &BTreeSet<ValueId>) -> Vec<DynTensor> {
    let mut known = BTreeSet::new();
    let is_new = |x: &&DynTensor| {
        x.value_id()
            .is_some_and(|id| !depending.contains(&id) && known.insert((id, x.is_tracked())))
    };
    steps.iter().flat_map(Note::tensors).chain(results).filter(is_new).cloned().collect()
}

/// What stands for a value of this type, with gradients if it can have some.
#[track_caller]
fn stand_in(ty: Type) -> DynTensor {
    let zeros = DynTensor::record(Op::Full(ty), &[Arg::Scalar(Scalar::I64(0))]);
    if ty.dtype.is_float() { zeros.requires_grad() } else { zeros }
}

/// The type of a slice along the first axis.
fn slice_type(ty: Type) -> Type {
    let inner = Shape::collect(ty.shape.dims().skip(1)).unwrap_or(ty.shape);
    Type::new(ty.dtype, inner)
}

#[cfg(test)]
mod tests;
