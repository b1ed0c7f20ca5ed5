//! The engine of a worker, and its unfinished reads, which hold some of its memory.
//!
//! If memory is short, the worker waits for the reads, the engine frees the memory that it keeps
//! for reuse, and the operation is tried once more before it fails.

use gt_compiler::engine::{Engine, EngineError, Value};
use gt_ir::{HostTensor, Shape};

use super::reads::{Reads, Tell};

/// An engine and its unfinished reads, which are dropped first.
pub(super) struct Device {
    pub(super) reads: Reads,
    pub(super) engine: Box<dyn Engine>,
    /// The value without elements that stands for values which a launch does not look at.
    nothing: Option<Value>,
    /// The bytes that values may take.
    limit: usize,
}

impl Device {
    pub(super) fn new(engine: Box<dyn Engine>, tell: Tell) -> Device {
        let limit = engine.info().memory_limit;
        Device { reads: Reads::new(tell), engine, nothing: None, limit }
    }

    /// The bytes that values may take.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The bytes that values take.
    pub(super) fn used(&self) -> usize {
        self.engine.stats().live_bytes
    }

    /// The bytes that further values may take.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// A value that stands for values which a launch does not look at; `None` if the engine cannot
    /// make it.
    pub(super) fn nothing(&mut self) -> Option<Value> {
        if self.nothing.is_none() {
            let empty = HostTensor::from_vec(Vec::<bool>::new(), Shape::new(&[0]).ok()?).ok()?;
            self.nothing = self.engine.upload(&empty).ok();
        }
        self.nothing.clone()
    }

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
