//! Data for training: datasets and streams, the samplers that order them, and loaders that batch
//! and read ahead. [`transforms`] change images on the worker; [`vision`] reads well-known sets.
//! The features `images`, `parquet` and `tokenizers` add folders of pictures, tables and texts.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! use gt::data::{DataLoader, LoaderConfig, Shuffle, TensorDataset};
//! # fn f() -> gt::Result<()> {
//! let arrays = gt::io::npy::load_npz("digits.npz")?;
//! let rows = ["images", "labels"].into_iter().filter_map(|name| arrays.get(name).cloned());
//! let config =
//!     LoaderConfig { batch_size: 64, shuffle: Shuffle::Seed(0), ..LoaderConfig::default() };
//! let mut loader = DataLoader::new(TensorDataset::new(rows.collect())?, config)?;
//! for _ in 0..3 {
//!     for batch in loader.epoch() {
//!         let batch = batch?;
//!         println!("{} {}", batch[0].ty(), batch[1].ty());
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod batches;
mod collate;
#[cfg(feature = "images")]
mod image_folder;
mod loader;
mod order;
#[cfg(feature = "parquet")]
mod parquet;
mod prefetch;
mod sampler;
mod stream;
mod subset;
#[cfg(feature = "tokenizers")]
pub mod text;
pub mod transforms;
pub mod vision;

pub use batches::{Batches, Loader};
pub use collate::{Collate, Example, Pad, PadMarks, Stack};
pub use loader::{DataLoader, LoaderConfig};
pub use order::Order;
#[cfg(feature = "parquet")]
pub use parquet::ParquetStream;
pub use sampler::{
    BatchSampler, DistributedSampler, Last, RandomSampler, Replacement, Sampler, SequentialSampler,
    Shuffle, WeightedRandomSampler,
};
pub use stream::{IterableDataset, ShuffleBuffer, StreamConfig, StreamLoader};
pub use subset::{ConcatDataset, Parts, Subset, random_split};

use std::sync::Arc;

use gt_ir::{Element, HostTensor, Loc, OpError};

use crate::core::Sizes;
use crate::error::{Error, ErrorKind, Result};

/// Examples by number. PyTorch's map-style `Dataset`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::array;
///
/// /// Passages of a text.
/// struct Passages(Vec<u8>);
///
/// impl Dataset for Passages {
///     fn len(&self) -> usize {
///         self.0.len() - 8
///     }
///     fn get(&self, i: usize) -> Result<Vec<HostTensor>> {
///         Ok(vec![array(self.0[i..i + 8].to_vec(), [8])?])
///     }
/// }
/// ```
pub trait Dataset: Send + Sync + 'static {
    /// How many there are.
    fn len(&self) -> usize;

    /// One of them: its tensors, as many each time. They are stacked into batches, for which they
    /// need equal types and shapes, or put together by the loader's [`Collate`]. Threads of a
    /// loader call it at the same time.
    ///
    /// # Errors
    /// It cannot be read; the loader hands the error on.
    fn get(&self, index: usize) -> Result<Vec<HostTensor>>;

    /// Whether the dataset has no example.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn get(&self, index: usize) -> Result<Vec<HostTensor>> {
        (**self).get(index)
    }
}

impl Dataset for Box<dyn Dataset> {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn get(&self, index: usize) -> Result<Vec<HostTensor>> {
        (**self).get(index)
    }
}

/// Numbers on the host, in row-major order: what datasets and [states](crate::state::StateDict) are
/// made of. The vector is not copied.
///
/// # Errors
/// The sizes do not multiply to the number of elements.
#[track_caller]
pub fn array<T: Element>(data: Vec<T>, sizes: impl Into<Sizes>) -> Result<HostTensor> {
    let at = std::panic::Location::caller();
    let host = sizes.into().resolve("array").and_then(|shape| HostTensor::from_vec(data, shape));
    host.map_err(|error| {
        let message = format!("array: {}", error.message.trim_start_matches("array: "));
        Error::from_op(OpError { message, ..error }, at)
    })
}

/// Examples that are all in memory: rows of tensors of equal first size. PyTorch's `TensorDataset`.
pub struct TensorDataset {
    tensors: Vec<HostTensor>,
    rows: usize,
}

impl TensorDataset {
    /// A dataset of the rows of these tensors.
    ///
    /// # Errors
    /// A tensor has no rows, or not as many as the first.
    #[track_caller]
    pub fn new(tensors: Vec<HostTensor>) -> Result<TensorDataset> {
        let rows = |t: &HostTensor| t.ty().shape.sizes().first().copied();
        let first = tensors.first().and_then(rows);
        match first {
            Some(n) if tensors.iter().all(|t| rows(t) == first) => {
                Ok(TensorDataset { tensors, rows: n })
            }
            _ => {
                let types: Vec<String> = tensors.iter().map(|t| t.ty().to_string()).collect();
                let message = format!(
                    "dataset: its tensors need equally many rows, but are {}",
                    if types.is_empty() { "none at all".to_owned() } else { types.join(", ") }
                );
                let error = crate::state::data_error(message);
                Err(error.hint("rows are counted along the first axis"))
            }
        }
    }
}

impl Dataset for TensorDataset {
    fn len(&self) -> usize {
        self.rows
    }

    fn get(&self, index: usize) -> Result<Vec<HostTensor>> {
        self.tensors.iter().map(|tensor| row(tensor, index)).collect()
    }
}

/// One row of a tensor, sharing its memory.
fn row(tensor: &HostTensor, index: usize) -> Result<HostTensor> {
    let ty = tensor.ty();
    let dims: Vec<gt_ir::Dim> = ty.shape.dims().skip(1).collect();
    let told = |e: gt_ir::OpError| unplaced(format!("dataset: {}", e.message));
    let shape = gt_ir::Shape::from_dims(&dims).map_err(told)?;
    let ty = gt_ir::Type { dtype: ty.dtype, shape };
    let (from, to) = (index * ty.bytes(), (index + 1) * ty.bytes());
    if to > tensor.bytes().len() {
        let message = format!("dataset: there is no row {index} in {}", tensor.ty());
        return Err(unplaced(message));
    }
    HostTensor::new(ty, tensor.bytes().slice(from..to)).map_err(told)
}

/// An error of a batch, which may be made by a thread: it gets its place where the batch is handed
/// out.
fn unplaced(message: String) -> Error {
    Error::new(ErrorKind::Data, message, Loc::NONE)
}

/// The same error without a place in this crate, for [`unplaced`].
#[cfg(any(feature = "images", feature = "parquet"))]
fn without_place(error: &Error) -> Error {
    let plain = unplaced(error.message().to_owned());
    error.cure().into_iter().fold(plain, Error::hint)
}
