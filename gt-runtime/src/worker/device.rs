//! The engine of a worker and the reads under way from it, which hold some of its memory.
//!
//! Before anything fails for want of memory, the reads are waited for, the engine gives up what it
//! only keeps for reuse, and the work is tried once more.

use gt_compiler::engine::{Engine, EngineError};

use super::reads::Reads;

/// An engine and the reads from it, which end first.
pub(super) struct Device {
    pub(super) reads: Reads,
    pub(super) engine: Box<dyn Engine>,
}

impl Device {
    /// Does something with the engine, and once more if memory was short and some could be given
    /// up.
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
