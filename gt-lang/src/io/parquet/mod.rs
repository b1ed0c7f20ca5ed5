//! Columns of Parquet files as tensors, by the crate `parquet`. Feature `parquet`.
//!
//! Guarantees: the file is mapped, and of its columns those are read that are asked for. Numbers
//! and truth values become tensors of their dtypes, and lists of one length matrices. What has no
//! counterpart here is an error where it is asked for, and no hindrance to other columns. A file
//! that is damaged is an error that names it, also where the crate would panic.
//!
//! Does not: write files, or read nested lists, encrypted files, and files packed by other methods
//! than Snappy and gzip.

mod column;
mod levels;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::FileReader;
use ::parquet::file::serialized_reader::SerializedFileReader;
use bytes::Bytes;
use gt_ir::HostTensor;

use super::unpack::Unpacking;
use super::{InFile, Refusal, guarded, mmap};
use crate::error::{Error, Result};
use column::Column;
use levels::TooLarge;

/// An open file. Clones share it.
#[derive(Clone)]
pub struct Reader {
    path: PathBuf,
    /// The size of the file, which limits what its columns may unpack to.
    size: usize,
    file: Arc<SerializedFileReader<Bytes>>,
    columns: Arc<[Column]>,
}

/// Opens a file (feature `parquet`) and maps it as [`safetensors::map`](super::safetensors::map)
/// does.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let file = io::parquet::open("train.parquet")?;
/// let (x, y) = (file.get("features")?, file.get("label")?);
/// let set = TensorDataset::new(vec![x, y])?; // of all rows, in memory
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// The file cannot be read or is damaged.
#[track_caller]
pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
    let path = path.as_ref();
    from_bytes(&mmap::map(path)?, path)
}

/// The file of these bytes; errors name it as `path`.
///
/// # Errors
/// The file is damaged.
#[track_caller]
pub fn from_bytes(bytes: &Bytes, path: impl AsRef<Path>) -> Result<Reader> {
    let path = path.as_ref();
    let read = || {
        let file = SerializedFileReader::new(bytes.clone()).map_err(damaged)?;
        let schema = file.metadata().file_metadata().schema_descr();
        let columns = Column::all(schema).into();
        Ok((Arc::new(file), columns))
    };
    let (file, columns) = guarded(read).in_file(path)?;
    Ok(Reader { path: path.to_owned(), size: bytes.len(), file, columns })
}

impl Reader {
    /// The names of the columns, in their order. Those of fields of structures have dots.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        (0..self.row_groups()).map(|group| self.rows_of(group)).fold(0, usize::saturating_add)
    }

    /// How many groups of rows there are, which are read by themselves.
    pub fn row_groups(&self) -> usize {
        self.file.num_row_groups()
    }

    /// A column: `[rows]`, or `[rows, n]` of lists of `n` numbers. Integers of 8 and 16 bits are
    /// `i32`, except `u8`, which stays, and `u32` is `i64`. Dates and times are the integers that
    /// the file has of them. In columns of floats, a missing number is NaN.
    ///
    /// # Errors
    /// No column has this name, its elements have no counterpart here, a number is missing among
    /// integers or in a list, lists differ in length, or the column is damaged or larger unpacked
    /// than [`MAX_UNPACKED`](super::MAX_UNPACKED) allows.
    #[track_caller]
    pub fn get(&self, name: &str) -> Result<HostTensor> {
        self.read(0..self.row_groups(), name).in_file(&self.path)
    }

    /// A column of one group of rows, as [`Reader::get`] has it.
    ///
    /// # Errors
    /// As [`Reader::get`]; also when there is no such group.
    #[track_caller]
    pub fn row_group(&self, group: usize, name: &str) -> Result<HostTensor> {
        self.read(group..group.saturating_add(1), name).in_file(&self.path)
    }

    /// A column of texts, such as those that a tokenizer takes. A missing text is empty.
    ///
    /// # Errors
    /// No column has this name, it is not of texts or is damaged, or it is larger unpacked than
    /// [`MAX_UNPACKED`](super::MAX_UNPACKED) allows.
    #[track_caller]
    pub fn texts(&self, name: &str) -> Result<Vec<String>> {
        let read = || {
            let (column, groups) = (self.column(name)?, 0..self.row_groups());
            let texts = column.texts(&self.file, groups, &mut self.limit()?);
            texts.map_err(|refusal| refusal.of(name))
        };
        guarded(read).in_file(&self.path)
    }

    fn read(&self, groups: Range<usize>, name: &str) -> Result<HostTensor, Refusal> {
        if groups.end > self.row_groups() {
            let n = self.row_groups();
            return Err(
                format!("there is no group of rows {}, but {n} of them", groups.start).into()
            );
        }
        guarded(|| {
            let read = self.column(name)?.read(&self.file, groups, &mut self.limit()?);
            read.map_err(|refusal| refusal.of(name))
        })
    }

    fn column(&self, name: &str) -> Result<&Column, Refusal> {
        let found = self.columns.iter().find(|column| column.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.columns().take(20).collect();
            let hint = format!("the file has the columns {}", known.join(", "));
            Refusal::new(format!("there is no column `{name}`")).hint(hint)
        })
    }

    fn limit(&self) -> Result<Unpacking, Refusal> {
        Unpacking::of(self.size).map_err(|e: Error| Refusal::new(e.message()))
    }

    /// How many rows the file says that a group has.
    fn rows_of(&self, group: usize) -> usize {
        let rows = self.file.metadata().row_group(group).num_rows();
        usize::try_from(rows).unwrap_or(0)
    }
}

/// What the crate says of a file.
fn damaged(error: ParquetError) -> Refusal {
    let error = match error {
        ParquetError::External(cause) => match cause.downcast::<TooLarge>() {
            Ok(too_large) => return too_large.0,
            Err(cause) => ParquetError::External(cause),
        },
        error => error,
    };
    match error {
        ParquetError::NYI(what) => Refusal::new(format!("a part that is not read here: {what}"))
            .hint("write it again with Snappy, gzip or no compression, and without encryption"),
        error => Refusal::new(format!("not a Parquet file, or a damaged one: {error}")),
    }
}
