//! Index maps: how an element of a node is reached from the loops of a kernel, through the views in
//! between.
//!
//! A map has one affine function of the loops for each dimension of a node. It only computes; what
//! is materialized is `schedule`'s choice.

use gt_ir::{MAX_RANK, Op, Shape};
use smallvec::SmallVec;

use crate::kernel::{Access, Loop};

/// One affine function a dimension.
pub(super) type Map = SmallVec<[Access; MAX_RANK]>;

fn zero(n_loops: usize) -> Access {
    Access { offset: 0, strides: SmallVec::from_elem(0, n_loops) }
}

fn add_scaled(to: &mut Access, x: &Access, by: i64) {
    to.offset += x.offset * by;
    to.strides.iter_mut().zip(&x.strides).for_each(|(t, s)| *t += s * by);
}

/// Dimension `d` walks along loop `loops[d]` of `n_loops`.
pub(super) fn along(loops: &[usize], n_loops: usize) -> Map {
    loops
        .iter()
        .map(|&l| {
            let mut access = zero(n_loops);
            access.strides[l] = 1;
            access
        })
        .collect()
}

/// Position in row-major order.
pub(super) fn linear(map: &[Access], shape: &Shape, n_loops: usize) -> Access {
    strided(map, &shape.strides().map(|stride| stride as i64), n_loops)
}

/// Position where each dimension has a stride.
pub(super) fn strided(map: &[Access], strides: &[i64], n_loops: usize) -> Access {
    let mut out = zero(n_loops);
    map.iter().zip(strides).for_each(|(x, stride)| add_scaled(&mut out, x, *stride));
    out
}

/// The map of a view's operand from the map of the view; `None` where it is not affine, or the op
/// is no view.
pub(super) fn through(
    op: &Op,
    map: &[Access],
    from: &Shape,
    to: &Shape,
    loops: &[Loop],
) -> Option<Map> {
    let n = loops.len();
    if let Op::Reshape(_) = op {
        return split(&linear(map, to, n), from, loops);
    }
    if let Op::Expand(_) = op {
        let added = to.rank() - from.rank();
        let dim = |(d, access): (usize, &Access)| {
            if from.sizes()[d] == 1 { zero(n) } else { access.clone() }
        };
        return Some(map[added..].iter().enumerate().map(dim).collect());
    }
    if let Op::Permute(perm) = op {
        let inverse = perm.inverse();
        return Some(inverse.axes().map(|a| map[a].clone()).collect());
    }
    if let Op::Slice(slice) = op {
        let mut out: Map = map.iter().cloned().collect();
        let axis = &mut out[usize::from(slice.axis)];
        // Of one element the distance may be any number.
        let step = if slice.len() > 1 { slice.step as i64 } else { 0 };
        axis.offset = axis.offset * step + slice.start as i64;
        axis.strides.iter_mut().for_each(|s| *s *= step);
        return Some(out);
    }
    if let Op::Flip(axes) = op {
        let mut out: Map = map.iter().cloned().collect();
        for (d, axis) in out.iter_mut().enumerate().filter(|(d, _)| axes.0.contains(*d)) {
            axis.offset = from.sizes()[d] as i64 - 1 - axis.offset;
            axis.strides.iter_mut().for_each(|s| *s = -*s);
        }
        return Some(out);
    }
    if let Op::Unfold(window) = op {
        let (elements, counted) = map.split_last()?;
        let mut out: Map = counted.iter().cloned().collect();
        let axis = &mut out[usize::from(window.axis)];
        let first = std::mem::replace(axis, zero(n));
        // Of one window, or of windows of one element, the distance may be any number.
        let sizes = to.sizes();
        let step = if sizes[usize::from(window.axis)] > 1 { window.step } else { 0 };
        let dilation = if window.size > 1 { window.dilation } else { 0 };
        add_scaled(axis, &first, step as i64);
        add_scaled(axis, elements, dilation as i64);
        return Some(out);
    }
    None
}

/// A position in row-major order taken apart into dimensions, where each loop stays within one of
/// them.
fn split(position: &Access, shape: &Shape, loops: &[Loop]) -> Option<Map> {
    let n = loops.len();
    if loops.iter().any(|l| l.extent == 0) || shape.numel() == 0 {
        return Some(SmallVec::from_elem(zero(n), shape.rank()));
    }
    let (sizes, strides) = (shape.sizes(), shape.strides());
    let mut out: Map = SmallVec::from_elem(zero(n), shape.rank());
    let mut rest = position.offset;
    for d in 0..shape.rank() {
        let (size, stride) = (sizes[d] as i64, strides[d] as i64);
        let dim = &mut out[d];
        dim.offset = rest / stride;
        rest %= stride;
        let mut last = dim.offset;
        for (l, &step) in position.strides.iter().enumerate() {
            let within = step >= stride && step < stride * size && loops[l].extent > 1;
            if !within {
                continue;
            }
            if step % stride != 0 {
                return None;
            }
            dim.strides[l] = step / stride;
            last += dim.strides[l] * (loops[l].extent as i64 - 1);
        }
        if last >= size {
            return None;
        }
    }
    // Every step has found its dimension, or the loop does not move.
    let found = |l: usize| {
        position.strides[l] == 0 || loops[l].extent == 1 || out.iter().any(|d| d.strides[l] != 0)
    };
    (0..n).all(found).then_some(out)
}
