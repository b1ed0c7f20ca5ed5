//! The shim's call for a piece of attention.

use super::{
    ffi::Attention,
    product::{moved, number},
};
use crate::{
    device::Call,
    schedule::{self, Matrix},
};

/// The call, for operands and results at these addresses; `None` for a dtype that libtorch has no
/// attention for.
pub(super) fn call(work: &schedule::Attention, call: Call) -> Option<Attention> {
    let first = |at: u64, of: &Matrix| moved(at, of.access.offset * work.dtype.size() as i64);
    let strides = |of: &Matrix| <[i64; 4]>::try_from(&of.access.strides[..]).ok();
    let [query, key, value] = call.operands;
    let back = work.back.as_ref().zip(call.back);
    Some(Attention {
        query: first(query, &work.query),
        key: first(key, &work.key),
        value: first(value, &work.value),
        out: call.out,
        sums: call.sums,
        grad: back.map_or(0, |(back, (grad, _))| first(grad, &back.grad)),
        grads: back.map_or([0; 3], |(_, (_, grads))| grads),
        batch: work.batch as i64,
        heads: work.heads as i64,
        length: work.length as i64,
        positions: work.positions as i64,
        width: work.width as i64,
        query_strides: strides(&work.query)?,
        key_strides: strides(&work.key)?,
        value_strides: strides(&work.value)?,
        grad_strides: back.map_or(Some([0; 4]), |(back, _)| strides(&back.grad))?,
        scale: call.scale,
        dtype: number(work.dtype, false)?,
        causal: i32::from(work.causal),
        backward: i32::from(back.is_some()),
    })
}
