//! Functions that were called once, on stand-ins, and what they did as the body of an op.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;

use gt_ir::attr::Slice;
use gt_ir::grad::is_differentiable;
use gt_ir::{Body, Builder, DType, Emit, Op, Operand, Scalar, Shape, Type, ValueId};

use crate::core::capture::{Note, Noted, capture};
use crate::core::record::record_at;
use crate::core::{Arg, DynTensor};
use crate::error::Result;
use crate::no_grad::{enable_grad, is_grad_enabled};
use crate::session::Session;

/// What a function did on stand-ins.
pub(super) struct Traced {
    /// The instructions that results need and that depend on a stand-in.
    steps: Vec<Note>,
    stand_ins: Vec<DynTensor>,
    same: Vec<DynTensor>,
    results: Vec<DynTensor>,
    /// Whether gradients flow through what the function does.
    is_tracked: bool,
}

/// A value, and whether gradients flow into it: `x` and `x.detach()` are two.
type Name = (ValueId, bool);

impl Traced {
    /// Watches a function that uses stand-ins for these values. `name` is what it is run for.
    ///
    /// # Errors
    /// That of the function; also that it cannot run once for all.
    pub(super) fn of(
        name: &'static str,
        f: impl FnOnce() -> Result<Vec<DynTensor>>,
        stand_ins: &[DynTensor],
        values: &[&DynTensor],
    ) -> Result<Traced> {
        let (results, mut steps) = capture(name, || enable_grad(f))?;
        let results = results?;
        if let Some(error) = results.iter().find_map(DynTensor::error) {
            return Err(error);
        }
        let depending = keep_needed(&mut steps, stand_ins, &results);
        let same = same(&steps, &results, &depending);
        let is_tracked =
            is_grad_enabled() && values.iter().copied().chain(&same).any(DynTensor::is_tracked);
        Ok(Traced { steps, stand_ins: stand_ins.to_vec(), same, results, is_tracked })
    }

    /// How many instructions it is.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// What stands for the values.
    pub(super) fn stand_ins(&self) -> &[DynTensor] {
        &self.stand_ins
    }

    /// The values that instructions take, or that are results, and that depend on no stand-in: each
    /// once.
    pub(super) fn same(&self) -> &[DynTensor] {
        &self.same
    }

    /// What the function gave.
    pub(super) fn results(&self) -> &[DynTensor] {
        &self.results
    }

    fn name(&self, x: &DynTensor) -> Option<Name> {
        x.value_id().map(|id| (id, x.is_tracked() && self.is_tracked))
    }

    /// The function as a body of its stand-ins and of these values, among which are [`same`];
    /// `None` if the body would not do what the function does.
    ///
    /// [`same`]: Traced::same
    pub(super) fn body(&self, same: &[DynTensor]) -> Option<Body> {
        let arguments = || self.stand_ins.iter().chain(same);
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
}

/// What `trace` gives, and whether it drew random numbers, which are not drawn then: those who
/// record the functions one by one draw them.
pub(super) fn undrawn<T>(
    session: Option<&Session>,
    trace: impl FnOnce() -> Result<T>,
) -> Result<(T, bool)> {
    let before = session.map(Session::rng_state);
    let traced = trace()?;
    let draws = session.map(Session::rng_state) != before;
    if draws && let (Some(session), Some(state)) = (session, before) {
        session.set_rng_state(state);
    }
    Ok((traced, draws))
}

/// Records an op with results of these types, once for each dtype that they have: `op` gives the
/// one for a dtype. Gives the results.
///
/// # Errors
/// The op does not take these operands.
pub(super) fn parts(
    op: impl Fn(DType) -> Op,
    operands: &[&DynTensor],
    types: &[Type],
    at: &'static Location<'static>,
) -> Result<Vec<DynTensor>> {
    let args: Vec<Arg<'_>> = operands.iter().map(|x| Arg::Tensor(x)).collect();
    let mut all: Vec<Option<DynTensor>> = vec![None; types.len()];
    for dtype in DType::ALL.into_iter().filter(|d| types.iter().any(|ty| ty.dtype == *d)) {
        let line = record_at(&op(dtype), &args, at);
        for (i, start) in gt_ir::body::places(dtype, types).into_iter().enumerate() {
            if let Some(start) = start {
                all[i] = Some(part(&line, start, types[i].shape));
            }
        }
    }
    let all: Vec<DynTensor> = all.into_iter().flatten().collect();
    all.iter().find_map(DynTensor::error).map_or(Ok(all), Err)
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
pub(super) fn stand_in(ty: Type) -> DynTensor {
    let zeros = DynTensor::record(Op::Full(ty), &[Arg::Scalar(Scalar::I64(0))]);
    if ty.dtype.is_float() { zeros.requires_grad() } else { zeros }
}
