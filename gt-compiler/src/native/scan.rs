//! Running sums along an axis, in time proportional to the number of elements.
//!
//! An axis is cut into chunks, each summed from zero; an element is the sum of its chunk so far,
//! added to the sum of the chunks before. Chunks can be summed apart, so a long axis shares the
//! threads, and the bits depend on the shape alone. `f32` is summed in `f64`.

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
/// Columns that are summed side by side.
const SIDE: usize = 64;

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
            let x = &x[i * per_task * slab..];
            for (x, out) in x.chunks(slab).zip(bytemuck::cast_slice_mut(out).chunks_mut(slab)) {
                in_order::<T>(cut.inner, x, out);
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
        sum::<T>(inner, x, &mut before, |at, sum| out[at] = T::narrow(sum));
    }
}

/// The sums of chunks first, then those before each, then all elements.
fn apart<T: Sum>(context: &Context<'_>, inner: usize, x: &[T], out: &mut [u8]) {
    let chunk = CHUNK * inner;
    let part = |i: usize| &x[i * chunk..x.len().min((i + 1) * chunk)];
    let mut sums = vec![T::Wide::default(); x.len().div_ceil(chunk) * inner];
    let row = inner * size_of::<T::Wide>();
    parallel_chunks(context, bytemuck::cast_slice_mut(&mut sums), row, &|i, sums| {
        sum::<T>(inner, part(i), bytemuck::cast_slice_mut(sums), |_, _| ());
    });
    let mut before = vec![T::Wide::default(); inner];
    for sums in sums.chunks_mut(inner) {
        for (sum, before) in sums.iter_mut().zip(&mut before) {
            let next = T::add(*before, *sum);
            *sum = std::mem::replace(before, next);
        }
    }
    parallel_chunks(context, out, chunk * size_of::<T>(), &|i, out| {
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        let mut before = sums[i * inner..(i + 1) * inner].to_vec();
        sum::<T>(inner, part(i), &mut before, |at, sum| out[at] = T::narrow(sum));
    });
}

/// Sums one chunk of `inner` columns: tells each element's sum, `before` included, and adds the
/// chunk to `before`.
fn sum<T: Sum>(
    inner: usize,
    x: &[T],
    before: &mut [T::Wide],
    mut tell: impl FnMut(usize, T::Wide),
) {
    if let [before] = before {
        let mut local = T::Wide::default();
        for (at, x) in x.iter().enumerate() {
            local = T::add(local, x.wide());
            tell(at, T::add(*before, local));
        }
        *before = T::add(*before, local);
        return;
    }
    for (side, before) in before.chunks_mut(SIDE).enumerate() {
        let mut local = [T::Wide::default(); SIDE];
        for (row, x) in x.chunks(inner).enumerate() {
            let first = side * SIDE;
            for (column, before) in before.iter().enumerate() {
                local[column] = T::add(local[column], x[first + column].wide());
                tell(row * inner + first + column, T::add(*before, local[column]));
            }
        }
        before.iter_mut().zip(local).for_each(|(before, local)| *before = T::add(*before, local));
    }
}
