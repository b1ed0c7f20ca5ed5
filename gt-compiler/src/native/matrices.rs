//! Linear algebra: the matrices of a batch, each by one thread.
//!
//! The algorithms are those of `gt_ir::matrix`, so every element has the interpreter's bits. `f32`
//! is computed in `f64` and rounded once.

use bytemuck::Pod;
use gt_ir::{DType, Type, matrix::Problem};

use super::{context::Context, slices::parallel_chunks};
use crate::{error::EngineError, schedule::Routine};

/// Additions that are worth a task of their own.
const GRAIN: usize = 1 << 16;

/// Runs an op on matrices; `bytes` are those of its operands.
pub(super) fn run<'m>(
    context: &Context<'_>,
    step: &Routine,
    bytes: &dyn Fn(usize) -> &'m [u8],
    out: &mut [u8],
) -> Result<(), EngineError> {
    let types: Vec<Type> = step.inputs.iter().map(|(_, ty)| *ty).collect();
    let problem = Problem::new(&step.op, &types, &step.out_ty)
        .ok_or_else(|| EngineError::Codegen(format!("{} is no linear algebra", step.op)))?;
    let operands: Vec<&[u8]> = (0..types.len()).map(bytes).collect();
    match step.out_ty.dtype {
        DType::F32 => each::<f32>(context, &problem, &operands, out, f64::from, |x| x as f32),
        DType::F64 => each::<f64>(context, &problem, &operands, out, |x| x, |x| x),
        DType::Bf16 | DType::F16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            let message = format!("{} of {}", step.op, step.out_ty.dtype);
            return Err(EngineError::Codegen(message));
        }
    }
    Ok(())
}

fn each<T: Pod + Send + Sync>(
    context: &Context<'_>,
    problem: &Problem,
    operands: &[&[u8]],
    out: &mut [u8],
    widen: fn(T) -> f64,
    narrow: fn(f64) -> T,
) {
    let size = problem.result();
    if size == 0 {
        return;
    }
    let operands: Vec<&[T]> = operands.iter().map(|bytes| bytemuck::cast_slice(bytes)).collect();
    let per_task = GRAIN.div_ceil(problem.work().max(1)).min(problem.batch());
    parallel_chunks(context, out, per_task * size * size_of::<T>(), &|task, out| {
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        let mut result = vec![0.0; size];
        for (i, out) in out.chunks_exact_mut(size).enumerate() {
            let at = task * per_task + i;
            let of = |(k, x): (usize, &&[T])| {
                let n = problem.operand(k);
                x[at * n..(at + 1) * n].iter().map(|x| widen(*x)).collect()
            };
            let own: Vec<Vec<f64>> = operands.iter().enumerate().map(of).collect();
            problem.compute(&own.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut result);
            out.iter_mut().zip(&result).for_each(|(out, x)| *out = narrow(*x));
        }
    });
}
