//! Choices between two functions, as `lax.cond` of JAX.
//!
//! A choice is the instructions of both functions, and a `where` for each result. Its gradient is a
//! choice between their gradients: the other function's gradient, such as the infinite slope of a
//! square root at 0, is left out, not multiplied by zero.

use smallvec::SmallVec;

use super::{derive::misplaced, grad::Out, infer::Result, lines};
use crate::{
    body::{Body, Builder, Cond, MAX_WORK},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::{Grads, Vjp, back_through},
    op::Op,
    operand::{Operand, OperandType, ValueId},
    shape::Type,
};

impl Cond {
    /// The types of all results, on operands of these types.
    ///
    /// # Errors
    /// The condition is not one `bool`, the arguments do not fit a body, the bodies give results of
    /// different types, or they have more than [`MAX_WORK`] instructions.
    pub fn results(&self, operands: &[Type]) -> Result<Vec<Type>> {
        let Some((condition, arguments)) = operands.split_first() else {
            return Err(OpError::new("cond: there is no condition"));
        };
        Cond::condition("cond", condition)?;
        if self.work() > MAX_WORK {
            let message = format!("cond: {} instructions, more than {MAX_WORK}", self.work());
            return Err(OpError::new(message));
        }
        let arguments: Vec<Type> = arguments.iter().map(Type::unnamed).collect();
        let [on_true, on_false] = [self.on_true, self.on_false].map(|body| body.infer(&arguments));
        let (on_true, on_false) = (on_true?, on_false?);
        Cond::common(&on_true, &on_false)?;
        Ok(on_true)
    }

    /// Whether a value of this type is a condition. `op` is what it is the condition of.
    ///
    /// # Errors
    /// It is not one `bool`.
    pub fn condition(op: &str, ty: &Type) -> Result<()> {
        if ty.dtype == DType::Bool && ty.shape.rank() == 0 {
            return Ok(());
        }
        Err(OpError::new(format!("{op}: the condition is {ty}, not bool[]"))
            .hint("reduce it with `any` or `all`; `where_` chooses for each element"))
    }

    /// Whether both functions give results of the same types; names of dimensions do not matter.
    ///
    /// # Errors
    /// They do not.
    pub fn common(on_true: &[Type], on_false: &[Type]) -> Result<()> {
        let same = |(x, y): (&Type, &Type)| x.dtype == y.dtype && x.shape.same_sizes(&y.shape);
        if on_true.len() == on_false.len() && on_true.iter().zip(on_false).all(same) {
            return Ok(());
        }
        let list = |all: &[Type]| all.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        Err(OpError::new(format!(
            "cond: [{}] where the condition is true, and [{}] where it is false",
            list(on_true),
            list(on_false)
        ))
        .hint("give values of the same types from both functions"))
    }
}

/// A line of the elements of all results of the dtype.
pub(crate) fn infer(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Cond(cond) = op else { return Err(misplaced(op)) };
    let results = cond.results(&lines::tensors(op, ins)?)?;
    lines::ty(op, cond.dtype, &results)
}

/// Both functions, and a choice for each result.
pub(crate) fn both(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (Op::Cond(cond), Some(Operand::Value(condition))) = (op, ins.first()) else {
        return Err(misplaced(op));
    };
    let on_true = cond.on_true.call(e, &ins[1..])?;
    let on_false = cond.on_false.call(e, &ins[1..])?;
    let mut chosen = Vec::new();
    for (x, y) in on_true.into_iter().zip(on_false) {
        if e.ty(x).dtype == cond.dtype {
            chosen.push(if x == y { x } else { e.select(*condition, x, y)? });
        }
    }
    lines::joined(e, cond.dtype, &chosen)
}

/// The choice between the gradients.
pub(crate) fn grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Cond(cond) = *cx.op else { return Err(misplaced(cx.op)) };
    let mut operands: Vec<ValueId> =
        (0..cx.inputs.len()).map(|i| cx.tensor(i)).collect::<Result<_>>()?;
    let types: Vec<Type> = operands.iter().map(|value| cx.e.ty(*value).unnamed()).collect();
    let results = cond.results(&types)?;
    let grad = cx.grad;
    let grads = lines::gradients(cx.e, grad, &results)?;
    let is_wanted = |i: usize| i > 0 && cx.wants(i) && types[i].dtype.is_float();
    let wanted: Vec<bool> = (0..types.len()).map(is_wanted).collect();
    operands.extend(grads.iter().flatten());
    let back = Back { types: &types[1..], wanted: &wanted[1..], grads: &grads };
    let all: Vec<Type> = operands.iter().map(|value| cx.e.ty(*value).unnamed()).collect();
    let (on_true, on_false) = (back.body(cond.on_true, &all)?, back.body(cond.on_false, &all)?);
    let back = Cond { on_true, on_false, ..cond };
    let results = back.results(&all)?;
    let op = |dtype| Op::Cond(Cond { dtype, ..back });
    let found = lines::emitted(cx.e, op, &operands, &results, |_| true)?;
    let mut found = found.into_iter();
    let mut given: Grads = SmallVec::from_elem(None, types.len());
    for i in (0..types.len()).filter(|i| wanted[*i]) {
        let shape = cx.e.ty(operands[i]).shape;
        let grad = found.next().flatten();
        given[i] = grad.map(|grad| cx.e.reshape(grad, shape)).transpose()?;
    }
    Ok(given)
}

/// A function that is walked backwards.
struct Back<'a> {
    /// The types of its arguments.
    types: &'a [Type],
    /// Whether a gradient is asked for, of each argument.
    wanted: &'a [bool],
    /// The gradients of its results.
    grads: &'a [Option<ValueId>],
}

impl Back<'_> {
    /// The gradients of the arguments that are wanted, as a function of the operands but the
    /// condition: the arguments, and the gradients of the results.
    fn body(&self, of: Body, operands: &[Type]) -> Result<Body> {
        let mut e = Builder::new(operands[1..].iter().copied());
        let args: Vec<Operand> = (0..operands.len() - 1).map(Builder::argument).collect();
        let (args, given) = args.split_at(self.types.len());
        let mut given = given.iter();
        let next = |grad: &Option<ValueId>| match (grad, grad.and_then(|_| given.next())) {
            (Some(_), Some(Operand::Value(value))) => Some(*value),
            _ => None,
        };
        let grads: Vec<Option<ValueId>> = self.grads.iter().map(next).collect();
        let call = |e: &mut dyn Emit, args: &[Operand]| of.call(e, args);
        let found = back_through(&mut e, args, self.wanted, call, &grads)?;
        let mut results = Vec::new();
        for i in (0..args.len()).filter(|i| self.wanted[*i]) {
            results.push(lines::given(&mut e, found[i], args[i])?.into());
        }
        e.body(&results)
    }
}
