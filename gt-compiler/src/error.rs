//! The errors of engines and of compiled programs, with what mends them.
//!
//! Each variant says whose fault it is: the user's, the environment's or GT's. An error never
//! changes a value.

use std::fmt;

use gt_ir::OpError;

/// What mends an error. Prints as the line `hint: ..` that follows the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint(pub &'static str);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\nhint: {}", self.0)
    }
}

const FREE_MEMORY: Hint =
    Hint("free values earlier, use smaller batches or raise the memory limit");
const START_AGAIN: Hint = Hint("start the worker again");
const COMPILE: Hint = Hint("compile it again");
const COMPILE_HERE: Hint = Hint("compile it again on this machine");

/// Why an engine could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The instruction does not type-check: the user's fault.
    #[error(transparent)]
    Op(#[from] OpError),
    /// An index in the data points outside the axis: the user's fault.
    #[error("{op}: index {index} is out of range for axis {axis} of size {size}")]
    Index {
        /// The op, as the text form spells it.
        op: String,
        /// The first offending index.
        index: i64,
        /// The axis it indexes.
        axis: usize,
        /// The size of that axis.
        size: usize,
    },
    /// The memory limit of the engine, or of the machine, is reached: the environment's.
    #[error(
        "out of memory: {asked} bytes asked, {live} bytes live, limit {limit} bytes{FREE_MEMORY}"
    )]
    OutOfMemory {
        /// Bytes asked for.
        asked: usize,
        /// Bytes held by live values.
        live: usize,
        /// Bytes the engine may hold.
        limit: usize,
    },
    /// The call does not fit the program or the data: the caller's fault.
    #[error("{0}")]
    Call(String),
    /// The device failed, and what it holds is lost: the environment's.
    #[error("the device failed: {0}{START_AGAIN}")]
    Device(String),
    /// A library, a device or a text is not there: the environment's fault.
    #[error("{what}{hint}")]
    Missing {
        /// What is missing, and where it was looked for.
        what: String,
        /// How to get it.
        hint: Hint,
    },
    /// The code generator refused: GT's fault.
    #[error("internal error in the code generator: {0}")]
    Codegen(String),
    /// libtorch refused or failed: GT's fault, or the environment's.
    #[error("libtorch: {0}")]
    Torch(String),
}

impl EngineError {
    /// What mends it, where that is known.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            EngineError::OutOfMemory { .. } => Some(FREE_MEMORY),
            EngineError::Device(_) => Some(START_AGAIN),
            EngineError::Missing { hint, .. } => Some(*hint),
            EngineError::Op(_)
            | EngineError::Index { .. }
            | EngineError::Call(_)
            | EngineError::Codegen(_)
            | EngineError::Torch(_) => None,
        }
    }
}

/// Why bytes are no program for this place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// The bytes do not begin as those of an artifact do.
    #[error("this is no compiled program of GT, or one of another format")]
    Format,
    /// The checksum or the contents are wrong.
    #[error("the compiled program is damaged{COMPILE}")]
    Damaged,
    /// It was made by another build of GT.
    #[error("the compiled program was made by build {theirs} of GT, this is {ours}{COMPILE}")]
    Build {
        /// The build that made it.
        theirs: String,
        /// This build.
        ours: String,
    },
    /// It was made for another processor or number of threads.
    #[error("the compiled program is for {theirs}, this is {ours}{COMPILE_HERE}")]
    Processor {
        /// What it was made for.
        theirs: String,
        /// What runs here.
        ours: String,
    },
    /// Memory for its code could not be had.
    #[error("{0}")]
    Load(String),
}
