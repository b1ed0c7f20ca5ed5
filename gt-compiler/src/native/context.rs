//! The surroundings of a job of a plan: the threads, the pool and the library of its engine, and
//! the memory of its buffers.
//!
//! Buffers are reached by address, because the tasks of one job write disjoint parts of one buffer.
//! The plan states which task writes which part.
#![expect(unsafe_code, reason = "buffers of a plan by their addresses")]

use std::sync::Arc;

use gt_ir::DType;
use smallvec::SmallVec;

use crate::{
    buffer::Pool,
    error::EngineError,
    schedule::{BufferId, MatMul},
    threads::Threads,
};

/// Matrix products by a library, for an engine that has one.
pub(crate) trait Products: Send + Sync {
    /// The engine that has them; programs for one engine are not another's.
    fn name(&self) -> &'static str;

    /// The dtypes of products it may take. Programs that were made for others are not this engine's
    /// either.
    fn dtypes(&self) -> &[DType];

    /// Whether a product is worth a call: by what it is, so always the same answer.
    fn takes(&self, work: &MatMul) -> bool;

    /// Computes a product in the memory of its two operands' buffers and of its result.
    ///
    /// # Safety
    /// The memory is as large as the product's accesses say, and nobody else touches that of the
    /// result.
    unsafe fn run(&self, work: &MatMul, memory: [*mut u8; 3]) -> Result<(), EngineError>;
}

/// The parts of the engine that a run needs.
pub(crate) struct Context<'a> {
    pub(crate) threads: &'a Threads,
    pub(crate) pool: &'a Arc<Pool>,
    /// The library that computes the products marked for it.
    pub(crate) products: Option<&'a dyn Products>,
}

/// The places of the buffers of one run. They are reached by address, since the tasks of a job
/// write disjoint parts of one buffer.
pub(crate) struct Memory<'p> {
    pub(super) addresses: SmallVec<[*mut u8; 32]>,
    pub(super) sizes: &'p [usize],
    /// The address of the threads' scratch, and the bytes of it for a thread.
    pub(super) scratch: (*mut u8, usize),
}

// SAFETY: the addresses are of memory that outlives the run; tasks on several threads write
// disjoint parts, which each use states.
unsafe impl Sync for Memory<'_> {}

impl<'p> Memory<'p> {
    /// Buffers somebody else has placed, without scratch.
    #[cfg(feature = "torch")]
    pub(crate) fn at(addresses: &[*mut u8], sizes: &'p [usize]) -> Memory<'p> {
        let addresses = addresses.iter().copied().collect();
        Memory { addresses, sizes, scratch: (std::ptr::null_mut(), 0) }
    }

    pub(super) fn address(&self, id: BufferId) -> *mut u8 {
        self.addresses[id.index()]
    }

    /// Whether a result lies where this operand lay, and begins as the operand ended.
    pub(super) fn is_in_place(&self, operand: BufferId, out: BufferId) -> bool {
        self.address(operand) == self.address(out)
    }

    /// The contents of a buffer written before.
    pub(super) fn bytes(&self, id: BufferId) -> &[u8] {
        match self.sizes[id.index()] {
            0 => bytemuck::cast_slice::<u64, u8>(&[]),
            // SAFETY: the buffer has that many bytes, and nobody writes it while a job reads it.
            len => unsafe { std::slice::from_raw_parts(self.address(id), len) },
        }
    }

    /// A buffer to be written.
    ///
    /// # Safety
    /// The caller is the job that writes it, and holds no other reference into it.
    #[expect(clippy::mut_from_ref, reason = "the plan gives each buffer one writer at a time")]
    pub(super) unsafe fn bytes_mut(&self, id: BufferId) -> &mut [u8] {
        match self.sizes[id.index()] {
            0 => bytemuck::cast_slice_mut::<u64, u8>(&mut []),
            // SAFETY: the buffer has that many bytes, and the caller is the only one to touch it.
            len => unsafe { std::slice::from_raw_parts_mut(self.address(id), len) },
        }
    }

    pub(super) fn scratch_of(&self, thread: usize) -> *mut u8 {
        self.scratch.0.wrapping_add(thread * self.scratch.1)
    }
}

/// An address tasks on several threads write disjoint parts behind.
#[derive(Clone, Copy)]
pub(crate) struct Target(pub(super) *mut u8);

impl Target {
    pub(super) fn address(self) -> *mut u8 {
        self.0
    }
}

// SAFETY: tasks write disjoint ranges, which each use states.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}
