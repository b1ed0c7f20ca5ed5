//! Running sums along an axis, in time proportional to the number of elements.
//!
//! An axis is cut into chunks, each summed from zero; an element is the sum of its chunk so far,
//! added to the sum of the chunks before. Chunks can be summed apart, so a long axis shares the
//! threads, and the bits depend on the shape alone. `f32` is summed in `f64`.

use std::ops::Range;

use bytemuck::Pod;
use gt_ir::{DType, Type};

use super::{
    context::Context,
    slices::{Cut, cut, parallel_chunks},
};
use crate::error::EngineError;

/// Elements of a chunk along the axis. Devices have the same, since it decides about bits.
pub(crate) const CHUNK: usize = 512;
/// Elements of one task.
const GRAIN: usize = 1 << 14;
/// Columns that are summed side by side: a few lines of the cache.
const SIDE: usize = 256;
/// Rows, or chunks of one row, that are summed side by side: an addition waits for the one before
/// it in its row only.
const ROWS: usize = 8;

/// An element, and what its sums are kept in.
trait Sum: Pod + Send + Sync {
    type Wide: Pod + Default + Send + Sync;
    fn wide(self) -> Self::Wide;
    fn add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn narrow(sum: Self::Wide) -> Self;
}

macro_rules! sums {
    ($($element:ty, $wide:ty, $add:expr;)*) => { $(
        impl Sum for $element {
            type Wide = $wide;
            fn wide(self) -> $wide {
                self.into()
            }
            fn add(a: $wide, b: $wide) -> $wide {
                ($add)(a, b)
            }
            fn narrow(sum: $wide) -> $element {
                sum as $element
            }
        }
    )* };
}
sums! {
    f32, f64, |a: f64, b: f64| a + b;
    f64, f64, |a: f64, b: f64| a + b;
    i64, i64, i64::wrapping_add;
}

/// The sums of the elements up to each position of an axis.
pub(super) fn cumsum(
    context: &Context<'_>,
    ty: &Type,
    axis: usize,
    x: &[u8],
    out: &mut [u8],
) -> Result<(), EngineError> {
    let cut = cut(&ty.shape, axis);
    match ty.dtype {
        DType::F32 => running::<f32>(context, cut, bytemuck::cast_slice(x), out),
        DType::F64 => running::<f64>(context, cut, bytemuck::cast_slice(x), out),
        DType::I64 => running::<i64>(context, cut, bytemuck::cast_slice(x), out),
        // Expansion sums the others in a wide dtype.
        DType::Bf16 | DType::F16 | DType::I32 | DType::U8 | DType::Bool => {
            return Err(EngineError::Codegen(format!("cumsum of {}", ty.dtype)));
        }
    }
    Ok(())
}

fn running<T: Sum>(context: &Context<'_>, cut: Cut, x: &[T], out: &mut [u8]) {
    let slab = cut.axis * cut.inner;
    if slab == 0 {
        return;
    }
    if cut.outer >= context.threads.count() || slab <= 2 * GRAIN {
        let per_task = GRAIN.div_ceil(slab);
        parallel_chunks(context, out, per_task * slab * size_of::<T>(), &|i, out| {
            let (x, out): (_, &mut [T]) =
                (&x[i * per_task * slab..], bytemuck::cast_slice_mut(out));
            let several = if cut.inner == 1 { ROWS * slab } else { slab };
            for (x, out) in x.chunks(several).zip(out.chunks_mut(several)) {
                if out.len() == ROWS * cut.axis && cut.inner == 1 {
                    together::<T>(cut.axis, x, out);
                } else {
                    let rows = x.chunks(slab).zip(out.chunks_mut(slab));
                    rows.for_each(|(x, out)| in_order::<T>(cut.inner, x, out));
                }
            }
        });
        return;
    }
    for (x, out) in x.chunks(slab).zip(out.chunks_mut(slab * size_of::<T>())) {
        apart::<T>(context, cut.inner, x, out);
    }
}

/// One chunk after the other.
fn in_order<T: Sum>(inner: usize, x: &[T], out: &mut [T]) {
    let mut before = vec![T::Wide::default(); inner];
    let chunk = CHUNK * inner;
    for (x, out) in x.chunks(chunk).zip(out.chunks_mut(chunk)) {
        sum::<T>(inner, x, &mut before, |at, sums| put(out, at, sums));
    }
}

/// Writes sums from this element on.
fn put<T: Sum>(out: &mut [T], at: usize, sums: &[T::Wide]) {
    out[at..at + sums.len()].iter_mut().zip(sums).for_each(|(out, sum)| *out = T::narrow(*sum));
}

/// Rows side by side, one chunk after the other.
fn together<T: Sum>(n: usize, x: &[T], out: &mut [T]) {
    let mut before = [T::Wide::default(); ROWS];
    for start in (0..n).step_by(CHUNK) {
        let chunk = start..n.min(start + CHUNK);
        side_by_side::<T>(x, n, chunk, &mut before, |at, sums| put(out, at, sums));
    }
}

/// Sums a part of each of some rows, as [`sum`] does.
fn side_by_side<T: Sum>(
    x: &[T],
    n: usize,
    part: Range<usize>,
    before: &mut [T::Wide; ROWS],
    mut tell: impl FnMut(usize, &[T::Wide]),
) {
    let mut local = [T::Wide::default(); ROWS];
    for i in part {
        for row in 0..ROWS {
            let at = row * n + i;
            local[row] = T::add(local[row], x[at].wide());
            tell(at, &[T::add(before[row], local[row])]);
        }
    }
    before.iter_mut().zip(local).for_each(|(before, local)| *before = T::add(*before, local));
}

/// The sums of chunks first, then those before each, then all elements.
fn apart<T: Sum>(context: &Context<'_>, inner: usize, x: &[T], out: &mut [u8]) {
    let (chunk, n) = (CHUNK * inner, if inner == 1 { ROWS } else { 1 });
    let part = |i: usize| &x[i * n * chunk..x.len().min((i + 1) * n * chunk)];
    let mut sums = vec![T::Wide::default(); x.len().div_ceil(chunk) * inner];
    let grain = n * inner * size_of::<T::Wide>();
    parallel_chunks(context, bytemuck::cast_slice_mut(&mut sums), grain, &|i, sums| {
        chunks::<T>(inner, part(i), bytemuck::cast_slice_mut(sums), |_, _| ());
    });
    let mut before = vec![T::Wide::default(); inner];
    for sums in sums.chunks_mut(inner) {
        for (sum, before) in sums.iter_mut().zip(&mut before) {
            let next = T::add(*before, *sum);
            *sum = std::mem::replace(before, next);
        }
    }
    parallel_chunks(context, out, n * chunk * size_of::<T>(), &|i, out| {
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        let (start, end) = (i * n * inner, sums.len().min((i + 1) * n * inner));
        let mut before = sums[start..end].to_vec();
        chunks::<T>(inner, part(i), &mut before, |at, sums| put(out, at, sums));
    });
}

/// Sums up to [`ROWS`] chunks, each from what `before` has for it.
fn chunks<T: Sum>(
    inner: usize,
    x: &[T],
    before: &mut [T::Wide],
    mut tell: impl FnMut(usize, &[T::Wide]),
) {
    if inner == 1
        && x.len() == ROWS * CHUNK
        && let Ok(before) = before.try_into()
    {
        return side_by_side::<T>(x, CHUNK, 0..CHUNK, before, tell);
    }
    let chunk = CHUNK * inner;
    for (i, (x, before)) in x.chunks(chunk).zip(before.chunks_mut(inner)).enumerate() {
        sum::<T>(inner, x, before, |at, sums| tell(i * chunk + at, sums));
    }
}

/// Sums one chunk of `inner` columns: tells the sums of elements, `before` included, and adds the
/// chunk to `before`.
fn sum<T: Sum>(
    inner: usize,
    x: &[T],
    before: &mut [T::Wide],
    mut tell: impl FnMut(usize, &[T::Wide]),
) {
    if let [before] = before {
        let mut local = T::Wide::default();
        for (at, x) in x.iter().enumerate() {
            local = T::add(local, x.wide());
            tell(at, &[T::add(*before, local)]);
        }
        *before = T::add(*before, local);
        return;
    }
    for (side, before) in before.chunks_mut(SIDE).enumerate() {
        let (mut local, mut sums) = ([T::Wide::default(); SIDE], [T::Wide::default(); SIDE]);
        let sums = &mut sums[..before.len()];
        for at in (side * SIDE..x.len()).step_by(inner) {
            let columns = local.iter_mut().zip(&x[at..]).zip(before.iter());
            for (sum, ((local, x), before)) in sums.iter_mut().zip(columns) {
                *local = T::add(*local, x.wide());
                *sum = T::add(*before, *local);
            }
            tell(at, sums);
        }
        before.iter_mut().zip(local).for_each(|(before, local)| *before = T::add(*before, local));
    }
}
