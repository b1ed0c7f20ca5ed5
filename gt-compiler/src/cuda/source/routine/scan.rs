//! Running sums along an axis: each chunk's sum, then the sums before each, then all elements.
//! Running products, a line by a thread.
//!
//! The chunks are the native engine's. Their sums are kept where their first elements go, an `f64`
//! in two places of an `f32` result, so that no other memory is written. A last chunk of one
//! element has one place only, and gets its result with the sums.

use gt_ir::DType;

use super::{Index, Slices, frame};
use crate::{cuda::source::Source, native::SCAN_CHUNK as CHUNK, schedule::Routine};

const LIBRARY: &str = include_str!("scan.cuh");

pub(super) fn sums(name: &str, routine: &Routine, axis: usize) -> Vec<Source> {
    let scan = Scan { name, routine, slices: Slices::new(&routine.out_ty.shape, axis) };
    let (lines, chunks) = (scan.lines(), scan.chunks());
    if chunks < 2 {
        return vec![scan.kernel("alone", lines, "alone")];
    }
    vec![
        scan.kernel("chunks", lines * chunks, "chunk_sum"),
        scan.kernel("before", lines, "sums_before"),
        scan.kernel("all", lines * chunks, "all_sums"),
    ]
}

pub(super) fn products(name: &str, routine: &Routine, axis: usize) -> Vec<Source> {
    let scan = Scan { name, routine, slices: Slices::new(&routine.out_ty.shape, axis) };
    vec![scan.kernel("products", scan.lines(), "products")]
}

struct Scan<'a> {
    name: &'a str,
    routine: &'a Routine,
    slices: Slices,
}

impl Scan<'_> {
    fn lines(&self) -> usize {
        self.slices.outer * self.slices.inner
    }

    fn chunks(&self) -> usize {
        self.slices.axis.div_ceil(CHUNK)
    }

    /// A kernel whose threads call a function of the library.
    fn kernel(&self, part: &str, threads: usize, call: &str) -> Source {
        let wide = if self.routine.out_ty.dtype == DType::I64 { "i64" } else { "f64" };
        let name = format!("{}_{part}", self.name);
        let mut frame = frame(&name, self.routine, &["x"], threads);
        frame.library = LIBRARY;
        frame.source(|text| {
            Index { wide: true }.declare(text, threads);
            let (Slices { axis, inner, .. }, chunks) = (self.slices, self.chunks());
            text.line(format!(
                "const Axis axis = {{{axis}ull, {inner}ull, {CHUNK}ull, {chunks}ull}};"
            ));
            text.line(format!("{call}<{wide}>(axis, x, out, i);"));
        })
    }
}
