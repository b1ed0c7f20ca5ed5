//! From a group of pieces to a tile: loops cut into rows, kernels merged, what nobody else needs
//! kept in scratch memory.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::DType;
use smallvec::SmallVec;

use super::{
    group::iterations,
    merge,
    rows::{self, Extents, Strides},
};
use crate::{
    kernel::{Access, KernelSpec, Loop, Nest},
    native::{
        piece::{KernelPiece, MatMul, Matrix, Piece},
        plan::{Arg, At, BufferId, CopyOut, Product, ScalarArg, Stage, Tile, Work},
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
/// The same where it only holds what goes past the caches: small, so that reading for one tile
/// overlaps with the stores of the one before.
const STREAM_SCRATCH: usize = 8 << 10;
/// Bytes of scratch one row may take before finer rows are preferred.
const ROW_SCRATCH: usize = 32 << 10;
/// Rows wanted, where a coarser cut has fewer.
const ROWS: usize = 64;
/// Elements of work worth a task of their own.
const GRAIN: usize = 16 << 10;
/// Multiply-adds that cost about what an element of a kernel does.
const PRODUCT_WEIGHT: usize = 16;
/// Tasks a thread gets at most.
const TASKS: usize = 8;

/// What the cutting depends on besides the pieces.
pub(in crate::native) struct Setting<'a> {
    pub(in crate::native) threads: usize,
    /// Bytes of each buffer.
    pub(in crate::native) sizes: &'a [usize],
    /// Buffers something outside the group reads.
    pub(in crate::native) needed: &'a BTreeSet<BufferId>,
    /// Buffers that go past the caches.
    pub(in crate::native) streams: &'a dyn Fn(BufferId) -> bool,
}

/// A buffer as a kernel of a tile reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) buffer: BufferId,
    pub(super) dtype: DType,
    /// Elements from tile to tile along the outer loops.
    pub(super) outer: Strides,
}

/// A kernel of a tile: its first loop walks the rows.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelStage {
    pub(super) spec: KernelSpec,
    pub(super) arguments: Vec<Argument>,
    pub(super) scalars: SmallVec<[ScalarArg; 2]>,
}

enum Draft {
    Kernel(KernelStage),
    Product { work: Box<MatMul>, outer: [Strides; 3], row: [i64; 2] },
}

impl KernelStage {
    pub(super) fn argument(&self, number: u16) -> &Argument {
        &self.arguments[usize::from(number)]
    }

    /// The number of an argument, new or known.
    pub(super) fn add_argument(&mut self, argument: Argument) -> u16 {
        let known = self.arguments.iter().position(|a| *a == argument);
        let number = known.unwrap_or_else(|| {
            self.spec.buffers.push(argument.dtype);
            self.arguments.push(argument);
            self.arguments.len() - 1
        });
        number as u16 // a kernel has fewer loads than nodes, which are bounded
    }

    /// The same kernel with its loops cut further.
    pub(super) fn refined(&self, to: &[usize]) -> KernelStage {
        let own: Extents = self.spec.loops.iter().map(|l| l.extent).collect();
        let mut stage = self.clone();
        for access in stage.spec.accesses_mut() {
            let strides = rows::refine_strides(&own, &access.strides, to);
            access.strides = strides.into_iter().collect();
        }
        let (at, mut l, mut begun) = (rows::boundaries(&own), 0, None);
        stage.spec.loops = rows::boundaries(to)[1..]
            .iter()
            .zip(to)
            .map(|(end, &extent)| {
                while at[l + 1] < *end {
                    l += 1;
                }
                // What a loop is cut into runs on from one to the next.
                let of = self.spec.loops[l];
                let joined = of.reduce && (of.joined || begun == Some(l));
                begun = Some(l);
                Loop { extent, joined, ..of }
            })
            .collect();
        stage
    }

    fn new(k: &KernelPiece, dims: &[usize], rows: usize) -> Option<KernelStage> {
        let n = k.n_parallel();
        let own: Extents = k.spec.loops[..n].iter().map(|l| l.extent).collect();
        let refined = rows::refine(&own, &rows::boundaries(dims))?;
        let n_rows = rows::prefix(&refined, rows)?;
        let folded: SmallVec<[usize; 4]> =
            (n..k.spec.loops.len()).filter(|&l| k.spec.loops[l].extent != 1).collect();
        let split = |access: &Access| -> (Strides, Access) {
            let strides = rows::refine_strides(&own, &access.strides[..n], &refined);
            let mut outer = rows::merged(&refined[..n_rows], &strides[..n_rows], dims);
            let row = outer.pop().unwrap_or(0);
            let row = if dims.last() == Some(&1) { 0 } else { row };
            let rest = folded.iter().map(|&l| access.strides[l]);
            let strides =
                std::iter::once(row).chain(strides[n_rows..].iter().copied()).chain(rest).collect();
            (outer, Access { offset: access.offset, strides })
        };
        let mut stage = KernelStage { scalars: k.scalars.clone(), ..KernelStage::default() };
        stage.spec.scalars = k.spec.scalars.clone();
        stage.spec.rows = true;
        stage.spec.fold_order = k.spec.fold_order;
        let parallel = std::iter::once(dims.last()?).chain(&refined[n_rows..]);
        stage.spec.loops = parallel.map(|&extent| Loop::parallel(extent)).collect();
        stage.spec.loops.extend(folded.iter().enumerate().map(|(i, &l)| {
            // Across a loop of one iteration left out, dims are neighbors if it was the neighbor of
            // both.
            let from = if i == 0 { n } else { folded[i - 1] + 1 };
            let joined = i > 0 && k.spec.loops[from..=l].iter().all(|l| l.joined);
            Loop { joined, ..k.spec.loops[l] }
        }));
        for node in &k.spec.nodes {
            let mut node = node.clone();
            let mut outer = Strides::new();
            if let Some(access) = node.expr.access_mut() {
                (outer, *access) = split(access);
            }
            if let Some(number) = node.expr.buffer_mut() {
                let (buffer, dtype) = (k.buffer(*number), node.dtype);
                *number = stage.add_argument(Argument { buffer, dtype, outer });
            }
            stage.spec.nodes.push(node);
        }
        let n_folds = folded.len();
        for store in &k.spec.stores {
            let (outer, access) = split(&store.access);
            let dtype = k.spec.buffers[usize::from(store.buffer)];
            let buffer =
                stage.add_argument(Argument { buffer: k.buffer(store.buffer), dtype, outer });
            let fold = store.fold.filter(|_| n_folds > 0);
            stage.spec.stores.push(crate::kernel::Store { buffer, access, fold, ..store.clone() });
        }
        Some(stage)
    }

    fn reads(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.spec.loads().map(|(b, _)| self.argument(b).buffer)
    }

    fn writes(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.spec.stores.iter().map(|s| self.argument(s.buffer).buffer)
    }
}

impl Draft {
    fn new(piece: &Piece, dims: &[usize], rows: usize) -> Option<Draft> {
        match piece {
            Piece::Kernel(k) => KernelStage::new(k, dims, rows).map(Draft::Kernel),
            Piece::MatMul(m) => product(m, dims, rows),
            Piece::Fold(_) | Piece::Routine(_) | Piece::Attention(_) => None,
        }
    }

    fn reads(&self) -> SmallVec<[BufferId; 6]> {
        match self {
            Draft::Kernel(k) => k.reads().collect(),
            Draft::Product { work, .. } => {
                SmallVec::from_slice(&[work.lhs.buffer, work.rhs.buffer])
            }
        }
    }

    fn writes(&self) -> SmallVec<[BufferId; 2]> {
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

/// Makes the tile of a group; `None` where its pieces cannot be cut after all.
pub(in crate::native) fn tile(
    pieces: &[&Piece],
    cuts: &[usize],
    setting: &Setting<'_>,
) -> Option<Tile> {
    let rows = choose(pieces, cuts, setting);
    let dims = rows::common(pieces, rows)?;
    let drafts = drafts(pieces, &dims, rows, setting.needed)?;
    let total: usize = pieces.iter().map(|p| weight(p)).sum();
    Some(finish(drafts, &dims, total, setting))
}

/// The stages of a tile.
fn drafts(
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
pub(super) fn kernels(
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

fn weight(piece: &Piece) -> usize {
    match piece {
        Piece::Kernel(k) => iterations(piece) * (1 + k.spec.nodes.len() / 8),
        Piece::MatMul(m) => m.n_rows() * m.n * m.k / PRODUCT_WEIGHT,
        Piece::Fold(_) | Piece::Routine(_) | Piece::Attention(_) => iterations(piece),
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

/// Where the buffers of a tile lie: what only the tile needs in scratch.
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
    let local = |b: &BufferId| !setting.needed.contains(b) || (setting.streams)(*b) && !has_product;
    let row_bytes = |b: BufferId| setting.sizes[b.0 as usize] / rows;
    let per_row: usize = written.iter().filter(|b| local(b)).map(|b| row_bytes(*b)).sum();
    let only_streams = written.iter().filter(|b| local(b)).all(|b| setting.needed.contains(b));
    let limit = match (has_product, only_streams) {
        (true, _) => PRODUCT_SCRATCH,
        (false, true) => STREAM_SCRATCH,
        (false, false) => SCRATCH,
    };
    let floor = match (has_product, drafts.iter().any(transposes)) {
        (true, _) => PRODUCT_FLOOR,
        (false, true) => LINE,
        (false, false) => 1,
    };
    let block = block(per_row, (n_rows, n_outer), (floor, limit), total, setting);
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
    let stages = drafts.into_iter().map(|d| stage(d, &scratch)).collect();
    Tile {
        outer,
        rows: n_rows,
        block,
        n_tasks,
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
    total: usize,
    setting: &Setting<'_>,
) -> usize {
    let has_product = floor == PRODUCT_FLOOR;
    let for_tasks = if n_outer >= 2 * setting.threads || total < GRAIN {
        n_rows
    } else {
        let each = if has_product { 1 } else { TASKS };
        let tasks = (total / GRAIN).clamp(1, each * setting.threads);
        n_rows.div_ceil(tasks.div_ceil(n_outer)).next_multiple_of(16)
    };
    let for_scratch = (limit.checked_div(per_row).unwrap_or(n_rows)).max(floor);
    for_tasks.min(for_scratch).clamp(1, n_rows.max(1))
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

fn stage(draft: Draft, scratch: &Scratch) -> Stage {
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
        Draft::Kernel(k) => {
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
