//! A compiled region, whichever engine made it.
//!
//! An engine runs programs of its own kind only: it asks for that kind and refuses others with an
//! error. Programs are immutable and shared.

use std::{any::Any, fmt, sync::Arc};

use crate::{error::EngineError, meter::Job};

/// What of a program to spell out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// What each kernel computes.
    Kernels,
    /// What runs together in which order, and where buffers lie.
    Plan,
    /// The kernels in the code generator's own language.
    Clif,
    /// The kernels in assembly.
    Asm,
}

/// What an engine's compiler makes.
pub(crate) trait Executable: Any + Send + Sync {
    /// Number of launches a run takes.
    fn n_steps(&self) -> usize;

    /// Number of kernels.
    fn n_kernels(&self) -> usize;

    /// Bytes of memory a run takes for what is neither given nor kept.
    fn temporary_bytes(&self) -> usize;

    /// As bytes, where programs of this kind can be written.
    fn to_bytes(&self) -> Option<Vec<u8>>;

    /// As text.
    fn dump(&self, what: Dump) -> Result<String, EngineError>;

    /// The jobs, in order. Empty for engines whose jobs are not metered.
    fn jobs(&self) -> Vec<Job> {
        Vec::new()
    }

    /// The nanoseconds of each job in the last metered run.
    fn metered(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// A compiled region, shared by clones. Its machine code is freed with the last of them.
#[derive(Clone)]
pub struct Program(Arc<dyn Executable>);

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({} kernels in {} launches)", self.n_kernels(), self.n_steps())
    }
}

impl Program {
    pub(crate) fn new(executable: impl Executable) -> Program {
        Program(Arc::new(executable))
    }

    /// The program as an engine's own kind.
    pub(crate) fn of<K: Executable>(&self) -> Result<&K, EngineError> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
            .ok_or_else(|| EngineError::Call("this program was compiled for another engine".into()))
    }

    /// The program as bytes, for [`Compile::load`](crate::Compile::load) here or in another process
    /// on this kind of machine; `None` for engines whose programs are not kept. They hold machine
    /// code: load only what comes from somebody trusted.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        self.0.to_bytes()
    }

    /// Number of launches a run takes: on the CPU each is a wave of jobs that share the threads.
    pub fn n_steps(&self) -> usize {
        self.0.n_steps()
    }

    /// Number of kernels: tiles, matrix products and routines.
    pub fn n_kernels(&self) -> usize {
        self.0.n_kernels()
    }

    /// The program as text.
    ///
    /// # Errors
    /// No code can be generated on this host, or the engine has no such text.
    pub fn dump(&self, what: Dump) -> Result<String, EngineError> {
        self.0.dump(what)
    }

    /// Bytes of memory a run takes for what is neither given nor kept.
    pub fn temporary_bytes(&self) -> usize {
        self.0.temporary_bytes()
    }

    /// The jobs, in order. Empty for engines whose jobs are not [metered](crate::meter).
    pub fn jobs(&self) -> Vec<Job> {
        self.0.jobs()
    }

    /// The nanoseconds of each job in the last metered run. Empty if there was none.
    pub fn metered(&self) -> Vec<u64> {
        self.0.metered()
    }

    /// A number that no other program has while this one lives.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}
