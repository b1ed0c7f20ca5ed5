//! The engine of a worker, and its unfinished reads, which hold some of its memory.
//!
//! If memory is short, the worker waits for the reads, the engine frees the memory that it keeps
//! for reuse, and the operation is tried once more before it fails.

use gt_compiler::engine::{Engine, EngineError};

use super::reads::Reads;

/// An engine and its unfinished reads, which are dropped first.
pub(super) struct Device {
    pub(super) reads: Reads,
    pub(super) engine: Box<dyn Engine>,
}

impl Device {
    /// Runs `work` on the engine, and once more if memory was short and some could be freed.
    pub(super) fn retried<T>(
        &mut self,
        mut work: impl FnMut(&mut dyn Engine) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let done = work(self.engine.as_mut());
        if !matches!(done, Err(EngineError::OutOfMemory { .. })) {
            return done;
        }
        let settled = self.reads.settle();
        if self.engine.trim() == 0 && !settled {
            return done;
        }
        work(self.engine.as_mut())
    }
}
