//! Program files (`.gtp`): a compiled program with what its user calls the inputs and outputs.
//!
//! A file holds the names and types of the inputs, the names of the outputs, the literals, and the
//! program as its engine writes it. A checksum over everything finds damage; whether the program
//! fits this build and this processor is checked by [`Compile::load`](crate::Compile::load). A file
//! holds machine code: it is as trusted as a program that somebody gives you.

use gt_ir::{Scalar, Type};
use serde::{Deserialize, Serialize};

use crate::{ArtifactError, checksum};

/// The first bytes of a file, whatever its format.
const MAGIC: &[u8] = b"gt program ";
/// The number of the format that is written and read. Of the first one only the program had a
/// checksum.
const VERSION: &[u8] = b"2\n";

/// The contents of a program file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramFile {
    /// Name and type of each input, in order.
    pub inputs: Vec<(String, Type)>,
    /// The name of each output, and which result of the program it is.
    pub outputs: Vec<(String, usize)>,
    /// The literals the program is run with.
    pub scalars: Vec<Scalar>,
    /// The program, for [`Compile::load`](crate::Compile::load).
    pub program: Vec<u8>,
}

impl ProgramFile {
    /// Whether bytes begin as a program file does.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// The bytes of the file; `None` where it cannot be written, which no program has been.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let contents = postcard::to_stdvec(self).ok()?;
        Some([MAGIC, VERSION, &checksum(&contents).to_le_bytes(), &contents].concat())
    }

    /// The contents of a file's bytes.
    ///
    /// # Errors
    /// [`ArtifactError::Format`] where the file has another format, [`ArtifactError::Damaged`]
    /// where its bytes are not the ones that were written.
    pub fn from_bytes(bytes: &[u8]) -> Result<ProgramFile, ArtifactError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(ArtifactError::Damaged)?;
        let (version, rest) = rest.split_at_checked(VERSION.len()).ok_or(ArtifactError::Damaged)?;
        if version != VERSION {
            return Err(ArtifactError::Format);
        }
        let (sum, contents) = rest.split_first_chunk::<8>().ok_or(ArtifactError::Damaged)?;
        if u64::from_le_bytes(*sum) != checksum(contents) {
            return Err(ArtifactError::Damaged);
        }
        postcard::from_bytes(contents).map_err(|_| ArtifactError::Damaged)
    }
}
