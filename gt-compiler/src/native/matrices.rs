//! Linear algebra: the matrices of a batch, each by one thread.
//!
//! The algorithms are those of `gt_ir::matrix`, so every element has the interpreter's bits.

use bytemuck::Pod;
use gt_ir::{
    DType, Type,
    matrix::{Number, Problem},
};

use super::{context::Context, slices::parallel_chunks};
use crate::{error::EngineError, schedule::Routine};

/// Additions that are worth a task of their own.
const GRAIN: f64 = 65_536.0;

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
        DType::F32 => each::<f32>(context, &problem, &operands, out),
        DType::F64 => each::<f64>(context, &problem, &operands, out),
        DType::Bf16 | DType::F16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            Err(EngineError::Codegen(format!("{} of {}", step.op, step.out_ty.dtype)))
        }
    }
}

fn each<T: Number + Pod>(
    context: &Context<'_>,
    problem: &Problem,
    operands: &[&[u8]],
    out: &mut [u8],
) -> Result<(), EngineError> {
    let size = problem.result();
    if size == 0 {
        return Ok(());
    }
    let operands: Vec<&[T]> = operands.iter().map(|bytes| bytemuck::cast_slice(bytes)).collect();
    let per_task = ((GRAIN / problem.work().max(1.0)).ceil() as usize).min(problem.batch());
    let at_once = context.threads.most().min(problem.batch().div_ceil(per_task));
    let _reserved = context.pool.reserve(problem.scratch().saturating_mul(at_once))?;
    parallel_chunks(context, out, per_task * size * size_of::<T>(), &|task, out| {
        let out = bytemuck::cast_slice_mut(out);
        problem.run(task * per_task, &operands, out);
    });
    Ok(())
}
