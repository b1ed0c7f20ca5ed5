//! Running sums along an axis: each chunk's sum, then the sums before each, then all elements.
//!
//! The chunks are the native engine's. Their sums are kept where their first elements go, an `f64`
//! in two places of an `f32` result, so that no other memory is written. A last chunk of one
//! element has one place only, and gets its result with the sums.

use gt_ir::DType;

use super::{Index, Slices, frame};
use crate::{cuda::source::Source, native::SCAN_CHUNK as CHUNK, schedule::Routine};

const LIBRARY: &str = include_str!("scan.cuh");

pub(super) fn write(name: &str, routine: &Routine, axis: usize) -> Vec<Source> {
    let slices = Slices::new(&routine.out_ty.shape, axis);
    let (lines, chunks) = (slices.outer * slices.inner, slices.axis.div_ceil(CHUNK));
    let wide = if routine.out_ty.dtype == DType::I64 { "i64" } else { "f64" };
    let kernel = |part: &str, threads: usize, call: &str| {
        let name = format!("{name}_{part}");
        let mut frame = frame(&name, routine, &["x"], threads);
        frame.library = LIBRARY;
        frame.source(|text| {
            Index { wide: true }.declare(text, threads);
            let Slices { axis, inner, .. } = slices;
            text.line(format!(
                "const Axis axis = {{{axis}ull, {inner}ull, {CHUNK}ull, {chunks}ull}};"
            ));
            text.line(format!("{call}<{wide}>(axis, x, out, i);"));
        })
    };
    if chunks < 2 {
        return vec![kernel("alone", lines, "alone")];
    }
    vec![
        kernel("chunks", lines * chunks, "chunk_sum"),
        kernel("before", lines, "sums_before"),
        kernel("all", lines * chunks, "all_sums"),
    ]
}
