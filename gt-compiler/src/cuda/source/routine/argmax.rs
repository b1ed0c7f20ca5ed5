//! The first place of the largest element; NaN is larger than everything.

use super::{BLOCK, Index, Slices, frame};
use crate::{
    cuda::source::{
        Source,
        text::{Text, register_type},
    },
    schedule::Routine,
};

const LEADS: &str = "// Whether b at j comes before a at i: NaN is the largest, of equals the \
                     first counts.
template <class T>
__device__ bool leads(T b, u64 j, T a, u64 i) {
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan || b_nan) return b_nan && (!a_nan || j < i);
    return b > a || (b == a && j < i);
}
";

/// Threads that look for one result among `len` elements.
fn lanes(len: usize) -> usize {
    match len {
        0..=8 => 1,
        9..=2048 => 32,
        _ => BLOCK,
    }
}

pub(super) fn write(name: &str, routine: &Routine, axis: usize) -> Source {
    let ty = &routine.inputs[0].1;
    let slices = Slices::new(&ty.shape, axis);
    let lanes = lanes(slices.axis);
    let n_rows = slices.outer * slices.inner;
    let mut frame = frame(name, routine, &["x"], n_rows * lanes);
    (frame.library, frame.barriers) = (LEADS, lanes > 1);
    let value = register_type(ty.dtype);
    frame.source(|text| {
        place(text, slices, lanes, n_rows);
        text.line(format!("{value} best = get(from[0]);"));
        text.line("u64 place = 0;");
        text.line("#pragma unroll 4");
        text.open(format!("for (u32 a = lane; a < {}; a += {lanes})", slices.axis));
        text.line(format!("const {value} other = get(from[u64(a) * {}]);", slices.inner));
        text.line("if (leads(other, a, best, place)) best = other, place = a;");
        text.close();
        if lanes > 1 {
            fold(text, value, lanes);
        }
        text.line(format!("if (lane == 0 && at < {n_rows}) out[row] = i64(place);"));
    })
}

/// Declares which row and lane a thread works on, and where the row begins. Neighboring threads
/// read neighboring elements.
fn place(text: &mut Text, slices: Slices, lanes: usize, n_rows: usize) {
    let (ty, rows) = (Index::up_to(n_rows * lanes).ty(), BLOCK / lanes);
    let (lane, row) = match slices.inner {
        1 => (format!("threadIdx.x % {lanes}u"), format!("threadIdx.x / {lanes}u")),
        _ => (format!("threadIdx.x / {rows}u"), format!("threadIdx.x % {rows}u")),
    };
    text.line(format!("const u32 lane = {lane}, own = {row};"));
    text.line(format!("const {ty} at = {ty}(blockIdx.x) * {rows}u + own;"));
    text.line("// Threads beyond the last result do as it does and write nothing.");
    let last = n_rows.saturating_sub(1);
    text.line(format!("const {ty} row = at < {last} ? at : {last};"));
    let inner = slices.inner.max(1);
    text.line(format!(
        "const auto* from = x + (u64(row / {inner}u) * {} + row % {inner}u);",
        slices.axis * slices.inner
    ));
}

/// Folds the lanes of a row.
fn fold(text: &mut Text, value: &str, lanes: usize) {
    let rows = BLOCK / lanes;
    text.line(format!("__shared__ {value} bests[{lanes}][{rows}];"));
    text.line(format!("__shared__ u64 places[{lanes}][{rows}];"));
    text.line("bests[lane][own] = best, places[lane][own] = place;");
    text.open(format!("for (u32 half = {}; half > 0; half /= 2)", lanes / 2));
    text.line("__syncthreads();");
    text.line("if (lane >= half) continue;");
    text.line(format!("const {value} other = bests[lane + half][own];"));
    text.line("const u64 there = places[lane + half][own];");
    text.line("if (leads(other, there, best, place)) best = other, place = there;");
    text.line("bests[lane][own] = best, places[lane][own] = place;");
    text.close();
}
