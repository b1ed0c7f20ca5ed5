//! Reading where indices say: element by element, or whole slices.

use super::{Index, Slices, frame, merged};
use crate::{cuda::source::Source, schedule::Routine};

pub(super) fn gather(name: &str, routine: &Routine, axis: usize) -> Source {
    let (x, index) = (routine.inputs[0].1.shape, routine.inputs[1].1.shape);
    let (from, at) = (x.strides(), index.strides());
    let n = index.numel();
    let kind = Index::up_to(n.max(x.numel()));
    let dims =
        (0..index.rank()).map(|d| (index.sizes()[d], [if d == axis { 0 } else { from[d] }, at[d]]));
    let dims: Vec<(usize, usize)> = merged(dims).into_iter().map(|(e, s)| (e, s[0])).collect();
    let size = x.sizes()[axis];
    frame(name, routine, &["x", "index"], n).source(|text| {
        kind.declare(text, n);
        text.line(format!("const u64 row = checked(index[i], {size}, error);"));
        if size == 0 {
            return; // there is nothing to read
        }
        let beside: Vec<(usize, usize)> = dims;
        let place = kind.affine("i", &beside);
        let row = format!("{}(row) * {}", kind.ty(), kind.number(from[axis]));
        text.line(format!("out[i] = x[{row} + {place}];"));
    })
}

pub(super) fn index_select(name: &str, routine: &Routine, axis: usize) -> Source {
    let (x, n_rows) = (&routine.inputs[0].1, routine.inputs[1].1.shape.numel());
    let slices = Slices::new(&x.shape, axis);
    let bytes = slices.inner * x.dtype.size();
    let (unit, word) = word(bytes);
    let width = bytes / unit;
    let n = slices.outer * n_rows * width;
    let kind = Index::up_to(n.max(x.bytes() / unit));
    frame(name, routine, &["x", "index"], n).source(|text| {
        kind.declare(text, n);
        let number = |n: usize| kind.number(n.max(1));
        text.line(format!("// Slices of {bytes} bytes move by {unit}."));
        text.line(format!("const {} slice = i / {};", kind.ty(), number(width)));
        let which = format!("index[slice % {}]", number(n_rows));
        text.line(format!("const u64 row = checked({which}, {}, error);", slices.axis));
        if slices.axis == 0 {
            return; // there is nothing to read
        }
        let from =
            format!("slice / {} * {} + {}(row)", number(n_rows), number(slices.axis), kind.ty());
        text.line(format!(
            "(({word}*)out)[i] = ((const {word}*)x)[({from}) * {} + i % {}];",
            number(width),
            number(width)
        ));
    })
}

/// The widest word that a number of bytes is a multiple of.
fn word(bytes: usize) -> (usize, &'static str) {
    [(16, "Pack<u64, 2>"), (8, "u64"), (4, "u32"), (2, "u16")]
        .into_iter()
        .find(|(size, _)| bytes.is_multiple_of(*size))
        .unwrap_or((1, "u8"))
}
