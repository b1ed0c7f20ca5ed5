//! Picking by index tensors along one or several axes at once, as NumPy's advanced indexing does.
//!
//! Several indices become one into the flattened axes. A position out of range is an error when it
//! runs, on each axis by itself.

use super::{Arg, DynTensor};

/// `x` with the axes of `picks` replaced by the common shape of their tensors, in place of the
/// first one if the axes are neighbours, else in front.
#[track_caller]
pub(super) fn pick(x: &DynTensor, picks: &[(usize, DynTensor)]) -> DynTensor {
    let sizes = x.shape();
    let at = |i: usize| picks[i].0;
    if let [(axis, index)] = picks {
        return x.index_select(*axis as i64, &wrapped(index, sizes.sizes()[*axis], None));
    }
    let neighbours = (1..picks.len()).all(|i| at(i) == at(0) + i);
    let first = if neighbours { at(0) } else { 0 };
    let joined = flattened(x, picks, first);
    let mut flat: Option<DynTensor> = None;
    for (axis, index) in picks {
        let size = sizes.sizes()[*axis];
        let index = wrapped(index, size, Some(-1));
        flat = Some(match flat {
            None => index,
            Some(before) => combined(&before, &index, size),
        });
    }
    match flat {
        Some(flat) => joined.index_select(first as i64, &flat),
        None => joined,
    }
}

/// Negative positions counted from the end; those out of range as `invalid`, or left as they are.
#[track_caller]
fn wrapped(index: &DynTensor, size: usize, invalid: Option<i64>) -> DynTensor {
    let size = size as i64;
    let index = index.to_dtype(gt_ir::DType::I64);
    let from_front = index.lt(0).where_(&index.add(size), &index);
    match invalid {
        None => from_front,
        Some(invalid) => {
            let outside = from_front.lt(0).logical_or(&from_front.ge(size));
            outside.where_(Arg::from(invalid), &from_front)
        }
    }
}

/// The position in two axes as one, whose second has `size` elements; -1 if it is in either.
#[track_caller]
fn combined(before: &DynTensor, index: &DynTensor, size: usize) -> DynTensor {
    let outside = before.lt(0).logical_or(&index.lt(0));
    outside.where_(Arg::from(-1_i64), &before.mul(size as i64).add(index))
}

/// The axes of `picks` as one at `first`, the others in order.
#[track_caller]
fn flattened(x: &DynTensor, picks: &[(usize, DynTensor)], first: usize) -> DynTensor {
    let shape = x.shape();
    let picked = |axis: &usize| picks.iter().any(|(p, _)| p == axis);
    let mut order: Vec<usize> = (0..shape.rank()).filter(|a| !picked(a)).collect();
    order.splice(first..first, picks.iter().map(|(axis, _)| *axis));
    let moved = if order.iter().is_sorted() {
        x.clone()
    } else {
        x.permute(order.iter().map(|&a| a as i64).collect::<Vec<_>>())
    };
    let sizes: Vec<usize> = order.iter().map(|&a| shape.sizes()[a]).collect();
    let (before, rest) = sizes.split_at(first);
    let (joined, after) = rest.split_at(picks.len());
    let joined = joined.iter().product::<usize>();
    let sizes: Vec<usize> =
        before.iter().copied().chain([joined]).chain(after.iter().copied()).collect();
    moved.reshape(sizes)
}
