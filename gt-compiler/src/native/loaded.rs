//! A native program ready to run: its artifact, and its machine code in memory.

use super::{
    artifact::Artifact,
    dump::{dump, jobs},
    plan::Plan,
};
use crate::{
    error::EngineError,
    kernel::{Compiler, Kernel},
    meter::{Job, Meter},
    program::{Dump, Executable},
};

/// A native program: its plan, and its machine code in memory.
pub(super) struct Loaded {
    pub(super) artifact: Artifact,
    pub(super) kernels: Vec<Kernel>,
    pub(super) meter: Meter,
}

impl Loaded {
    pub(super) fn plan(&self) -> &Plan {
        &self.artifact.plan
    }
}

impl Executable for Loaded {
    fn n_steps(&self) -> usize {
        self.plan().waves.len()
    }

    fn n_kernels(&self) -> usize {
        self.plan().n_jobs()
    }

    fn temporary_bytes(&self) -> usize {
        self.plan().arena
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        self.artifact.to_bytes()
    }

    fn jobs(&self) -> Vec<Job> {
        jobs(self.plan())
    }

    fn metered(&self) -> Vec<u64> {
        self.meter.last()
    }

    fn dump(&self, what: Dump) -> Result<String, EngineError> {
        dump(self.plan(), what, &mut Compiler::new()?)
    }
}
