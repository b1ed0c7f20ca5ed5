//! The stages of a tile in order, before its buffers have places: kernels that walk the same
//! elements are one, and what nobody reads is left out.

use std::collections::BTreeSet;

use super::{
    merge,
    piece::{BufferId, MatMul, Piece},
    rows::{self, Strides},
    stage::KernelStage,
};
use smallvec::SmallVec;

/// A stage of a tile.
pub(crate) enum Draft {
    Kernel(KernelStage),
    Product { work: Box<MatMul>, outer: [Strides; 3], row: [i64; 2] },
}

impl Draft {
    pub(crate) fn new(piece: &Piece, dims: &[usize], rows: usize) -> Option<Draft> {
        match piece {
            Piece::Kernel(k) => KernelStage::new(k, dims, rows).map(Draft::Kernel),
            Piece::MatMul(m) => product(m, dims, rows),
            Piece::Fold(_) | Piece::Routine(_) | Piece::Attention(_) => None,
        }
    }

    pub(crate) fn reads(&self) -> SmallVec<[BufferId; 6]> {
        match self {
            Draft::Kernel(k) => k.reads().collect(),
            Draft::Product { work, .. } => {
                SmallVec::from_slice(&[work.lhs.buffer, work.rhs.buffer])
            }
        }
    }

    pub(crate) fn writes(&self) -> SmallVec<[BufferId; 2]> {
        match self {
            Draft::Kernel(k) => k.writes().collect(),
            Draft::Product { work, .. } => SmallVec::from_slice(&[work.out]),
        }
    }
}

/// A product cut into rows: how each operand moves from tile to tile, and its left side and result
/// from row to row.
fn product(m: &MatMul, dims: &[usize], rows: usize) -> Option<Draft> {
    let own = m.row_loops();
    let refined = rows::refine(&own, &rows::boundaries(dims))?;
    if rows::prefix(&refined, rows)? != refined.len() {
        return None; // a row of a product is one row of its left side
    }
    let cut = |strides: &[i64]| {
        let strides = rows::refine_strides(&own, strides, &refined);
        let mut outer = rows::merged(&refined, &strides, dims);
        let row = outer.pop().unwrap_or(0);
        (outer, row)
    };
    let [(lhs, lhs_row), (rhs, _), (out, out_row)] = m.row_strides().map(|s| cut(&s));
    Some(Draft::Product {
        work: Box::new(m.clone()),
        outer: [lhs, rhs, out],
        row: [lhs_row, out_row],
    })
}

/// The stages of a tile.
pub(crate) fn drafts(
    pieces: &[&Piece],
    dims: &[usize],
    rows: usize,
    needed: &BTreeSet<BufferId>,
) -> Option<Vec<Draft>> {
    let drafts: Option<Vec<Draft>> = pieces.iter().map(|p| Draft::new(p, dims, rows)).collect();
    Some(trimmed(merged(drafts?), needed))
}

/// The kernels of pieces cut into rows that lie side by side, merged and without what nobody needs;
/// `None` where they cannot be cut so, or some are no kernels.
#[cfg(feature = "torch")]
pub(crate) fn kernels(
    pieces: &[&Piece],
    rows: usize,
    needed: &BTreeSet<BufferId>,
) -> Option<Vec<KernelStage>> {
    let dims = rows::common(pieces, rows).filter(|dims| dims.len() == 1)?;
    let kernel = |draft| match draft {
        Draft::Kernel(stage) => Some(stage),
        Draft::Product { .. } => None,
    };
    drafts(pieces, &dims, rows, needed)?.into_iter().map(kernel).collect()
}

/// Kernels merged where the second may run as part of the first.
fn merged(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut out: Vec<Draft> = Vec::with_capacity(drafts.len());
    'next: for draft in drafts {
        if let Draft::Kernel(k) = &draft {
            for i in (0..out.len()).rev() {
                if let Draft::Kernel(earlier) = &out[i]
                    && related(earlier, k)
                    && let Some(one) = merge::merge(earlier, k)
                {
                    out[i] = Draft::Kernel(one);
                    continue 'next;
                }
                let writes = out[i].writes();
                if k.reads().any(|b| writes.contains(&b)) {
                    break;
                }
            }
        }
        out.push(draft);
    }
    out
}

fn related(a: &KernelStage, b: &KernelStage) -> bool {
    let of_a: BTreeSet<BufferId> = a.reads().chain(a.writes()).collect();
    b.reads().any(|r| of_a.contains(&r))
}

/// Stores nobody reads any more go away.
fn trimmed(drafts: Vec<Draft>, needed: &BTreeSet<BufferId>) -> Vec<Draft> {
    let mut out: Vec<Draft> = Vec::with_capacity(drafts.len());
    let mut read: BTreeSet<BufferId> = BTreeSet::new();
    for draft in drafts.into_iter().rev() {
        let unwanted = |b: BufferId| !needed.contains(&b) && !read.contains(&b);
        let kept = match draft {
            Draft::Kernel(k) => merge::without(&k, unwanted).map(Draft::Kernel),
            product @ Draft::Product { .. } => Some(product),
        };
        if let Some(kept) = kept {
            read.extend(kept.reads());
            out.push(kept);
        }
    }
    out.reverse();
    out
}
