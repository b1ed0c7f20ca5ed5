//! A compiled region: waves of jobs, where every buffer lies, and what it takes and gives.
//!
//! A plan is data: it can be written to disk and run by another process on the same kind of
//! processor. Jobs of a wave do not depend on each other and share the threads; waves run in order.

use gt_ir::{DType, Type};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{
    kernel::Nest,
    schedule::{BufferId, Fold, KernelPiece, Layout, MatMul, Routine, ScalarArg, Sources},
};

/// Waves of jobs, in order, and their memory.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) inputs: Vec<Type>,
    pub(super) n_scalars: usize,
    pub(super) outputs: SmallVec<[(BufferId, Type); 1]>,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<usize>,
    pub(super) layout: Layout,
    /// Bytes of the arena, the threads' scratch included.
    pub(super) arena: usize,
    /// Offset in the arena of the threads' scratch, and bytes of it a thread.
    pub(super) scratch: (usize, usize),
    pub(super) waves: Vec<Wave>,
    /// Work in elements, about.
    pub(super) work: usize,
    /// How many groups of pieces run again, because memory is short.
    pub(super) again: usize,
}

/// Jobs that do not depend on each other.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Wave {
    pub(super) jobs: SmallVec<[Job; 1]>,
    /// For each job, what of the user's it is.
    pub(super) sources: SmallVec<[Sources; 1]>,
    /// Of several tiles: the first task of each portion, among the tasks of all tiles, and the task
    /// behind its last one. A thread takes a portion at a time, so that small tasks need no thread
    /// each.
    pub(super) portions: SmallVec<[(usize, usize); 1]>,
}

/// A job of a wave. All jobs but tiles have a wave of their own.
#[derive(Serialize, Deserialize)]
pub(super) enum Job {
    Tile(Box<Tile>),
    Chunked(Box<Chunked>),
    MatMul(Box<MatMul>),
    Fold(Box<Fold>),
    Routine(Box<Routine>),
    Loop(Box<Loop>),
}

/// Stages that run one after the other over the same few rows, tile by tile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tile {
    /// Extents of the loops from tile to tile outside of the rows.
    pub(super) outer: SmallVec<[usize; 6]>,
    /// Rows for each combination of those.
    pub(super) rows: usize,
    /// Rows of one tile.
    pub(super) block: usize,
    pub(super) n_tasks: usize,
    /// Work in elements, about.
    pub(super) work: usize,
    /// Bytes of scratch a thread needs.
    pub(super) scratch: usize,
    pub(super) stages: Vec<Stage>,
    pub(super) copies: SmallVec<[CopyOut; 1]>,
}

/// One stage of a tile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stage {
    pub(super) work: Work,
    pub(super) args: SmallVec<[Arg; 6]>,
    pub(super) scalars: SmallVec<[ScalarArg; 2]>,
}

/// The work of a stage.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// A kernel over the rows; `code` is its number among the kernels of the program.
    Kernel { nest: Box<Nest>, code: usize },
    /// A product of the rows of its left side.
    Product(Product),
}

/// Strides in elements: from row to row and from column to column.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Product {
    pub(super) dtype: DType,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) lhs: [i64; 2],
    pub(super) rhs: [i64; 2],
    pub(super) out_row: i64,
}

/// A buffer as a stage reaches it, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Arg {
    pub(super) at: At,
    /// Strides along the outer loops.
    pub(super) outer: SmallVec<[i64; 6]>,
    /// The stride of a row in scratch, where the tile's first row comes first.
    pub(super) row: i64,
    /// From the beginning of the buffer; what a kernel adds by itself is not in it.
    pub(super) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum At {
    Buffer(BufferId),
    Scratch(usize),
}

/// Rows that go from scratch past the caches.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CopyOut {
    pub(super) from: usize,
    pub(super) to: BufferId,
    /// Bytes of a row.
    pub(super) row: usize,
}

/// A long reduction, cut into chunks with a row of partial results each.
#[derive(Serialize, Deserialize)]
pub(super) struct Chunked {
    pub(super) nest: Nest,
    pub(super) code: usize,
    pub(super) buffers: SmallVec<[BufferId; 4]>,
    pub(super) scalars: SmallVec<[ScalarArg; 2]>,
    /// The buffer argument that takes the partial results, and bytes of a row of them.
    pub(super) out: usize,
    pub(super) row: usize,
    /// Iterations of the split reduce loop in a chunk, and in all.
    pub(super) chunk: usize,
    pub(super) extent: usize,
}

/// A loop whose rounds run a part at a time.
#[derive(Serialize, Deserialize)]
pub(super) struct Loop {
    pub(super) routine: Routine,
    pub(super) n_rounds: usize,
    /// Whether the last slices come first.
    pub(super) reverse: bool,
    pub(super) parts: SmallVec<[Part; 2]>,
    /// For each operand the bytes of a slice; 0 for those that are not scanned.
    pub(super) slices: SmallVec<[usize; 4]>,
    /// Where each output of a part goes.
    pub(super) outputs: SmallVec<[Output; 4]>,
}

/// Some rounds, and how often they run in a row.
#[derive(Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) plan: Plan,
    pub(super) n_rounds: usize,
    pub(super) times: usize,
}

/// Where an output of a part of a loop goes, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Output {
    /// It is carried: its size, and where it begins in a block of carried values; after the last
    /// round, where it goes in the result of the loop, if it is of its dtype.
    Carried { bytes: usize, at: usize, end: Option<usize> },
    /// It is stacked: where its slices begin in the result, and the size of one.
    Stacked { at: usize, slice: usize },
}

impl Chunked {
    /// A kernel as a job of its own, when it is done in pieces.
    pub(super) fn of(kernel: &KernelPiece) -> Option<Chunked> {
        let cut = kernel.cut?;
        let nest = Nest::new(kernel.spec.clone());
        let out = usize::from(kernel.spec.stores.first()?.buffer);
        let row = nest.spec.parallel_len() * kernel.spec.buffers[out].size();
        Some(Chunked {
            code: 0,
            buffers: kernel.buffers.clone(),
            scalars: kernel.scalars.clone(),
            out,
            row,
            chunk: cut.chunk,
            extent: nest.reduce_extent(),
            nest,
        })
    }

    pub(super) fn n_chunks(&self) -> usize {
        self.extent.div_ceil(self.chunk)
    }
}

impl Plan {
    /// Bytes that a run allocates, if nobody else holds what it is given to overwrite.
    pub(super) fn bytes(&self) -> usize {
        let fresh = self.layout.made.iter().filter(|made| made.donor.is_none());
        self.arena + fresh.map(|made| self.sizes[made.buffer.index()]).sum::<usize>()
    }

    /// Number of jobs in all waves.
    pub(super) fn n_jobs(&self) -> usize {
        self.waves.iter().map(|w| w.jobs.len()).sum()
    }

    /// Every kernel of the plan, those of its loops included.
    pub(super) fn nests(&self) -> impl Iterator<Item = (&Nest, usize)> {
        self.waves.iter().flat_map(|w| &w.jobs).flat_map(|job| match job {
            Job::Tile(t) => t
                .stages
                .iter()
                .filter_map(|s| match &s.work {
                    Work::Kernel { nest, code } => Some((&**nest, *code)),
                    Work::Product(_) => None,
                })
                .collect::<SmallVec<[_; 4]>>(),
            Job::Chunked(c) => SmallVec::from_iter([(&c.nest, c.code)]),
            Job::Loop(l) => {
                let parts: Box<dyn Iterator<Item = _>> =
                    Box::new(l.parts.iter().flat_map(|part| part.plan.nests()));
                parts.collect()
            }
            Job::MatMul(_) | Job::Fold(_) | Job::Routine(_) => SmallVec::new(),
        })
    }

    /// Every kernel of the plan, those of its loops included, to be given its code.
    pub(super) fn nests_mut(&mut self) -> impl Iterator<Item = (&Nest, &mut usize)> {
        self.waves.iter_mut().flat_map(|w| &mut w.jobs).flat_map(|job| {
            let mut found: SmallVec<[(&Nest, &mut usize); 4]> = SmallVec::new();
            match job {
                Job::Tile(t) => {
                    found.extend(t.stages.iter_mut().filter_map(|s| match &mut s.work {
                        Work::Kernel { nest, code } => Some((&**nest, code)),
                        Work::Product(_) => None,
                    }))
                }
                Job::Chunked(c) => found.push((&c.nest, &mut c.code)),
                Job::Loop(l) => {
                    let parts: Box<dyn Iterator<Item = _>> =
                        Box::new(l.parts.iter_mut().flat_map(|part| part.plan.nests_mut()));
                    found.extend(parts);
                }
                Job::MatMul(_) | Job::Fold(_) | Job::Routine(_) => (),
            }
            found
        })
    }
}
