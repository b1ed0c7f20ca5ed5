//! The order of the loops of a kernel that moves elements across: what it loads from far apart
//! along its innermost loop lies side by side along another loop, which runs next to the innermost
//! one, so that a line of the cache is read once.
//!
//! Guarantees: the innermost loop stays innermost, but may be cut in two. The choice depends on the
//! spec alone. Does not touch kernels that reduce, since they have an order of adding.

use super::spec::{Access, KernelSpec, Loop};

/// Elements of four bytes that share a line of the cache.
const LINE: i64 = 16;
/// Elements of four bytes that share a page of memory.
const PAGE: usize = 1024;
/// Iterations of the innermost loop beyond which it is cut.
const LONG: usize = 256;
/// Iterations of its pieces, at least and at most.
const LEAST: usize = 8;
const MOST: usize = 64;
/// Bytes of a line of the cache, and the sets of the first-level cache, which share its lines by
/// their addresses.
const LINE_BYTES: u64 = 64;
const SETS: u64 = 64;

/// Brings the loops into order; gives the place that the first loop has then.
pub(super) fn reorder(spec: &mut KernelSpec) -> usize {
    let n = spec.loops.len();
    let innermost = spec.loops.last().map_or(0, |l| l.extent);
    if n < 2 || innermost < LINE as usize || spec.loops.iter().any(|l| l.reduce) {
        return 0;
    }
    let as_it_is: Vec<usize> = (0..n).collect();
    let best = candidates(spec).into_iter().min_by_key(|order| cost(spec, order));
    let order = match best {
        Some(best) if 4 * cost(spec, &best) <= 3 * cost(spec, &as_it_is) => best,
        _ => as_it_is,
    };
    permute(spec, &order);
    let first = order.iter().position(|l| *l == 0).unwrap_or(0);
    if cut(spec) && first == n - 2 { first + 1 } else { first }
}

/// Orders in which a loop along which something lies side by side is next to the innermost one.
fn candidates(spec: &KernelSpec) -> Vec<Vec<usize>> {
    let n = spec.loops.len();
    let side_by_side = spec.loads().filter_map(|(_, access)| beside(access));
    let order = |u: usize| (0..n - 1).filter(|l| *l != u).chain([u, n - 1]).collect();
    side_by_side.map(order).collect()
}

/// The loop along which a load that is far apart along the innermost loop lies side by side.
fn beside(access: &Access) -> Option<usize> {
    let (inner, outer) = access.strides.split_last()?;
    let near = |stride: &i64| (1..LINE).contains(&stride.abs());
    if inner.abs() < LINE { None } else { outer.iter().rposition(near) }
}

/// The time of loading in this order: by how many other lines of the cache, and other pages, are
/// read before a line is read again.
fn cost(spec: &KernelSpec, order: &[usize]) -> u32 {
    let of = |access: &Access| {
        let Some(u) = beside(access) else { return 0 };
        let inside = || order.iter().rev().take_while(|l| **l != u);
        let pages = |l: &usize| {
            let (extent, stride) = (spec.loops[*l].extent, access.strides[*l].unsigned_abs());
            extent * (stride as usize).min(PAGE) / PAGE
        };
        let n_lines: usize = inside().map(|l| spec.loops[*l].extent).product();
        let n_pages: usize = inside().map(|l| pages(l).max(1)).product();
        let of_lines = match n_lines {
            0..=128 => 1,
            129..=1024 => 2,
            1025..=8192 => 4,
            _ => 8,
        };
        let of_pages = match n_pages {
            0..=64 => 0,
            65..=1024 => 1,
            _ => 6,
        };
        of_lines + of_pages
    };
    spec.loads().map(|(_, access)| of(access)).sum()
}

fn permute(spec: &mut KernelSpec, order: &[usize]) {
    spec.loops = order.iter().map(|l| spec.loops[*l]).collect();
    for access in spec.accesses_mut() {
        access.strides = order.iter().map(|l| access.strides[*l]).collect();
    }
}

/// The iterations of the innermost loop whose lines stay in the first-level cache together. Lines
/// at a distance that is a multiple of a power of two, as in matrices of 512 or 1,024 columns,
/// share few of its sets, and a set has at least eight lines. Two sets do for a whole vector.
fn room(spec: &KernelSpec) -> usize {
    let of = |(buffer, access): (u16, &Access)| {
        beside(access)?;
        let size = spec.buffers[usize::from(buffer)].size() as u64;
        let bytes = access.strides.last()?.unsigned_abs() * size;
        let lines = if bytes.is_multiple_of(LINE_BYTES) { bytes / LINE_BYTES } else { 1 };
        let sets = SETS >> lines.trailing_zeros().min(SETS.trailing_zeros());
        Some(match sets {
            1 => LEAST,
            2..=4 => 2 * LEAST,
            sets => (4 * sets as usize).min(MOST),
        })
    };
    spec.loads().filter_map(of).min().unwrap_or(MOST)
}

/// Cuts a long innermost loop into pieces, which run inside of the loop next to it, if that is a
/// loop along which something lies side by side. Returns whether it did.
fn cut(spec: &mut KernelSpec) -> bool {
    let (n, extent) = (spec.loops.len(), spec.loops.last().map_or(0, |l| l.extent));
    let is_across = spec.loads().any(|(_, access)| beside(access) == Some(n - 2));
    let room = room(spec);
    let long = if room < MOST { room } else { LONG };
    let piece = (LEAST..=room).rev().find(|piece| extent.is_multiple_of(*piece));
    let Some(piece) = piece.filter(|_| is_across && extent > long) else { return false };
    spec.loops.insert(n - 2, Loop::parallel(extent / piece));
    spec.loops[n].extent = piece;
    for access in spec.accesses_mut() {
        let stride = access.strides[n - 1];
        access.strides.insert(n - 2, stride * piece as i64);
    }
    true
}

#[cfg(test)]
mod tests {
    use gt_ir::DType;
    use smallvec::smallvec;

    use super::*;
    use crate::kernel::spec::{Expr, ExprId, Node, Store};

    /// The copy of a transposed matrix of `n` rows and columns.
    fn transposition(n: usize, dtype: DType) -> KernelSpec {
        let access = |strides| Access { offset: 0, strides };
        let load = Expr::Load { buffer: 0, access: access(smallvec![1, n as i64]) };
        let to = access(smallvec![n as i64, 1]);
        KernelSpec {
            loops: smallvec![Loop::parallel(n), Loop::parallel(n)],
            buffers: vec![dtype, dtype],
            nodes: vec![Node { expr: load, dtype }],
            stores: vec![Store { buffer: 1, access: to, value: ExprId(0), fold: None }],
            ..KernelSpec::default()
        }
    }

    #[test]
    fn pieces_of_the_innermost_loop_fit_into_the_sets_of_the_cache() {
        let innermost = |n, dtype| {
            let mut spec = transposition(n, dtype);
            let first = reorder(&mut spec);
            let extents: Vec<usize> = spec.loops.iter().map(|l| l.extent).collect();
            assert_eq!((extents.iter().product::<usize>(), extents[first]), (n * n, n));
            extents[extents.len() - 1]
        };
        let of_f32 = [64, 128, 256, 512, 1024, 2048, 500, 509].map(|n| innermost(n, DType::F32));
        assert_eq!(of_f32, [64, 32, 16, 16, 8, 8, 50, 509]);
        assert_eq!([512, 1024].map(|n| innermost(n, DType::F64)), [8, 8]);
        assert_eq!([512, 2048].map(|n| innermost(n, DType::Bf16)), [16, 8]);
    }
}
