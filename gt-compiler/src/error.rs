//! The errors of engines and of compiled programs, with what mends them.
//!
//! Each variant says whose fault it is: the user's, the environment's or GT's. An error never
//! changes a value.

use std::fmt;

use gt_ir::OpError;
use gt_ir::error::Hinted;

/// Why an engine could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The instruction does not type-check: the user's fault.
    Op(#[from] OpError),
    /// An index in the data points outside the axis: the user's fault.
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
    OutOfMemory {
        /// Bytes asked for.
        asked: usize,
        /// Bytes held by live values.
        live: usize,
        /// Bytes the engine may hold.
        limit: usize,
    },
    /// The call does not fit the program or the data: the caller's fault.
    Call(String),
    /// The device failed, and what it holds is lost: the environment's.
    Device(String),
    /// A library, a device or a text is not there: the environment's fault.
    Missing {
        /// What is missing, and where it was looked for.
        what: String,
        /// How to get it.
        hint: &'static str,
    },
    /// The code generator refused: GT's fault.
    Codegen(String),
    /// libtorch refused or failed: GT's fault, or the environment's.
    Torch(String),
}

impl Hinted for EngineError {
    fn message(&self) -> String {
        match self {
            EngineError::Op(error) => error.message.clone(),
            EngineError::Index { op, index, axis, size } => {
                format!("{op}: index {index} is out of range for axis {axis} of size {size}")
            }
            EngineError::OutOfMemory { asked, live, limit } => format!(
                "out of memory: {asked} bytes asked, {live} bytes live, limit {limit} bytes"
            ),
            EngineError::Call(why) => why.clone(),
            EngineError::Device(why) => format!("the device failed: {why}"),
            EngineError::Missing { what, .. } => what.clone(),
            EngineError::Codegen(why) => format!("internal error in the code generator: {why}"),
            EngineError::Torch(why) => format!("libtorch: {why}"),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            EngineError::Op(error) => error.hint.clone(),
            EngineError::OutOfMemory { .. } => {
                Some("free values earlier, use smaller batches or raise the memory limit".into())
            }
            EngineError::Device(_) => Some("start the worker again".into()),
            EngineError::Missing { hint, .. } => Some((*hint).into()),
            EngineError::Index { .. }
            | EngineError::Call(_)
            | EngineError::Codegen(_)
            | EngineError::Torch(_) => None,
        }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// Why bytes are no program for this place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// The bytes do not begin as those of an artifact do.
    Format,
    /// The checksum or the contents are wrong.
    Damaged,
    /// It was made by another build of GT.
    Build {
        /// The build that made it.
        theirs: String,
        /// This build.
        ours: String,
    },
    /// It was made for another processor or number of threads.
    Processor {
        /// What it was made for.
        theirs: String,
        /// What runs here.
        ours: String,
    },
    /// Memory for its code could not be had.
    Load(String),
}

impl Hinted for ArtifactError {
    fn message(&self) -> String {
        match self {
            ArtifactError::Format => {
                "this is no compiled program of GT, or one of another format".into()
            }
            ArtifactError::Damaged => "the compiled program is damaged".into(),
            ArtifactError::Build { theirs, ours } => {
                format!("the compiled program was made by build {theirs} of GT, this is {ours}")
            }
            ArtifactError::Processor { theirs, ours } => {
                format!("the compiled program is for {theirs}, this is {ours}")
            }
            ArtifactError::Load(why) => why.clone(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ArtifactError::Damaged | ArtifactError::Build { .. } => Some("compile it again".into()),
            ArtifactError::Processor { .. } => Some("compile it again on this machine".into()),
            ArtifactError::Format | ArtifactError::Load(_) => None,
        }
    }
}

impl fmt::Display for ArtifactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}
