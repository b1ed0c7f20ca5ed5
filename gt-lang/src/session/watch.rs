//! A watch for NaN and infinities: which instruction was the first to make one.
//!
//! While it is on, each float result is followed by instructions that ask whether any of it is NaN
//! or infinite, and each read looks at the answers since the last one. An instruction is bad if it
//! makes a NaN of operands without one, or an infinity of finite numbers and literals: the minus
//! infinity of a mask is no fault. The first bad one is the error of every read from then on.
//!
//! Guarantees: without a watch nothing is recorded or kept. Answers not read yet are bounded; of
//! too many the first stay, which are the ones that name the cause.

use std::collections::BTreeMap;

use gt_ir::attr::{Axis, AxisSet, Keep, Reduce};
use gt_ir::{Entry, HostTensor, Instr, Loc, Op, Operand, Scalar, Shape, Type, ValueId};
use smallvec::{SmallVec, smallvec};

use super::Place;
use super::recorder::Recorder;
use crate::error::{Error, ErrorKind};

/// The variable that has every session watch from its beginning.
const VARIABLE: &str = "GT_NAN_WATCH";
/// Results whose answers are gathered in one value.
const GATHERED: usize = 64;
/// The most values of gathered answers between two reads.
const MAX_CHECKS: usize = 1 << 10;

/// The state of a watch.
#[derive(Default)]
pub(super) struct Watch {
    /// Results asked about, and the values that hold the answers, two each.
    asked: Vec<Asked>,
    answers: Vec<ValueId>,
    /// Answers gathered.
    checks: Vec<Check>,
    /// Values that are known to hold NaN or infinities, and are not bad for it.
    known: BTreeMap<ValueId, Found>,
    /// Values gone since the last read: instructions asked about since may have used them.
    freed: Vec<ValueId>,
    bad: Option<Error>,
}

/// The answers about some results, in one value.
pub(super) struct Check {
    pub(super) value: ValueId,
    asked: Vec<Asked>,
}

/// A result that is asked about.
struct Asked {
    out: ValueId,
    op: Op,
    ty: Type,
    loc: Loc,
    operands: SmallVec<[ValueId; 3]>,
    literals: Found,
}

/// What is among some numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    nan: bool,
    infinite: bool,
}

impl Found {
    /// What is among either.
    fn or(self, other: Found) -> Found {
        Found { nan: self.nan || other.nan, infinite: self.infinite || other.infinite }
    }

    /// What a literal is.
    fn of(scalar: Scalar) -> Found {
        match scalar {
            Scalar::F64(x) => Found { nan: x.is_nan(), infinite: x.is_infinite() },
            _ => Found::default(),
        }
    }
}

impl Watch {
    /// A watch, if the environment asks for one.
    pub(super) fn of_environment() -> Option<Box<Watch>> {
        gt_settings::is_on(VARIABLE).then(Box::default)
    }

    /// A value is gone.
    pub(super) fn forget(&mut self, value: ValueId) {
        // Of too many some stay known, which costs their memory.
        if self.freed.len() < GATHERED * MAX_CHECKS {
            self.freed.push(value);
        }
    }

    /// Takes the answer about one result.
    fn judge_one(&mut self, asked: &Asked, found: Found) {
        if found == Found::default() || self.bad.is_some() {
            return;
        }
        let known = |operand: &ValueId| self.known.get(operand).copied().unwrap_or_default();
        let given = asked.operands.iter().map(known).fold(asked.literals, Found::or);
        if found.nan && !given.nan {
            self.bad = Some(asked.error("NaN"));
        } else if found.infinite && given == Found::default() {
            self.bad = Some(asked.error("infinity"));
        } else {
            self.known.insert(asked.out, found);
        }
    }
}

impl Asked {
    fn error(&self, what: &str) -> Error {
        let message = format!(
            "{}: the first {what} of this session is in its result, {}",
            self.op.name(),
            self.ty
        );
        let hint = match what {
            "NaN" => {
                "no operand held one; look for 0/0, inf - inf, or a root or logarithm of what is \
                 negative"
            }
            _ => {
                "its operands were finite; look for a division by 0, a logarithm of 0, or numbers \
                 too large for the dtype"
            }
        };
        Error::new(ErrorKind::Run, message, self.loc).hint(hint)
    }
}

impl Watch {
    /// Asks about the result of an instruction just recorded.
    pub(super) fn result(
        &mut self,
        recorder: &mut Recorder,
        (out, loc): (ValueId, Loc),
        op: &Op,
        ty: &Type,
    ) {
        let has_room = self.checks.len() < MAX_CHECKS && self.bad.is_none();
        if !ty.dtype.is_float() || recorder.is_closed() || !has_room {
            return;
        }
        let (operands, literals) = operands_of(recorder.last_entry());
        self.asked.push(Asked { out, op: *op, ty: *ty, loc, operands, literals });
        self.answers.extend(answers(recorder, out, ty, loc));
        if self.asked.len() == GATHERED {
            self.gather(recorder);
        }
    }

    /// Looks at data given from outside, whose first NaN is the program's.
    pub(super) fn data(&mut self, value: ValueId, data: &HostTensor, loc: impl FnOnce() -> Loc) {
        if !data.ty().dtype.is_float() {
            return;
        }
        let found = data.to_f64().into_iter().fold(Found::default(), |found, x| {
            found.or(Found { nan: x.is_nan(), infinite: x.is_infinite() })
        });
        if found.nan {
            let message = format!("from_vec: there is a NaN in the data given, {}", data.ty());
            self.bad.get_or_insert_with(|| Error::new(ErrorKind::Data, message, loc()));
        } else if found.infinite {
            self.known.insert(value, found);
        }
    }

    /// Puts the answers so far into one value.
    fn gather(&mut self, recorder: &mut Recorder) {
        let answers = std::mem::take(&mut self.answers);
        if !answers.is_empty() {
            let operands = answers.iter().map(|&answer| answer.into()).collect();
            let value = record(recorder, Op::Cat(Axis(0)), operands, Loc::NONE);
            answers.into_iter().for_each(|answer| recorder.free(answer));
            self.checks.push(Check { value, asked: std::mem::take(&mut self.asked) });
        }
    }

    /// The answers since the last read, to be read with this one.
    pub(super) fn take_checks(&mut self, recorder: &mut Recorder) -> Vec<Check> {
        self.gather(recorder);
        let checks = std::mem::take(&mut self.checks);
        checks.iter().for_each(|check| recorder.output(check.value));
        checks
    }

    /// Keeps answers for the next read, as this one is given up.
    pub(super) fn give_back(&mut self, check: Check) {
        self.checks.insert(0, check);
    }

    /// Takes answers that were read.
    pub(super) fn judge(&mut self, check: &Check, flags: &HostTensor) {
        let Ok(flags) = flags.to_vec::<bool>() else { return };
        for (asked, flags) in check.asked.iter().zip(flags.chunks_exact(2)) {
            self.judge_one(asked, Found { nan: flags[0], infinite: flags[1] });
        }
    }

    /// All answers since the last read were taken: what is gone need not be known any longer.
    pub(super) fn judged(&mut self) {
        if self.asked.is_empty() && self.checks.is_empty() {
            for value in std::mem::take(&mut self.freed) {
                self.known.remove(&value);
            }
        }
    }

    /// The error of the first bad instruction.
    pub(super) fn bad(&self) -> Option<Error> {
        self.bad.clone()
    }

    /// Frees the answers that nobody read.
    pub(super) fn end(self, recorder: &mut Recorder) {
        let gathered = self.checks.into_iter().map(|check| check.value);
        gathered.chain(self.answers).for_each(|value| recorder.free(value));
    }
}

/// The values among an instruction's operands, and what is among its literals.
fn operands_of(entry: Option<&Entry>) -> (SmallVec<[ValueId; 3]>, Found) {
    let (mut values, mut literals) = (SmallVec::new(), Found::default());
    let Some(Entry::Instr(Instr { inputs, .. })) = entry else { return (values, literals) };
    for input in inputs {
        match input {
            Operand::Value(value) => values.push(*value),
            Operand::Scalar(scalar) => literals = literals.or(Found::of(*scalar)),
        }
    }
    (values, literals)
}

/// Records whether any element of a value is NaN and whether any is infinite: two values of one
/// element.
fn answers(recorder: &mut Recorder, value: ValueId, ty: &Type, loc: Loc) -> [ValueId; 2] {
    let numel = ty.shape.numel();
    let flat = Shape::new(&[numel]).map_or(ty.shape, |shape| shape);
    let flat = record(recorder, Op::Reshape(flat), smallvec![value.into()], loc);
    let nan = record(recorder, Op::Ne, smallvec![flat.into(), flat.into()], loc);
    let size = record(recorder, Op::Abs, smallvec![flat.into()], loc);
    let infinity = Operand::Scalar(Scalar::F64(f64::INFINITY));
    let infinite = record(recorder, Op::Eq, smallvec![size.into(), infinity], loc);
    let any = Op::Any(Reduce { axes: AxisSet::all(1), keep: Keep::Yes });
    let answers = [nan, infinite].map(|each| record(recorder, any, smallvec![each.into()], loc));
    [flat, nan, size, infinite].into_iter().for_each(|value| recorder.free(value));
    answers
}

/// Records an instruction of the watch; gives its result.
fn record(recorder: &mut Recorder, op: Op, inputs: SmallVec<[Operand; 3]>, loc: Loc) -> ValueId {
    recorder.instr(&op, inputs, Place::Known(loc)).0
}
