//! Which pieces run together, tile by tile: those that hand each other rows, and those that read
//! the same rows.
//!
//! Greedy, in the order of the pieces: each joins the group that makes what it reads, if the row it
//! needs is the row that group has just made, else one that reads the same buffers, else it begins
//! a group. A group stands where its first piece stood, or where its last one does when nothing in
//! between needs it. The result depends on the pieces alone.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{
    piece::{BufferId, KernelPiece, Piece},
    rows::{self, Extents},
};
use crate::kernel::Access;

/// Rows a group keeps at least when it works on much: enough for many threads and small tiles.
const MIN_ROWS: usize = 32;
/// Elements below which nothing is gained by several threads.
const SMALL: usize = 32 << 10;
/// Rows of a tile that keep a product efficient.
const PRODUCT_ROWS: usize = 256;
/// Multiply-adds of a tile that make the cost of calling the library small.
const PRODUCT_CALL: usize = 1 << 15;
/// Groups looked at for shared reads.
const NEIGHBORS: usize = 6;
/// Pieces of one group at most, if there is memory enough.
pub(crate) const MAX_PIECES: usize = 48;

/// Pieces that run together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Their numbers, ascending.
    pub(crate) pieces: SmallVec<[usize; 4]>,
    /// The numbers of rows all of them can be cut into, ascending; empty for a piece that runs
    /// alone.
    pub(crate) rows: Extents,
}

/// Puts pieces into groups of at most `most`, in an order that respects what they read.
pub(crate) fn group(pieces: &[Piece], most: usize) -> Vec<Group> {
    let mut grouping = Grouping::new(pieces, most);
    (0..pieces.len()).for_each(|p| grouping.place(p));
    grouping.order.into_iter().filter_map(|slot| grouping.groups[slot].take()).collect()
}

/// The numbers of rows a piece can be cut into, ascending; none for one that is no stage of a tile.
pub(crate) fn cuts(piece: &Piece) -> Extents {
    let extents = rows::extents(piece).filter(|e| !e.contains(&0));
    extents.map(|e| usable(&[piece], &rows::boundaries(&e))).unwrap_or_default()
}

/// The numbers of rows these pieces can be cut into together, ascending: for launches of devices.
#[cfg(feature = "torch")]
pub(crate) fn together(members: &[&Piece]) -> Extents {
    let extents: Option<Vec<Extents>> = members.iter().map(|piece| rows::extents(piece)).collect();
    let each = extents.unwrap_or_default();
    let all = each.iter().flat_map(|extents| rows::boundaries(extents)).collect();
    shared(members, all)
}

/// Those of some numbers of rows that all members can be cut into.
fn shared(members: &[&Piece], mut all: Extents) -> Extents {
    all.sort_unstable();
    all.dedup();
    all.retain(|&mut r| members.iter().all(|m| reads_rows(members, m, r)));
    usable(members, &all)
}

/// Whether a piece stores a buffer from its beginning to its end, element after element.
pub(crate) fn is_whole(piece: &Piece, buffer: BufferId) -> bool {
    piece.writes().contains(&buffer) && stored_row(piece, buffer, 1).is_some()
}

struct Grouping<'p> {
    pieces: &'p [Piece],
    /// Pieces of a group at most.
    most: usize,
    groups: Vec<Option<Group>>,
    /// Groups in running order, by slot.
    order: Vec<usize>,
    /// The position in `order` of each slot.
    position: Vec<usize>,
    /// The groups that write each buffer.
    writers: BTreeMap<BufferId, SmallVec<[usize; 1]>>,
    /// The last groups that read each buffer.
    readers: BTreeMap<BufferId, SmallVec<[usize; 4]>>,
    /// How often each buffer is written.
    n_writes: BTreeMap<BufferId, usize>,
}

impl<'p> Grouping<'p> {
    fn new(pieces: &'p [Piece], most: usize) -> Self {
        let mut n_writes = BTreeMap::new();
        pieces.iter().flat_map(Piece::writes).for_each(|b| *n_writes.entry(b).or_default() += 1);
        Grouping {
            pieces,
            most,
            groups: Vec::new(),
            order: Vec::new(),
            position: Vec::new(),
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            n_writes,
        }
    }

    fn place(&mut self, p: usize) {
        let piece = &self.pieces[p];
        let own = self.own_rows(piece);
        let sources: SmallVec<[usize; 4]> =
            piece.reads().iter().filter_map(|b| self.writers.get(b)).flatten().copied().collect();
        let mut candidates: SmallVec<[usize; 12]> = sources.iter().copied().collect();
        candidates.sort_unstable_by_key(|&g| std::cmp::Reverse(self.position[g]));
        for b in piece.reads() {
            candidates.extend(self.readers.get(&b).into_iter().flatten().copied());
        }
        let mut tried: SmallVec<[usize; 12]> = SmallVec::new();
        for g in candidates {
            if own.is_empty() || tried.contains(&g) {
                continue;
            }
            tried.push(g);
            let Some(after) = self.order_after(g, &sources) else { continue };
            let Some(rows) = self.joined(g, p) else { continue };
            if after == After::Sinks {
                self.sink(g);
            }
            return self.join(g, p, rows);
        }
        self.begin(p, own);
    }

    /// The cuts a piece allows; none where it writes only a part of a buffer.
    fn own_rows(&self, piece: &Piece) -> Extents {
        let whole = piece.writes().iter().all(|b| self.n_writes.get(b) == Some(&1));
        if whole { cuts(piece) } else { Extents::new() }
    }

    fn begin(&mut self, p: usize, rows: Extents) {
        let slot = self.groups.len();
        self.groups.push(Some(Group { pieces: SmallVec::new(), rows: rows.clone() }));
        self.position.push(self.order.len());
        self.order.push(slot);
        self.join(slot, p, rows);
    }

    fn join(&mut self, slot: usize, p: usize, rows: Extents) {
        if let Some(group) = &mut self.groups[slot] {
            group.pieces.push(p);
            group.rows = rows;
        }
        for b in self.pieces[p].writes() {
            let writers = self.writers.entry(b).or_default();
            if !writers.contains(&slot) {
                writers.push(slot);
            }
        }
        for b in self.pieces[p].reads() {
            let readers = self.readers.entry(b).or_default();
            readers.retain(|r| *r != slot);
            readers.insert(0, slot);
            readers.truncate(NEIGHBORS);
        }
    }

    /// Where a group must stand to take a piece that reads from `sources`; `None` where it cannot.
    fn order_after(&self, g: usize, sources: &[usize]) -> Option<After> {
        if sources.iter().all(|s| self.position[*s] <= self.position[g]) {
            return Some(After::Stays);
        }
        let written: SmallVec<[BufferId; 8]> = self.groups[g]
            .iter()
            .flat_map(|g| &g.pieces)
            .flat_map(|&p| self.pieces[p].writes())
            .collect();
        let later = &self.order[self.position[g] + 1..];
        let needed = later
            .iter()
            .filter_map(|&s| self.groups[s].as_ref())
            .flat_map(|g| &g.pieces)
            .any(|&p| self.pieces[p].reads().iter().any(|b| written.contains(b)));
        (!needed).then_some(After::Sinks)
    }

    fn sink(&mut self, g: usize) {
        let at = self.position[g];
        self.order.remove(at);
        self.order.push(g);
        for (i, &slot) in self.order.iter().enumerate().skip(at) {
            self.position[slot] = i;
        }
    }

    /// The cuts a group has with one more piece; `None` where they do not go together.
    fn joined(&self, g: usize, p: usize) -> Option<Extents> {
        let group = self.groups[g].as_ref().filter(|g| g.pieces.len() < self.most)?;
        if group.rows.is_empty() {
            return None;
        }
        let members: SmallVec<[&Piece; 8]> =
            group.pieces.iter().chain([&p]).map(|&i| &self.pieces[i]).collect();
        let mut all = group.rows.clone();
        all.extend(rows::boundaries(&rows::extents(&self.pieces[p])?));
        let shared = shared(&members, all);
        let most = *shared.last()?;
        let before = group.rows.last().copied().unwrap_or(1);
        let work = members.iter().map(|m| iterations(m)).max().unwrap_or(0);
        // A single row is one thread's.
        let alone = most == 1 && cuts(&self.pieces[p]).last().is_some_and(|&own| own > 1);
        let enough = most >= MIN_ROWS.min(before) && !alone || work <= SMALL;
        (enough && keeps_products(&members, most)).then_some(shared)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Stays,
    Sinks,
}

/// The cuts every piece can take.
fn usable(members: &[&Piece], cuts: &[usize]) -> Extents {
    cuts.iter().copied().filter(|&r| rows::common(members, r).is_some()).collect()
}

/// Whether products stay what they are: a row of a product is one row of its left side, and each
/// tile brings its right side into the form multiplication wants, so tiles of few rows would do
/// little else. If a tile has as many rows as the product has columns, and enough to multiply, that
/// costs less than a left side that goes through memory: the windows of a convolution.
fn keeps_products(members: &[&Piece], rows: usize) -> bool {
    let walked = |of: &[&Piece], rows| rows::common(of, rows).and_then(|d| d.last().copied());
    let together = walked(members, rows).unwrap_or(0);
    members.iter().all(|m| {
        let Piece::MatMul(product) = m else { return true };
        let own = product.n_rows();
        let work = together.saturating_mul(product.n).saturating_mul(product.k);
        let enough = if work >= PRODUCT_CALL { PRODUCT_ROWS.min(product.n) } else { PRODUCT_ROWS };
        rows >= own && together >= walked(&[m], own).unwrap_or(0).min(enough)
    })
}

pub(crate) fn iterations(piece: &Piece) -> usize {
    match piece {
        Piece::Kernel(k) => k.spec.loops.iter().map(|l| l.extent).product(),
        Piece::MatMul(m) => m.n_rows() * m.n.max(m.k),
        Piece::Fold(f) => f.len * f.n_chunks,
        Piece::Routine(r) => r.out_ty.shape.numel(),
        Piece::Attention(a) => a.batch * a.heads * a.length * a.positions,
    }
}

/// Whether what `reader` takes from other members lies, at this cut, in the row it is working on.
fn reads_rows(members: &[&Piece], reader: &Piece, rows: usize) -> bool {
    members.iter().all(|writer| {
        writer.writes().iter().all(|&b| {
            let Some(row) = stored_row(writer, b, rows) else {
                return !reader.reads().contains(&b);
            };
            match reader {
                Piece::Kernel(k) => {
                    let mut loads = k.spec.loads().filter(|(arg, _)| k.buffer(*arg) == b);
                    loads.all(|(_, access)| reads_row(k, access, rows, row))
                }
                Piece::MatMul(m) => {
                    m.rhs.buffer != b
                        && (m.lhs.buffer != b
                            || within(&m.row_loops(), &[m.k], &m.lhs.access, rows, row))
                }
                Piece::Fold(_) | Piece::Routine(_) | Piece::Attention(_) => {
                    !reader.reads().contains(&b)
                }
            }
        })
    })
}

/// Elements of a row of a stored buffer; `None` where its rows do not lie one after the other.
fn stored_row(writer: &Piece, buffer: BufferId, rows: usize) -> Option<usize> {
    match writer {
        Piece::Kernel(k) => {
            let store = k.spec.stores.iter().find(|s| k.buffer(s.buffer) == buffer)?;
            let mut step = 1;
            for (l, stride) in k.spec.loops.iter().zip(&store.access.strides).rev() {
                if l.reduce && store.fold.is_some() || l.extent == 1 {
                    continue;
                }
                if *stride != step {
                    return None;
                }
                step *= l.extent as i64;
            }
            (store.access.offset == 0 && (step as usize).is_multiple_of(rows))
                .then(|| step as usize / rows)
        }
        Piece::MatMul(m) => {
            let n_rows = m.n_rows();
            n_rows.is_multiple_of(rows).then(|| n_rows / rows * m.n)
        }
        Piece::Fold(_) | Piece::Routine(_) | Piece::Attention(_) => None,
    }
}

/// Whether an access stays, while the kernel is in a row, in the row of `row` elements with the
/// same number.
fn reads_row(k: &KernelPiece, access: &Access, rows: usize, row: usize) -> bool {
    let extents: Extents = k.spec.loops.iter().map(|l| l.extent).collect();
    let n = k.n_parallel();
    within(&extents[..n], &extents[n..], access, rows, row)
}

fn within(parallel: &[usize], rest: &[usize], access: &Access, rows: usize, row: usize) -> bool {
    let Some(refined) = rows::refine(parallel, &[rows]) else { return false };
    let Some(n) = rows::prefix(&refined, rows) else { return false };
    let strides = rows::refine_strides(parallel, &access.strides[..parallel.len()], &refined);
    let mut step = row as i64;
    for i in (0..n).rev() {
        if strides[i] != step {
            return false;
        }
        step *= refined[i] as i64;
    }
    let local = refined[n..].iter().zip(&strides[n..]);
    let inner = rest.iter().zip(&access.strides[parallel.len()..]);
    let mut last = access.offset;
    for (&extent, &stride) in local.chain(inner) {
        if stride < 0 {
            return false;
        }
        last += stride * (extent as i64 - 1);
    }
    access.offset >= 0 && last < row as i64
}
