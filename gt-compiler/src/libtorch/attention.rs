//! Attention by libtorch on the processor, on operands as they lie: what a simulated device calls
//! where a GPU calls its own.
#![expect(unsafe_code, reason = "makes tensors of memory that is not libtorch's")]

use tch::{Device, Kind, TchError, Tensor};

use super::products::{first, kind};
use crate::{
    error::EngineError,
    schedule::{Attention, Matrix, strides},
};

/// Where a call's operands and results lie.
pub(crate) struct Memory {
    /// Query, key and value.
    pub(crate) operands: [*mut u8; 3],
    pub(crate) out: *mut u8,
    pub(crate) sums: *mut u8,
    /// The gradient of the result, and where those of the operands go.
    pub(crate) back: Option<(*mut u8, [*mut u8; 3])>,
}

/// The same as tensors.
struct Views {
    operands: [Tensor; 3],
    out: Tensor,
    sums: Tensor,
    back: Option<(Tensor, [Tensor; 3])>,
}

/// A view of memory: sizes and strides in elements.
type View<'v> = dyn Fn(*mut u8, &[usize], &[i64], Kind) -> Result<Tensor, TchError> + 'v;

/// Computes attention or its gradient.
///
/// # Safety
/// The memory is as large as the accesses of the work and its results say, and nobody else touches
/// it.
pub(crate) unsafe fn attention(
    work: &Attention,
    scale: f64,
    memory: &Memory,
) -> Result<(), EngineError> {
    let tensor = |at: *mut u8, sizes: &[usize], strides: &[i64], kind: Kind| {
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        // SAFETY: as the caller promises; the tensors do not outlive this call.
        unsafe { Tensor::f_from_blob(at, &sizes, strides, kind, Device::Cpu) }
    };
    let computed = views(work, memory, &tensor).and_then(|views| match &views.back {
        None => forward(work, scale, &views),
        Some((grad, grads)) => backward(work, scale, &views, grad, grads),
    });
    computed.map_err(|e| EngineError::Call(format!("libtorch refuses an attention: {e}")))
}

fn views(work: &Attention, memory: &Memory, tensor: &View<'_>) -> Result<Views, TchError> {
    let Attention { batch, heads, length, positions, width, .. } = *work;
    let element = kind(work.dtype).unwrap_or(Kind::Float);
    let given = |at: *mut u8, of: &Matrix, rows: usize| {
        tensor(first(at, of, work.dtype), &[batch, heads, rows, width], &of.access.strides, element)
    };
    let dense = |at: *mut u8, rows: usize| {
        tensor(at, &[batch, heads, rows, width], &strides(heads, rows, width), element)
    };
    let [q, k, v] = memory.operands;
    let back = work.back.as_ref().zip(memory.back).map(|(back, (grad, [dq, dk, dv]))| {
        let grads = [dense(dq, length)?, dense(dk, positions)?, dense(dv, positions)?];
        Ok::<_, TchError>((given(grad, &back.grad, length)?, grads))
    });
    let rows = [heads * length, length, 1].map(|stride| stride as i64);
    Ok(Views {
        operands: [
            given(q, &work.query, length)?,
            given(k, &work.key, positions)?,
            given(v, &work.value, positions)?,
        ],
        out: dense(memory.out, length)?,
        sums: tensor(memory.sums, &[batch, heads, length], &rows, Kind::Float)?,
        back: back.transpose()?,
    })
}

fn forward(work: &Attention, scale: f64, views: &Views) -> Result<(), TchError> {
    let [q, k, v] = &views.operands;
    let (out, sums) = Tensor::f_internal_scaled_dot_product_flash_attention_for_cpu(
        q,
        k,
        v,
        0.0,
        work.causal,
        None::<&Tensor>,
        scale,
    )?;
    views.out.shallow_clone().f_copy_(&out)?;
    views.sums.shallow_clone().f_copy_(&sums)
}

fn backward(
    work: &Attention,
    scale: f64,
    views: &Views,
    grad: &Tensor,
    grads: &[Tensor; 3],
) -> Result<(), TchError> {
    let [q, k, v] = &views.operands;
    let (dq, dk, dv) = Tensor::f_internal_scaled_dot_product_flash_attention_for_cpu_backward(
        grad,
        q,
        k,
        v,
        &views.out,
        &views.sums,
        0.0,
        work.causal,
        None::<&Tensor>,
        scale,
    )?;
    let mut copies = grads.iter().zip([dq, dk, dv]);
    copies.try_for_each(|(to, made)| to.shallow_clone().f_copy_(&made))
}
