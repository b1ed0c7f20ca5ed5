//! Files: safetensors, npy and npz, csv, PyTorch's `.pth`, `llama.cpp`'s GGUF, images in
//! the formats of MNIST and CIFAR, and checkpoints of whole training runs. Behind features of these
//! names, `audio`: WAV, `images`: PNG and JPEG, `onnx`: functions as ONNX, `parquet`: Parquet.
//!
//! Guarantees: what is read is checked before it is believed: a file that is damaged, cut off or
//! made to harm gives an error that names the file and what is wrong, never a panic, and no more
//! memory is taken than the file's own sizes allow (packed files: than [`MAX_UNPACKED`] allows).
//! Reading executes nothing. Writing goes to a file beside the old one, which is replaced only when
//! the new one is whole and on disk.
//!
//! Does not: know models; states go in and out as [`StateDict`](crate::state::StateDict)s.

pub(crate) mod atomic;
pub mod checkpoint;
pub mod cifar;
pub mod csv;
pub mod gguf;
pub mod idx;
#[cfg(feature = "images")]
pub mod image;
mod mmap;
pub mod npy;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod pth;
pub mod safetensors;
mod unpack;
#[cfg(feature = "audio")]
pub mod wav;

use std::path::Path;

use bytes::Bytes;
use gt_ir::{DType, Dim, HostTensor, Shape, Type};

use crate::error::{Error, Result};
use crate::state::data_error;
pub use unpack::MAX_UNPACKED;

/// Names of files in errors.
pub(crate) trait InFile<T> {
    /// The same result, whose error says of which file it is.
    fn in_file(self, path: &Path) -> Result<T>;
}

impl<T, E: Into<Refusal>> InFile<T> for std::result::Result<T, E> {
    #[track_caller]
    fn in_file(self, path: &Path) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(file_error(path, error)),
        }
    }
}

/// What is wrong with the contents of a file, before it is said which file.
#[derive(Debug)]
pub(crate) struct Refusal {
    message: String,
    hint: Option<String>,
}

impl Refusal {
    pub(crate) fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Refusal {
        Refusal { hint: Some(hint.into()), ..self }
    }

    /// The same refusal, of the part of the file that has this name.
    fn of(self, name: &str) -> Refusal {
        Refusal { message: format!("{name}: {}", self.message), ..self }
    }

    #[track_caller]
    fn into_error(self) -> Error {
        let error = data_error(self.message);
        self.hint.into_iter().fold(error, Error::hint)
    }
}

impl<E: std::fmt::Display> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        Refusal::new(error.to_string())
    }
}

/// The error of a file.
#[track_caller]
fn file_error(path: &Path, why: impl Into<Refusal>) -> Error {
    why.into().of(&path.display().to_string()).into_error()
}

/// A file's bytes, read into memory.
#[track_caller]
fn read(path: &Path) -> Result<Bytes> {
    std::fs::read(path).map(Bytes::from).in_file(path)
}

/// Runs a reader of another crate on a file, which may panic where the file is damaged: that is an
/// error too. Standard error has the crate's message.
#[cfg(any(feature = "parquet", feature = "tokenizers"))]
pub(crate) fn guarded<T>(
    read: impl FnOnce() -> std::result::Result<T, Refusal>,
) -> std::result::Result<T, Refusal> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
    caught.unwrap_or_else(|_| {
        let stopped = Refusal::new("a damaged file, on which its reader stopped");
        Err(stopped.hint("fetch the file again, or write it again"))
    })
}

/// A tensor of these bytes.
pub(crate) fn tensor(
    dtype: DType,
    sizes: &[usize],
    bytes: Bytes,
) -> std::result::Result<HostTensor, Refusal> {
    let dims: Vec<Dim> = sizes.iter().map(|size| Dim::new(*size)).collect();
    let shape = Shape::from_dims(&dims).map_err(|e| e.message)?;
    Ok(HostTensor::new(Type { dtype, shape }, bytes).map_err(|e| e.message)?)
}

/// How many bytes a tensor of this dtype and these sizes has, if that fits the machine.
fn size_of(dtype: DType, sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(dtype.size(), |product, size| product.checked_mul(*size))
}
