//! Linear algebra, one matrix of the batch after the other.

use super::{
    EvalError,
    array::{Array, Data},
};
use crate::{DType, Type, matrix::Problem, op::Op};

/// The result of an op on matrices, whose operands have equal leading sizes.
pub(super) fn run(op: &Op, out: Type, args: &[&Array]) -> Result<Array, EvalError> {
    let types: Vec<Type> = args.iter().map(|x| x.ty).collect();
    let problem =
        Problem::new(op, &types, &out).ok_or(EvalError::Kind { wanted: "matrices", found: out })?;
    let operands = args.iter().map(|x| x.floats()).collect::<Result<Vec<_>, _>>()?;
    let mut results = vec![0.0; out.shape.numel()];
    // The bits depend on the type of the numbers.
    if out.dtype == DType::F32 {
        let narrow = |x: &&[f64]| x.iter().map(|x| *x as f32).collect();
        let operands: Vec<Vec<f32>> = operands.iter().map(narrow).collect();
        let operands: Vec<&[f32]> = operands.iter().map(Vec::as_slice).collect();
        let mut narrow = vec![0.0_f32; results.len()];
        problem.run(0, &operands, &mut narrow);
        results.iter_mut().zip(narrow).for_each(|(to, x)| *to = f64::from(x));
    } else {
        problem.run(0, &operands, &mut results);
    }
    Ok(Array::new(out, Data::Float(results)))
}
