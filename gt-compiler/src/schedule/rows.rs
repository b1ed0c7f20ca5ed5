//! Rows: the leading part of a piece's parallel iterations that pieces of one tile share.
//!
//! Positions in the iteration space are counted in row-major order over the parallel loops; a cut
//! at `c` makes the first loops, `c` iterations together, the rows, and the rest what one row
//! consists of. Everything here is arithmetic on extents and strides.

use smallvec::SmallVec;

use super::piece::{KernelPiece, Piece};
use crate::kernel::{Access, Expr};

/// Extents of neighboring loops, outermost first.
pub(crate) type Extents = SmallVec<[usize; 6]>;
/// Strides along such loops.
pub(crate) type Strides = SmallVec<[i64; 6]>;

/// The parallel loops of a piece that rows can be made of; `None` for one that runs alone.
pub(crate) fn extents(piece: &Piece) -> Option<Extents> {
    match piece {
        Piece::Kernel(k) if k.cut.is_none() => Some(parallel(k)),
        Piece::MatMul(m) if m.is_tiled() => Some(m.row_loops()),
        Piece::Kernel(_)
        | Piece::MatMul(_)
        | Piece::Fold(_)
        | Piece::Routine(_)
        | Piece::Attention(_) => None,
    }
}

fn parallel(k: &KernelPiece) -> Extents {
    k.spec.loops.iter().filter(|l| !l.reduce).map(|l| l.extent).collect()
}

/// The positions where loops end: 1 first, the whole last.
pub(crate) fn boundaries(extents: &[usize]) -> Extents {
    let mut at = 1;
    std::iter::once(1)
        .chain(extents.iter().map(|e| {
            at *= e;
            at
        }))
        .collect()
}

/// Loops cut further at every one of `at` (ascending) that lies within them; `None` where a loop
/// cannot be cut there.
pub(crate) fn refine(extents: &[usize], at: &[usize]) -> Option<Extents> {
    let mut all = boundaries(extents);
    let whole = *all.last()?;
    all.extend(at.iter().copied().filter(|&a| a < whole));
    all.sort_unstable();
    all.dedup();
    all.windows(2).map(|w| w[1].is_multiple_of(w[0]).then(|| w[1] / w[0])).collect()
}

/// The strides along refined loops of an access with `strides` along `extents`.
pub(crate) fn refine_strides(extents: &[usize], strides: &[i64], refined: &[usize]) -> Strides {
    let (mut out, mut parts) = (Strides::new(), refined.iter());
    for (&extent, &stride) in extents.iter().zip(strides) {
        let mut left = extent;
        while left > 1 {
            let Some(&part) = parts.next() else { break };
            left /= part.max(1);
            out.push(stride * left as i64);
        }
    }
    out
}

/// An access along the row loops of a piece, and whether it is the position itself that is computed
/// with.
struct RowAccess<'a> {
    strides: &'a [i64],
    is_index: bool,
}

fn row_accesses(piece: &Piece) -> SmallVec<[(Strides, bool); 8]> {
    let owned = |r: RowAccess<'_>| (r.strides.iter().copied().collect::<Strides>(), r.is_index);
    match piece {
        Piece::Kernel(k) => {
            let n = k.n_parallel();
            let of = |access: &Access, is_index| {
                owned(RowAccess { strides: &access.strides[..n], is_index })
            };
            let nodes = k.spec.nodes.iter().filter_map(|node| match &node.expr {
                Expr::Load { access, .. } => Some(of(access, false)),
                Expr::Index(access) => Some(of(access, true)),
                Expr::Scalar(_)
                | Expr::Unary(..)
                | Expr::Binary(..)
                | Expr::Select(..)
                | Expr::Cast(_) => None,
            });
            nodes.chain(k.spec.stores.iter().map(|s| of(&s.access, false))).collect()
        }
        Piece::MatMul(m) => m.row_strides().into_iter().map(|s| (s, false)).collect(),
        Piece::Fold(_) | Piece::Routine(_) | Piece::Attention(_) => SmallVec::new(),
    }
}

/// The loops that make `rows` rows of every piece together: the last is walked within a tile, the
/// others from tile to tile. `None` where no such loops exist.
pub(crate) fn common(pieces: &[&Piece], rows: usize) -> Option<Extents> {
    let mut breaks: Extents = Extents::new();
    for piece in pieces {
        let own = refine(&extents(piece)?, &[rows])?;
        let n = prefix(&own, rows)?;
        let at = boundaries(&own);
        for (strides, _) in refined_accesses(piece, &own) {
            let together = |i: usize| strides[i] == strides[i + 1] * own[i + 1] as i64;
            breaks.extend((0..n.saturating_sub(1)).filter(|&i| !together(i)).map(|i| at[i + 1]));
        }
    }
    breaks.extend([1, rows]);
    breaks.sort_unstable();
    breaks.dedup();
    let dims: Extents = if rows == 1 {
        SmallVec::from_slice(&[1])
    } else {
        breaks
            .windows(2)
            .map(|w| w[1].is_multiple_of(w[0]).then(|| w[1] / w[0]))
            .collect::<Option<_>>()?
    };
    pieces.iter().all(|p| fits(p, &dims, rows)).then_some(dims)
}

/// Whether a piece's loops can be cut into these rows, with no position depending on the loops from
/// tile to tile.
fn fits(piece: &Piece, dims: &[usize], rows: usize) -> bool {
    let Some(own) = extents(piece) else { return false };
    let at = boundaries(dims);
    let Some(refined) = refine(&own, &at) else { return false };
    let Some(n) = prefix(&refined, rows) else { return false };
    let outer = rows / dims.last().copied().unwrap_or(1).max(1);
    let Some(n_outer) = prefix(&refined[..n], outer) else { return false };
    refined_accesses(piece, &refined)
        .iter()
        .all(|(strides, is_index)| !is_index || strides[..n_outer].iter().all(|s| *s == 0))
}

fn refined_accesses(piece: &Piece, refined: &[usize]) -> SmallVec<[(Strides, bool); 8]> {
    let own = extents(piece).unwrap_or_default();
    row_accesses(piece)
        .into_iter()
        .map(|(strides, is_index)| (refine_strides(&own, &strides, refined), is_index))
        .collect()
}

/// How many of the first loops have `rows` iterations together; loops of one iteration do not
/// count.
pub(crate) fn prefix(extents: &[usize], rows: usize) -> Option<usize> {
    let at = boundaries(extents);
    (0..at.len()).find(|&i| at[i] == rows)
}

/// Strides along neighboring loops as strides along `dims`, of which each is one of them or several
/// walked as one.
pub(crate) fn merged(extents: &[usize], strides: &[i64], dims: &[usize]) -> Strides {
    let mut out = Strides::new();
    let mut loops = extents.iter().zip(strides);
    for &dim in dims {
        let (mut n, mut last) = (1, 0);
        while n < dim {
            let Some((&e, &s)) = loops.next() else { break };
            n *= e;
            last = s;
        }
        out.push(last);
    }
    out
}
