//! Single pieces of work on memory at given addresses, by the native engine's routines: what a
//! simulated device runs.
//!
//! The bits are those of the native engine. Buffers of a piece are numbered by argument. It places,
//! orders and keeps nothing.
#![expect(unsafe_code, reason = "works on memory given by address")]

use std::sync::Arc;

use crate::{
    buffer::Pool,
    error::EngineError,
    native::{Context, Memory, pieces},
    schedule::{BufferId, Fold, MatMul, Matrix, Multiplier, Routine},
    threads::Threads,
};

/// What pieces run on: this thread.
pub(crate) struct Single {
    threads: Threads,
    pool: Arc<Pool>,
}

impl Single {
    pub(crate) fn new() -> Single {
        Single { threads: Threads::new(1), pool: Pool::new(usize::MAX, false) }
    }

    fn context(&self) -> Context<'_> {
        Context { threads: &self.threads, pool: &self.pool, products: None }
    }

    /// Folds partial results: `addresses` of them and of the result.
    ///
    /// # Safety
    /// The memory is as large as the fold says, and nobody else touches it.
    pub(crate) unsafe fn fold(&self, fold: &Fold, addresses: &[*mut u8]) {
        let sizes =
            [fold.n_chunks * fold.len * fold.dtype.size(), fold.len * fold.out_dtype.size()];
        pieces::fold(&self.context(), fold, &Memory::at(addresses, &sizes));
    }

    /// Runs a routine: `addresses` of its inputs, then of its result.
    ///
    /// # Safety
    /// The memory is as large as the types say, and nobody else touches it.
    pub(crate) unsafe fn routine(
        &self,
        routine: &Routine,
        addresses: &[*mut u8],
        scalars: &[u64],
    ) -> Result<(), EngineError> {
        let types = routine.inputs.iter().map(|(_, ty)| ty).chain([&routine.out_ty]);
        let sizes: Vec<usize> = types.map(|ty| ty.bytes()).collect();
        pieces::routine(&self.context(), routine, &Memory::at(addresses, &sizes), scalars)
    }

    /// Computes a product: `addresses` of its operands' buffers and of the result, and bytes of
    /// each.
    ///
    /// # Safety
    /// The memory is that large, which is as large as the product's accesses say, and nobody else
    /// touches it.
    pub(crate) unsafe fn product(
        &self,
        work: &MatMul,
        addresses: [*mut u8; 3],
        sizes: [usize; 3],
    ) -> Result<(), EngineError> {
        let operand = |n: u32, m: &Matrix| Matrix { buffer: BufferId(n), access: m.access.clone() };
        let work = MatMul {
            lhs: operand(0, &work.lhs),
            rhs: operand(1, &work.rhs),
            out: BufferId(2),
            by: Multiplier::Whole,
            ..work.clone()
        };
        pieces::product(&self.context(), &work, &Memory::at(&addresses, &sizes))
    }
}
