//! Running sums, products and extrema along an axis, in time proportional to its elements.
//!
//! An axis is cut into chunks, each combined from nothing; a result is that of its chunk so far,
//! combined with that of the chunks before. Chunks can be combined apart, so a long axis shares the
//! threads, and the bits depend on the shape alone. A product takes the whole axis for one chunk: a
//! chunk alone may overflow where a 0 comes before it. `f32` is summed and multiplied in `f64`.
//! Below, "sum" stands for each of these.

use std::ops::Range;

use bytemuck::Pod;
use gt_ir::{DType, Op, Type};
use half::{bf16, f16};

use super::{
    context::Context,
    slices::{Cut, cut, parallel_chunks},
};
use crate::error::EngineError;

/// Elements of a chunk along the axis. Devices have the same, since it decides about bits.
pub(crate) const CHUNK: usize = 512;
/// One chunk for any axis.
const WHOLE: usize = usize::MAX;
/// Elements of one task.
const GRAIN: usize = 1 << 14;
/// Columns that are summed side by side: a few lines of the cache.
const SIDE: usize = 256;
/// Rows, or chunks of one row, that are summed side by side: an addition waits for the one before
/// it in its row only.
const ROWS: usize = 8;
/// Elements of one of these rows after each other: a line of the cache, from which rows of some
/// lengths drive each other.
const BLOCK: usize = 16;

/// How elements are combined.
trait Scan {
    type Element: Pod + Send + Sync;
    /// What results are kept in on the way.
    type Wide: Pod + Send + Sync;
    /// Elements of a chunk along the axis.
    const CHUNK: usize;
    /// It changes nothing when combined.
    const NONE: Self::Wide;
    fn wide(x: Self::Element) -> Self::Wide;
    /// The earlier value comes first.
    fn combine(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn narrow(x: Self::Wide) -> Self::Element;
}

/// The scan of elements of a type: the type that results are kept in on the way, what changes
/// nothing, how two are combined, how a result becomes an element, and the size of chunks.
macro_rules! scan {
    ($element:ty, $wide:ty, $none:expr, $combine:expr, $narrow:expr) => {
        scan!($element, $wide, $none, $combine, $narrow, CHUNK)
    };
    ($element:ty, $wide:ty, $none:expr, $combine:expr, $narrow:expr, $chunk:expr) => {{
        struct Rule;
        impl Scan for Rule {
            type Element = $element;
            type Wide = $wide;
            const CHUNK: usize = $chunk;
            const NONE: $wide = $none;
            fn wide(x: $element) -> $wide {
                x.into()
            }
            fn combine(a: $wide, b: $wide) -> $wide {
                let combine: fn($wide, $wide) -> $wide = $combine;
                combine(a, b)
            }
            fn narrow(x: $wide) -> $element {
                let narrow: fn($wide) -> $element = $narrow;
                narrow(x)
            }
        }
        running::<Rule>
    }};
}

/// The scan for an extremum of elements of any dtype, with the float and integer before all others.
macro_rules! extrema {
    ($dtype:expr, $extremum:ident, $float:ident, $int:ident) => {
        match $dtype {
            DType::F32 => scan!(f32, f32, f32::$float, $extremum, |x| x),
            DType::F64 => scan!(f64, f64, f64::$float, $extremum, |x| x),
            DType::Bf16 => scan!(bf16, f32, f32::$float, $extremum, bf16::from_f32),
            DType::F16 => scan!(f16, f32, f32::$float, $extremum, f16::from_f32),
            DType::I64 => scan!(i64, i64, i64::$int, $extremum, |x| x),
            DType::I32 => scan!(i32, i32, i32::$int, $extremum, |x| x),
            DType::U8 | DType::Bool => scan!(u8, u8, u8::$int, $extremum, |x| x),
        }
    };
}

/// The later of two numbers unless it is smaller. NaN counts as the largest.
#[expect(clippy::eq_op, reason = "NaN differs from itself")]
fn larger<T: Copy + PartialOrd>(a: T, b: T) -> T {
    if b >= a || b != b { b } else { a }
}

/// The later of two numbers unless it is larger. NaN counts as the smallest.
#[expect(clippy::eq_op, reason = "NaN differs from itself")]
fn smaller<T: Copy + PartialOrd>(a: T, b: T) -> T {
    if b <= a || b != b { b } else { a }
}

/// What an op makes of the elements up to each position of an axis.
pub(super) fn run(
    context: &Context<'_>,
    op: &Op,
    ty: &Type,
    axis: usize,
    x: &[u8],
    out: &mut [u8],
) -> Result<(), EngineError> {
    let scan: fn(&Context<'_>, Cut, &[u8], &mut [u8]) = match (op, ty.dtype) {
        (Op::CumSum(_), DType::F32) => scan!(f32, f64, 0.0, |a, b| a + b, |x| x as f32),
        (Op::CumSum(_), DType::F64) => scan!(f64, f64, 0.0, |a, b| a + b, |x| x),
        (Op::CumSum(_), DType::I64) => scan!(i64, i64, 0, i64::wrapping_add, |x| x),
        (Op::CumProd(_), DType::F32) => scan!(f32, f64, 1.0, |a, b| a * b, |x| x as f32, WHOLE),
        (Op::CumProd(_), DType::F64) => scan!(f64, f64, 1.0, |a, b| a * b, |x| x, WHOLE),
        (Op::CumProd(_), DType::I64) => scan!(i64, i64, 1, i64::wrapping_mul, |x| x, WHOLE),
        (Op::CumMax(_), dtype) => extrema!(dtype, larger, NEG_INFINITY, MIN),
        (Op::CumMin(_), dtype) => extrema!(dtype, smaller, INFINITY, MAX),
        // Expansion adds up and multiplies the others in a wide dtype.
        _ => return Err(EngineError::Codegen(format!("{op} of {}", ty.dtype))),
    };
    scan(context, cut(&ty.shape, axis), x, out);
    Ok(())
}

fn running<T: Scan>(context: &Context<'_>, cut: Cut, x: &[u8], out: &mut [u8]) {
    let x: &[T::Element] = bytemuck::cast_slice(x);
    let size = size_of::<T::Element>();
    let slab = cut.axis * cut.inner;
    if slab == 0 {
        return;
    }
    if T::CHUNK >= cut.axis || cut.outer >= context.threads.count() || slab <= 2 * GRAIN {
        let per_task = GRAIN.div_ceil(slab);
        parallel_chunks(context, out, per_task * slab * size, &|i, out| {
            let (x, out): (_, &mut [T::Element]) =
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
    for (x, out) in x.chunks(slab).zip(out.chunks_mut(slab * size)) {
        apart::<T>(context, cut.inner, x, out);
    }
}

/// One chunk after the other.
fn in_order<T: Scan>(inner: usize, x: &[T::Element], out: &mut [T::Element]) {
    let mut before = vec![T::NONE; inner];
    let chunk = T::CHUNK.saturating_mul(inner);
    for (x, out) in x.chunks(chunk).zip(out.chunks_mut(chunk)) {
        sum::<T>(inner, x, &mut before, |at, sums| put::<T>(out, at, sums));
    }
}

/// Writes sums from this element on.
fn put<T: Scan>(out: &mut [T::Element], at: usize, sums: &[T::Wide]) {
    out[at..at + sums.len()].iter_mut().zip(sums).for_each(|(out, sum)| *out = T::narrow(*sum));
}

/// Rows side by side, one chunk after the other.
fn together<T: Scan>(n: usize, x: &[T::Element], out: &mut [T::Element]) {
    let mut before = [T::NONE; ROWS];
    for start in (0..n).step_by(T::CHUNK) {
        let chunk = start..n.min(start.saturating_add(T::CHUNK));
        side_by_side::<T>(x, n, chunk, &mut before, |at, sums| put::<T>(out, at, sums));
    }
}

/// Sums a part of each of some rows, as [`sum`] does.
fn side_by_side<T: Scan>(
    x: &[T::Element],
    n: usize,
    part: Range<usize>,
    before: &mut [T::Wide; ROWS],
    mut tell: impl FnMut(usize, &[T::Wide]),
) {
    let mut local = [T::NONE; ROWS];
    let sum = |local: &mut T::Wide, before: &T::Wide, x: &T::Element| {
        *local = T::combine(*local, T::wide(*x));
        T::combine(*before, *local)
    };
    let (whole, end) = (part.len() / BLOCK, part.end);
    for start in (0..whole).map(|block| part.start + block * BLOCK) {
        for (row, (local, before)) in local.iter_mut().zip(&*before).enumerate() {
            let at = row * n + start;
            let Some(x) = x[at..].first_chunk::<BLOCK>() else { continue };
            let sums: [T::Wide; BLOCK] = std::array::from_fn(|i| sum(local, before, &x[i]));
            tell(at, &sums);
        }
    }
    for i in part.start + whole * BLOCK..end {
        for (row, (local, before)) in local.iter_mut().zip(&*before).enumerate() {
            tell(row * n + i, &[sum(local, before, &x[row * n + i])]);
        }
    }
    before.iter_mut().zip(local).for_each(|(before, local)| *before = T::combine(*before, local));
}

/// The sums of chunks first, then those before each, then all elements.
fn apart<T: Scan>(context: &Context<'_>, inner: usize, x: &[T::Element], out: &mut [u8]) {
    let (chunk, n) = (T::CHUNK * inner, if inner == 1 { ROWS } else { 1 });
    let part = |i: usize| &x[i * n * chunk..x.len().min((i + 1) * n * chunk)];
    let mut sums = vec![T::NONE; x.len().div_ceil(chunk) * inner];
    let grain = n * inner * size_of::<T::Wide>();
    parallel_chunks(context, bytemuck::cast_slice_mut(&mut sums), grain, &|i, sums| {
        chunks::<T>(inner, part(i), bytemuck::cast_slice_mut(sums), |_, _| ());
    });
    let mut before = vec![T::NONE; inner];
    for sums in sums.chunks_mut(inner) {
        for (sum, before) in sums.iter_mut().zip(&mut before) {
            let next = T::combine(*before, *sum);
            *sum = std::mem::replace(before, next);
        }
    }
    parallel_chunks(context, out, n * chunk * size_of::<T::Element>(), &|i, out| {
        let out: &mut [T::Element] = bytemuck::cast_slice_mut(out);
        let (start, end) = (i * n * inner, sums.len().min((i + 1) * n * inner));
        let mut before = sums[start..end].to_vec();
        chunks::<T>(inner, part(i), &mut before, |at, sums| put::<T>(out, at, sums));
    });
}

/// Sums up to [`ROWS`] chunks, each from what `before` has for it.
fn chunks<T: Scan>(
    inner: usize,
    x: &[T::Element],
    before: &mut [T::Wide],
    mut tell: impl FnMut(usize, &[T::Wide]),
) {
    if inner == 1
        && x.len() == ROWS * T::CHUNK
        && let Ok(before) = before.try_into()
    {
        return side_by_side::<T>(x, T::CHUNK, 0..T::CHUNK, before, tell);
    }
    let chunk = T::CHUNK * inner;
    for (i, (x, before)) in x.chunks(chunk).zip(before.chunks_mut(inner)).enumerate() {
        sum::<T>(inner, x, before, |at, sums| tell(i * chunk + at, sums));
    }
}

/// Sums one chunk of `inner` columns: tells the sums of elements, `before` included, and adds the
/// chunk to `before`.
fn sum<T: Scan>(
    inner: usize,
    x: &[T::Element],
    before: &mut [T::Wide],
    mut tell: impl FnMut(usize, &[T::Wide]),
) {
    if let [before] = before {
        let mut local = T::NONE;
        for (at, x) in x.iter().enumerate() {
            local = T::combine(local, T::wide(*x));
            tell(at, &[T::combine(*before, local)]);
        }
        *before = T::combine(*before, local);
        return;
    }
    for (side, before) in before.chunks_mut(SIDE).enumerate() {
        let (mut local, mut sums) = ([T::NONE; SIDE], [T::NONE; SIDE]);
        let sums = &mut sums[..before.len()];
        for at in (side * SIDE..x.len()).step_by(inner) {
            let columns = local.iter_mut().zip(&x[at..]).zip(before.iter());
            for (sum, ((local, x), before)) in sums.iter_mut().zip(columns) {
                *local = T::combine(*local, T::wide(*x));
                *sum = T::combine(*before, *local);
            }
            tell(at, sums);
        }
        before
            .iter_mut()
            .zip(local)
            .for_each(|(before, local)| *before = T::combine(*before, local));
    }
}
