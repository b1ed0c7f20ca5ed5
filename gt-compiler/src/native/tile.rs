//! From a group of pieces to a tile: loops cut into rows, kernels merged, what nobody else needs
//! kept in scratch memory.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::Type;
use smallvec::SmallVec;

use super::{
    plan::{Arg, At, CopyOut, Product, Stage, Tile, Work},
    stream,
};
use crate::{
    kernel::{Access, Nest, Store},
    schedule::{
        BufferId, Draft, Matrix, Piece, drafts, iterations,
        rows::{self, Extents, Strides},
    },
};

/// Bytes of scratch a tile works on where it can: a part of the first-level cache.
const SCRATCH: usize = 24 << 10;
/// The same for tiles with products, which want many rows.
const PRODUCT_SCRATCH: usize = 2 << 20;
/// Rows of a tile with products at least.
const PRODUCT_FLOOR: usize = 256;
/// Elements of four bytes that share a line of the cache.
const LINE: usize = 16;
/// Columns that are added up together at least, where threads share them.
const COLUMNS: usize = 128;
/// Bytes of scratch of a tile that holds there only what goes past the caches: few, so that reading
/// for one tile overlaps with the stores of the one before.
const STREAM_SCRATCH: usize = 8 << 10;
/// Bytes that several stages of a tile read: a part of the second-level cache, so that only the
/// first stage waits for memory.
const SHARED: usize = 256 << 10;
/// Bytes of scratch one row may take before finer rows are preferred.
const ROW_SCRATCH: usize = 32 << 10;
/// Rows wanted, where a coarser cut has fewer.
const ROWS: usize = 64;
/// Elements of work worth a task of their own.
pub(super) const GRAIN: usize = 16 << 10;
/// Multiply-adds that cost about what an element of a kernel does.
const PRODUCT_WEIGHT: usize = 16;
/// Elements of a kernel that cost about what an element of a routine does.
const ROUTINE_WEIGHT: usize = 4;
/// Tasks a thread gets at most.
const TASKS: usize = 8;

/// The setting that tiles are cut for, besides the pieces.
pub(super) struct Setting<'a> {
    pub(super) threads: usize,
    /// Bytes of each buffer.
    pub(super) sizes: &'a [usize],
    /// Buffers something outside the group reads.
    pub(super) needed: &'a BTreeSet<BufferId>,
    /// Whether the group writes a buffer row after row, and nothing else writes it.
    pub(super) is_whole: &'a dyn Fn(BufferId) -> bool,
}

/// Makes the tile of a group; `None` where its pieces cannot be cut after all.
pub(super) fn tile(pieces: &[&Piece], cuts: &[usize], setting: &Setting<'_>) -> Option<Tile> {
    let rows = choose(pieces, cuts, setting);
    let dims = rows::common(pieces, rows)?;
    let drafts = drafts(pieces, &dims, rows, setting.needed)?;
    let total: usize = pieces.iter().map(|p| weight(p)).sum();
    Some(finish(drafts, &dims, total, setting))
}

/// The work of a piece, in elements of a small kernel.
pub(super) fn weight(piece: &Piece) -> usize {
    match piece {
        Piece::Kernel(k) => iterations(piece) * (1 + k.spec.nodes.len() / 8),
        Piece::MatMul(m) => m.n_rows() * m.n * m.k / PRODUCT_WEIGHT,
        Piece::Routine(r) => {
            let elements = |ty: &Type| ty.shape.numel();
            let given: usize = r.inputs.iter().map(|(_, ty)| elements(ty)).sum();
            ROUTINE_WEIGHT * (given + elements(&r.out_ty))
        }
        Piece::Fold(_) | Piece::Attention(_) => iterations(piece),
    }
}

/// The coarsest cut with rows enough whose scratch stays small.
fn choose(pieces: &[&Piece], cuts: &[usize], setting: &Setting<'_>) -> usize {
    let inner: usize = pieces
        .iter()
        .flat_map(|p| p.writes())
        .filter(|b| !setting.needed.contains(b))
        .map(|b| setting.sizes[b.0 as usize])
        .sum();
    // A product is cut between its rows or not at all.
    let least = pieces.iter().map(|p| match p {
        Piece::MatMul(m) => m.n_rows(),
        Piece::Kernel(_) | Piece::Fold(_) | Piece::Routine(_) | Piece::Attention(_) => 1,
    });
    let least = least.max().unwrap_or(1);
    let good = |r: &&usize| **r >= ROWS.max(least) && inner / **r <= ROW_SCRATCH;
    cuts.iter().find(good).or(cuts.last()).copied().unwrap_or(1)
}

/// The places of the buffers of a tile; a buffer that only the tile needs lies in scratch.
struct Scratch {
    /// Offset and bytes of a row.
    places: BTreeMap<BufferId, (usize, usize)>,
    len: usize,
    copies: SmallVec<[CopyOut; 1]>,
}

fn finish(drafts: Vec<Draft>, dims: &[usize], total: usize, setting: &Setting<'_>) -> Tile {
    let rows: usize = dims.iter().product();
    let n_rows = dims.last().copied().unwrap_or(1);
    let outer: Extents = dims[..dims.len() - 1].iter().copied().collect();
    let n_outer: usize = outer.iter().product();
    let has_product = drafts.iter().any(|d| matches!(d, Draft::Product { .. }));
    let written: BTreeSet<BufferId> = drafts.iter().flat_map(|d| d.writes()).collect();
    let row_bytes = |b: BufferId| setting.sizes[b.0 as usize] / rows;
    let across = drafts.iter().any(transposes);
    // What streams passes through the second-level cache, or memory would be written twice.
    let least = if across { LINE } else { 1 };
    let is_large = |b: &BufferId| setting.sizes[b.index()] >= stream::LEAST && !has_product;
    let past: BTreeSet<BufferId> =
        written.iter().copied().filter(|b| is_large(b) && stores_lines(&drafts, *b)).collect();
    let fits = |b: BufferId| (setting.is_whole)(b) && least * row_bytes(b) <= SHARED;
    let copied = |b: BufferId| is_large(&b) && !past.contains(&b) && fits(b);
    let local = |b: &BufferId| !setting.needed.contains(b) || copied(*b);
    let per_row: usize = written.iter().filter(|b| local(b)).map(|b| row_bytes(*b)).sum();
    let only_streams = written.iter().filter(|b| local(b)).all(|b| setting.needed.contains(b));
    let limit = match (has_product, only_streams) {
        (true, _) => PRODUCT_SCRATCH,
        (false, true) => STREAM_SCRATCH,
        (false, false) => SCRATCH,
    };
    let floor = match (has_product, across) {
        (true, _) => PRODUCT_FLOOR,
        (false, true) => LINE,
        (false, false) => 1,
    };
    let whole = match (has_product, drafts.iter().any(folds_columns)) {
        // A row of a product is work enough for a thread to have a few of them.
        (true, _) => 1,
        (false, true) => COLUMNS,
        (false, false) => LINE,
    };
    let block = block(per_row, (n_rows, n_outer), (floor, limit), whole, total, setting);
    let shared: usize = shared(&drafts, &written).iter().map(|b| row_bytes(*b)).sum();
    let block = match SHARED.checked_div(shared) {
        Some(most) if !has_product => block.min(most.max(floor)),
        Some(_) | None => block,
    };
    // Each block begins with a line, of which an element may be a row.
    let unit = |b: &BufferId| stream::LINE >> (row_bytes(*b) | stream::LINE).trailing_zeros();
    let unit = past.iter().map(unit).max().unwrap_or(1);
    let block = block.next_multiple_of(unit).min(n_rows.max(1));
    let mut scratch = Scratch { places: BTreeMap::new(), len: 0, copies: SmallVec::new() };
    for &b in written.iter().filter(|b| local(b)) {
        scratch.places.insert(b, (scratch.len, row_bytes(b)));
        if setting.needed.contains(&b) {
            scratch.copies.push(CopyOut { from: scratch.len, to: b, row: row_bytes(b) });
        }
        scratch.len += (row_bytes(b) * block).next_multiple_of(64);
    }
    let n_tiles = n_outer * n_rows.div_ceil(block);
    let n_tasks = (total / GRAIN).clamp(1, n_tiles.min(TASKS * setting.threads));
    let stages = drafts.into_iter().map(|d| stage(d, &scratch, &past)).collect();
    Tile {
        outer,
        rows: n_rows,
        block,
        n_tasks,
        work: total,
        scratch: scratch.len,
        stages,
        copies: scratch.copies,
    }
}

/// Rows of a tile.
fn block(
    per_row: usize,
    (n_rows, n_outer): (usize, usize),
    (floor, limit): (usize, usize),
    whole: usize,
    total: usize,
    setting: &Setting<'_>,
) -> usize {
    let has_product = floor == PRODUCT_FLOOR;
    let for_tasks = if n_outer >= 2 * setting.threads || total < GRAIN {
        n_rows
    } else {
        let each = if has_product { 1 } else { TASKS };
        let tasks = (total / GRAIN).clamp(1, each * setting.threads);
        n_rows.div_ceil(tasks.div_ceil(n_outer)).next_multiple_of(whole)
    };
    let for_scratch = (limit.checked_div(per_row).unwrap_or(n_rows)).max(floor);
    for_tasks.min(for_scratch).clamp(1, n_rows.max(1))
}

/// Whether a buffer is written by one kernel in whole lines, and nothing in the tile reads it.
fn stores_lines(drafts: &[Draft], buffer: BufferId) -> bool {
    let mut writers = drafts.iter().filter(|draft| draft.writes().contains(&buffer));
    let (Some(writer), None) = (writers.next(), writers.next()) else { return false };
    let Draft::Kernel(k) = writer else { return false };
    if transposes(writer) || drafts.iter().any(|draft| draft.reads().contains(&buffer)) {
        return false;
    }
    let nest = Nest::new(k.spec.clone());
    let here = |store: &&Store| k.argument(store.buffer).buffer == buffer;
    nest.spec.stores.iter().filter(here).all(|store| nest.stores_lines(store))
}

/// Whether a kernel reads along its rows what lies across them: then neighboring rows share lines
/// of the cache.
fn transposes(draft: &Draft) -> bool {
    let Draft::Kernel(k) = draft else { return false };
    k.spec.loads().any(|(_, access)| match access.strides.as_slice() {
        [row, .., inner] => (1..LINE as i64).contains(row) && *inner >= LINE as i64,
        _ => false,
    })
}

/// Whether a kernel adds up columns of what lies row after row: a task then reads a piece of each
/// row, which should not be short.
fn folds_columns(draft: &Draft) -> bool {
    let Draft::Kernel(k) = draft else { return false };
    k.spec.loops.iter().any(|l| l.reduce) && transposes(draft)
}

/// Buffers from outside whose rows, one after the other, several stages read.
fn shared(drafts: &[Draft], written: &BTreeSet<BufferId>) -> BTreeSet<BufferId> {
    let (mut once, mut again) = (written.clone(), BTreeSet::new());
    for draft in drafts {
        let Draft::Kernel(k) = draft else { continue };
        let by_rows = |access: &Access| access.strides.first().is_some_and(|s| *s >= LINE as i64);
        let rows = k.spec.loads().filter(|(_, access)| by_rows(access));
        let here: BTreeSet<BufferId> = rows.map(|(b, _)| k.argument(b).buffer).collect();
        again.extend(once.intersection(&here).filter(|b| !written.contains(b)).copied());
        once.extend(here);
    }
    again
}

fn stage(draft: Draft, scratch: &Scratch, past: &BTreeSet<BufferId>) -> Stage {
    let arg = |buffer: BufferId, outer: &[i64], size: usize, offset: i64| {
        let size = size as i64;
        match scratch.places.get(&buffer) {
            Some(&(at, row)) => Arg {
                at: At::Scratch(at),
                outer: Strides::new(),
                row: row as i64,
                offset: offset * size,
            },
            None => Arg {
                at: At::Buffer(buffer),
                outer: outer.iter().map(|s| s * size).collect(),
                row: 0,
                offset: offset * size,
            },
        }
    };
    match draft {
        Draft::Kernel(mut k) => {
            let streams = |i: &u16| past.contains(&k.arguments[usize::from(*i)].buffer);
            k.spec.streams = (0..k.arguments.len() as u16).filter(streams).collect();
            let args =
                k.arguments.iter().map(|a| arg(a.buffer, &a.outer, a.dtype.size(), 0)).collect();
            Stage {
                work: Work::Kernel { nest: Box::new(Nest::new(k.spec)), code: 0 },
                args,
                scalars: k.scalars,
            }
        }
        Draft::Product { work, outer, row } => {
            let size = work.dtype.size();
            let operand = |m: &Matrix, outer: &[i64]| arg(m.buffer, outer, size, m.access.offset);
            let args = SmallVec::from_iter([
                operand(&work.lhs, &outer[0]),
                operand(&work.rhs, &outer[1]),
                arg(work.out, &outer[2], size, 0),
            ]);
            let n = work.batch.len();
            let product = Product {
                dtype: work.dtype,
                n: work.n,
                k: work.k,
                lhs: [row[0], work.lhs.access.strides[n + 1]],
                rhs: [work.rhs.access.strides[n], work.rhs.access.strides[n + 1]],
                out_row: row[1],
            };
            Stage { work: Work::Product(product), args, scalars: SmallVec::new() }
        }
    }
}
