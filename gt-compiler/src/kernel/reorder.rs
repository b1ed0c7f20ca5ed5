//! The order of the loops of a kernel that moves elements across: what it loads from far apart
//! along its innermost loop lies side by side along another loop, which runs next to the innermost
//! one, so that a line of the cache is read once.
//!
//! Guarantees: the innermost loop stays innermost, but may be cut in two. The choice depends on the
//! spec alone. Does not touch kernels that reduce, since they have an order of adding.

use std::ops::RangeInclusive;

use super::spec::{Access, KernelSpec, Loop};

/// Elements of four bytes that share a line of the cache.
const LINE: i64 = 16;
/// Elements of four bytes that share a page of memory.
const PAGE: usize = 1024;
/// Iterations of the innermost loop beyond which it is cut.
const LONG: usize = 256;
/// Iterations of its pieces.
const PIECE: RangeInclusive<usize> = 16..=64;

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

/// Cuts a long innermost loop into pieces, which run inside of the loop next to it, if that is a
/// loop along which something lies side by side. Returns whether it did.
fn cut(spec: &mut KernelSpec) -> bool {
    let (n, extent) = (spec.loops.len(), spec.loops.last().map_or(0, |l| l.extent));
    let is_across = spec.loads().any(|(_, access)| beside(access) == Some(n - 2));
    let piece = PIECE.rev().find(|piece| extent.is_multiple_of(*piece));
    let Some(piece) = piece.filter(|_| is_across && extent > LONG) else { return false };
    spec.loops.insert(n - 2, Loop::parallel(extent / piece));
    spec.loops[n].extent = piece;
    for access in spec.accesses_mut() {
        let stride = access.strides[n - 1];
        access.strides.insert(n - 2, stride * piece as i64);
    }
    true
}
