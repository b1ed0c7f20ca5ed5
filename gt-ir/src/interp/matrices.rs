//! Linear algebra, one matrix of the batch after the other.

use super::{
    EvalError,
    array::{Array, Data},
};
use crate::{Type, matrix::Problem, op::Op};

/// The result of an op on matrices, whose operands have equal leading sizes.
pub(super) fn run(op: &Op, out: Type, args: &[&Array]) -> Result<Array, EvalError> {
    let types: Vec<Type> = args.iter().map(|x| x.ty).collect();
    let problem =
        Problem::new(op, &types, &out).ok_or(EvalError::Kind { wanted: "matrices", found: out })?;
    let operands = args.iter().map(|x| x.floats()).collect::<Result<Vec<_>, _>>()?;
    let mut results = vec![0.0; out.shape.numel()];
    problem.run(0, &operands, &mut results);
    Ok(Array::new(out, Data::Float(results)))
}
