//! Reverse-mode differentiation of one instruction: the vector-Jacobian product, as more
//! instructions.
//!
//! Which instruction comes when, and where gradients accumulate, is the caller's. A caller may let
//! gradients wait for others of the same value ([`waits`]) and have them [`joined`].

mod parts;
mod reads;

use std::collections::BTreeMap;

use smallvec::SmallVec;

pub use parts::{Part, Wait, joined, waits};
pub use reads::reads;

use crate::{
    emit::{Build, Emit},
    error::OpError,
    op::{Expansion, Grad, Meaning, Op, Operand, OperandType},
    shape::Type,
    tape::ValueId,
};

/// The gradient of each operand; `None` where none flows or none was wanted.
pub type Grads = SmallVec<[Option<ValueId>; 3]>;

/// An instruction being differentiated, and the gradient of its result.
pub struct Vjp<'a> {
    /// Where the gradient's instructions go.
    pub e: &'a mut dyn Emit,
    /// The op.
    pub op: &'a Op,
    /// Its operands.
    pub inputs: &'a [Operand],
    /// Its result.
    pub output: ValueId,
    /// The gradient of the result; same type as the result.
    pub grad: ValueId,
    /// Which operands' gradients are asked for.
    pub wanted: &'a [bool],
}

impl Vjp<'_> {
    /// Whether operand `i` is a value whose gradient is asked for and which can have one.
    pub fn wants(&self, i: usize) -> bool {
        self.wanted.get(i).copied().unwrap_or(false)
            && self.value(i).is_some_and(|v| self.e.ty(v).dtype.is_float())
    }

    /// Operand `i` if it is a value.
    pub fn value(&self, i: usize) -> Option<ValueId> {
        match self.inputs.get(i) {
            Some(Operand::Value(v)) => Some(*v),
            Some(Operand::Scalar(_)) | None => None,
        }
    }

    /// The type of operand `i`, which must be a value.
    ///
    /// # Errors
    /// It is a literal.
    pub fn ty(&self, i: usize) -> Result<Type, OpError> {
        self.tensor(i).map(|v| self.e.ty(v))
    }

    /// Operand `i`, which must be a value.
    ///
    /// # Errors
    /// It is a literal.
    pub fn tensor(&self, i: usize) -> Result<ValueId, OpError> {
        self.value(i)
            .ok_or_else(|| OpError::new(format!("{}: operand {i} is not a tensor", self.op.name())))
    }
}

/// Emits the gradients of an instruction's operands given that of its result.
///
/// # Errors
/// Only if the instruction was not a valid one.
pub fn vjp(mut cx: Vjp<'_>) -> Result<Grads, OpError> {
    match cx.op.spec().grad {
        Grad::Rule(rule) => rule(&mut cx),
        Grad::Expansion => match cx.op.spec().meaning {
            Meaning::Derived(expansion) => through(&mut cx, expansion),
            Meaning::Primitive => {
                Err(OpError::new(format!("{}: a primitive has no expansion", cx.op.name())))
            }
        },
        Grad::Zero => Ok(std::iter::repeat_n(None, cx.inputs.len()).collect()),
    }
}

/// Whether any gradient can flow from `op`'s result to its operands.
///
/// ```
/// use gt_ir::{Op, grad::is_differentiable};
/// assert!(is_differentiable(&Op::Exp));
/// assert!(!is_differentiable(&Op::Eq));
/// ```
pub fn is_differentiable(op: &Op) -> bool {
    !matches!(op.spec().grad, Grad::Zero)
}

/// One instruction of an expansion, in the expansion's own names for operands.
struct Step {
    op: Op,
    inputs: SmallVec<[Operand; 3]>,
    output: ValueId,
}

/// Hands instructions on and remembers them. The expansion knows each operand that is a value by a
/// name of its own, so that one that stands at two places has a gradient for each.
struct Remembering<'a> {
    e: &'a mut dyn Emit,
    operands: &'a [Operand],
    steps: Vec<Step>,
}

/// The name of operand `i` in an expansion: no value has it, since values are numbered from 0.
const fn name(i: usize) -> ValueId {
    ValueId(u64::MAX - i as u64)
}

/// What an operand of a step is outside of the expansion.
fn real(operands: &[Operand], operand: Operand) -> Operand {
    let Operand::Value(v) = operand else { return operand };
    let i = usize::try_from(u64::MAX - v.0).ok();
    i.and_then(|i| operands.get(i)).copied().unwrap_or(operand)
}

impl Emit for Remembering<'_> {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let meant: SmallVec<[Operand; 3]> =
            inputs.iter().map(|input| real(self.operands, *input)).collect();
        let output = self.e.emit(op, &meant)?;
        // What does nothing may have been left out: its gradient is its operand's.
        let same = meant.iter().position(|input| *input == output.into());
        if let Some(Operand::Value(input)) = same.map(|i| inputs[i]) {
            return Ok(input);
        }
        self.steps.push(Step { op, inputs: inputs.into(), output });
        Ok(output)
    }

    fn ty(&self, value: ValueId) -> Type {
        match real(self.operands, value.into()) {
            Operand::Value(v) => self.e.ty(v),
            Operand::Scalar(_) => self.e.ty(value),
        }
    }

    fn operand_type(&self, operand: Operand) -> OperandType {
        self.e.operand_type(real(self.operands, operand))
    }
}

/// The gradient of a derived op by its expansion: computed again, then walked backwards. What the
/// forward pass has computed is found equal and merged when the two are compiled together, unless
/// the engine keeps the op as it is.
pub(crate) fn through(cx: &mut Vjp<'_>, expansion: Expansion) -> Result<Grads, OpError> {
    let (op, operands, wanted) = (cx.op, cx.inputs, cx.wanted);
    let again = |e: &mut dyn Emit, operands: &[Operand]| Ok(vec![expansion(e, op, operands)?]);
    back_through(&mut *cx.e, operands, wanted, again, &[Some(cx.grad)])
}

/// The gradients of the operands of a function, of which some are wanted, given those of its
/// results: computed again, then walked backwards.
pub(crate) fn back_through(
    e: &mut dyn Emit,
    operands: &[Operand],
    wanted: &[bool],
    function: impl FnOnce(&mut dyn Emit, &[Operand]) -> Result<Vec<ValueId>, OpError>,
    grads: &[Option<ValueId>],
) -> Result<Grads, OpError> {
    let names: SmallVec<[Operand; 3]> = operands.iter().enumerate().map(named).collect();
    let mut forward = Remembering { e: &mut *e, operands, steps: Vec::new() };
    let results = function(&mut forward, &names)?;
    // The values a wanted operand flows into, each with the gradient gathered so far.
    let is_wanted = |i: &usize| match operands[*i] {
        Operand::Value(_) => wanted.get(*i) == Some(&true) && forward.ty(name(*i)).dtype.is_float(),
        Operand::Scalar(_) => false,
    };
    let mut reached: BTreeMap<ValueId, Option<ValueId>> = BTreeMap::new();
    reached.extend((0..operands.len()).filter(is_wanted).map(|i| (name(i), None)));
    let steps = forward.steps;
    for step in &steps {
        if is_differentiable(&step.op)
            && e.ty(step.output).dtype.is_float()
            && step.inputs.iter().any(|input| leads(&reached, *input))
        {
            reached.insert(step.output, None);
        }
    }
    for (result, grad) in results.iter().zip(grads) {
        if let Some(grad) = grad {
            gather(e, &mut reached, *result, *grad)?;
        }
    }
    for step in steps.iter().rev() {
        if let Some(Some(grad)) = reached.get(&step.output).copied() {
            back(e, operands, step, grad, &mut reached)?;
        }
    }
    Ok((0..operands.len()).map(|i| reached.get(&name(i)).copied().flatten()).collect())
}

fn named((i, operand): (usize, &Operand)) -> Operand {
    match operand {
        Operand::Value(_) => name(i).into(),
        Operand::Scalar(_) => *operand,
    }
}

fn leads(reached: &BTreeMap<ValueId, Option<ValueId>>, operand: Operand) -> bool {
    matches!(operand, Operand::Value(v) if reached.contains_key(&v))
}

/// Adds the gradients of one step's operands to what they have gathered.
fn back(
    e: &mut dyn Emit,
    operands: &[Operand],
    step: &Step,
    grad: ValueId,
    reached: &mut BTreeMap<ValueId, Option<ValueId>>,
) -> Result<(), OpError> {
    let wanted: SmallVec<[bool; 3]> = step.inputs.iter().map(|i| leads(reached, *i)).collect();
    let inputs: SmallVec<[Operand; 3]> =
        step.inputs.iter().map(|input| real(operands, *input)).collect();
    let (op, output) = (&step.op, step.output);
    let grads = vjp(Vjp { e: &mut *e, op, inputs: &inputs, output, grad, wanted: &wanted })?;
    for (operand, grad) in step.inputs.iter().zip(grads) {
        if let (Operand::Value(v), Some(grad)) = (operand, grad) {
            gather(e, reached, *v, grad)?;
        }
    }
    Ok(())
}

/// Adds a gradient to what a value has gathered, if it gathers any.
fn gather(
    e: &mut dyn Emit,
    reached: &mut BTreeMap<ValueId, Option<ValueId>>,
    value: ValueId,
    grad: ValueId,
) -> Result<(), OpError> {
    if let Some(gathered) = reached.get_mut(&value) {
        *gathered = Some(match *gathered {
            Some(before) => e.add(before, grad)?,
            None => grad,
        });
    }
    Ok(())
}
