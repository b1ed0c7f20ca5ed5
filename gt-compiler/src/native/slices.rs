//! Arrays as slices along an axis, and results in parts that the threads share.

use gt_ir::Shape;

use super::context::{Context, Target};

/// An array as rows of `axis` slices of `inner` elements.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) outer: usize,
    pub(super) axis: usize,
    pub(super) inner: usize,
}

pub(super) fn cut(shape: &Shape, axis: usize) -> Cut {
    let sizes = shape.sizes();
    Cut {
        outer: sizes[..axis].iter().product(),
        axis: sizes[axis],
        inner: sizes[axis + 1..].iter().product(),
    }
}

/// Calls `f(i, chunk)` for the pieces of `out`, on all threads.
#[expect(unsafe_code, reason = "hands disjoint pieces of a slice to several threads")]
pub(super) fn parallel_chunks(
    context: &Context<'_>,
    out: &mut [u8],
    grain: usize,
    f: &(dyn Fn(usize, &mut [u8]) + Sync),
) {
    let (target, len) = (Target(out.as_mut_ptr()), out.len());
    context.threads.run(len.div_ceil(grain.max(1)), &|i, _| {
        let (start, end) = (i * grain, ((i + 1) * grain).min(len));
        // SAFETY: pieces are disjoint and inside `out`, which is borrowed mutably meanwhile.
        let chunk = unsafe {
            std::slice::from_raw_parts_mut(target.address().wrapping_add(start), end - start)
        };
        f(i, chunk);
    });
}
