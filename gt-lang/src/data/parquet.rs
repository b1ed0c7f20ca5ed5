//! The rows of Parquet files as a stream. Feature `parquet`.
//!
//! Guarantees: one group of rows is in memory at a time, of the columns that are asked for. A file
//! is opened when the stream comes to it.

use std::path::PathBuf;

use gt_ir::HostTensor;

use super::{IterableDataset, row, without_place};
use crate::error::Result;
use crate::io::parquet::{Reader, open};

type Examples = Box<dyn Iterator<Item = Result<Vec<HostTensor>>> + Send>;

/// The rows of Parquet files, one file after the other (feature `parquet`). An example has a tensor
/// of each column, as [`Reader::get`] has it, without its first axis. Files that fit into memory
/// may be a [`TensorDataset`](super::TensorDataset) instead, which a loader shuffles as a whole.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::{ParquetStream, ShuffleBuffer, StreamConfig, StreamLoader};
///
/// let files = (0..16).map(|i| format!("train-{i:05}-of-00016.parquet"));
/// let rows = ParquetStream::new(files, ["features", "label"]);
/// let config = StreamConfig { batch_size: 64, ..Default::default() };
/// let mut loader = StreamLoader::new(ShuffleBuffer::new(rows, 10_000, 0), config)?;
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ParquetStream {
    files: Vec<PathBuf>,
    columns: Vec<String>,
}

impl ParquetStream {
    /// The rows of these columns of these files.
    pub fn new<F, C>(files: F, columns: C) -> ParquetStream
    where
        F: IntoIterator<Item: Into<PathBuf>>,
        C: IntoIterator<Item: Into<String>>,
    {
        let files = files.into_iter().map(Into::into).collect();
        ParquetStream { files, columns: columns.into_iter().map(Into::into).collect() }
    }
}

impl IterableDataset for ParquetStream {
    fn iter(&self, _epoch: u64) -> Examples {
        let ParquetStream { files, columns } = self.clone();
        Box::new(files.into_iter().flat_map(move |path| match open(&path) {
            Ok(file) => of_file(file, columns.clone()),
            Err(error) => Box::new(std::iter::once(Err(without_place(&error)))),
        }))
    }
}

/// The rows of a file.
fn of_file(file: Reader, columns: Vec<String>) -> Examples {
    Box::new((0..file.row_groups()).flat_map(move |group| {
        let read = |name: &String| file.row_group(group, name).map_err(|e| without_place(&e));
        match columns.iter().map(read).collect::<Result<Vec<_>>>() {
            Ok(tensors) => of_tensors(tensors),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }))
}

/// The rows of tensors, which have equally many.
fn of_tensors(tensors: Vec<HostTensor>) -> Examples {
    let rows = tensors.first().and_then(|t| t.ty().shape.sizes().first().copied());
    let example = move |i| tensors.iter().map(|tensor| row(tensor, i)).collect();
    Box::new((0..rows.unwrap_or(0)).map(example))
}
