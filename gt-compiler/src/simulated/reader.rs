//! How values leave a simulated device: read when somebody waits for them, and no sooner than they
//! are let.
//!
//! What is read is what the memory holds at that moment, and it has to be alive still: so an engine
//! that lets memory go, or overwrites it, before its readers are done gives other bits than it
//! should, or an error.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::{State, fails, function, lock};
use crate::{device::Reader, error::EngineError};

/// Lets slices by: so many, or all.
#[derive(Default)]
pub(super) struct Gate {
    left: Mutex<Option<u64>>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn set(&self, left: Option<u64>) {
        *lock(&self.left) = left;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let left = self.changed.wait_while(lock(&self.left), |left| *left == Some(0));
        if let Some(n) = left.unwrap_or_else(PoisonError::into_inner).as_mut() {
            *n -= 1;
        }
    }
}

/// The way of values to the host.
pub(crate) struct SimulatedReader(Arc<State>);

impl SimulatedReader {
    pub(super) fn new(state: Arc<State>) -> SimulatedReader {
        SimulatedReader(state)
    }
}

impl Reader for SimulatedReader {
    type Mark = ();

    fn read(&self, (): &(), from: u64, to: &mut [u8]) -> Result<(), EngineError> {
        self.0.gate.pass();
        lock(&self.0.counters).reads += 1;
        if fails(&mut lock(&self.0.faults).read, 1) {
            return Err(EngineError::Device("a read failed as it was told to".into()));
        }
        function::read(&self.0.space, from, to)
    }
}
