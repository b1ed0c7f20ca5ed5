//! Kernels cut into rows: what a tile runs for a kernel, and which buffers it reaches from row to
//! row.
//!
//! Loop 0 of a stage walks the rows of one tile; the loops from tile to tile are left to whoever
//! runs it. Nothing here chooses how rows are cut.

use gt_ir::DType;
use smallvec::SmallVec;

use super::{
    piece::{BufferId, KernelPiece, ScalarArg},
    rows::{self, Extents, Strides},
};
use crate::kernel::{Access, KernelSpec, Loop, Store};

/// A buffer as a kernel of a tile reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) buffer: BufferId,
    pub(crate) dtype: DType,
    /// Elements from tile to tile along the outer loops.
    pub(crate) outer: Strides,
}

/// A kernel of a tile: its first loop walks the rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelStage {
    pub(crate) spec: KernelSpec,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) scalars: SmallVec<[ScalarArg; 2]>,
}

impl KernelStage {
    pub(crate) fn argument(&self, number: u16) -> &Argument {
        &self.arguments[usize::from(number)]
    }

    /// The number of an argument, new or known.
    pub(crate) fn add_argument(&mut self, argument: Argument) -> u16 {
        let known = self.arguments.iter().position(|a| *a == argument);
        let number = known.unwrap_or_else(|| {
            self.spec.buffers.push(argument.dtype);
            self.arguments.push(argument);
            self.arguments.len() - 1
        });
        number as u16 // a kernel has fewer loads than nodes, which are bounded
    }

    /// The same kernel with its loops cut further.
    pub(crate) fn refined(&self, to: &[usize]) -> KernelStage {
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

    pub(crate) fn new(k: &KernelPiece, dims: &[usize], rows: usize) -> Option<KernelStage> {
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
            stage.spec.stores.push(Store { buffer, access, fold, ..store.clone() });
        }
        Some(stage)
    }

    pub(crate) fn reads(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.spec.loads().map(|(b, _)| self.argument(b).buffer)
    }

    pub(crate) fn writes(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.spec.stores.iter().map(|s| self.argument(s.buffer).buffer)
    }
}
