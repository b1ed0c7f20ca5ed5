//! What can go wrong in an engine and with a compiled program.
//!
//! Each variant says whose fault it is: the user's, the environment's or GT's. An error never
//! changes a value.

use gt_ir::OpError;

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
        "out of memory: {asked} bytes asked, {live} bytes live, limit {limit} bytes\nhint: free \
         values earlier, use smaller batches or raise the memory limit"
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
    #[error("the device failed: {0}\nhint: start the worker again")]
    Device(String),
    /// The code generator refused: GT's fault.
    #[error("internal error in the code generator: {0}")]
    Codegen(String),
    /// libtorch refused or failed: GT's fault, or the environment's.
    #[error("libtorch: {0}")]
    Torch(String),
}

/// Why bytes are no program for this place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// The bytes do not begin as those of an artifact do.
    #[error("this is no compiled program of GT, or one of another format")]
    Format,
    /// The checksum or the contents are wrong.
    #[error("the compiled program is damaged\nhint: compile it again")]
    Damaged,
    /// It was made by another build of GT.
    #[error(
        "the compiled program was made by build {theirs} of GT, this is {ours}\nhint: compile it \
         again"
    )]
    Build {
        /// The build that made it.
        theirs: String,
        /// This build.
        ours: String,
    },
    /// It was made for another processor or number of threads.
    #[error(
        "the compiled program is for {theirs}, this is {ours}\nhint: compile it again on this \
         machine"
    )]
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
