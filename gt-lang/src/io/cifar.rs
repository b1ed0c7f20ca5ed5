//! The binary files of CIFAR-10 and CIFAR-100: rows of labels and an image of 3 x 32 x 32 bytes.
//!
//! Guarantees: a file is whole rows, with labels that there are; anything else is an error that
//! names the file. Several files make one set.

use std::path::Path;

use bytes::Bytes;
use gt_ir::{DType, Element, HostTensor};

use super::{InFile, Refusal, tensor};
use crate::error::Result;

/// The bytes of an image.
const PIXELS: usize = 3 * 32 * 32;

/// Which labels the rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// One of 10 classes: CIFAR-10.
    Ten,
    /// One of 20 coarse classes, then one of 100 fine ones: CIFAR-100.
    Hundred,
}

impl Labels {
    /// The number of classes of each label of a row.
    fn classes(self) -> &'static [u8] {
        match self {
            Labels::Ten => &[10],
            Labels::Hundred => &[20, 100],
        }
    }
}

/// The rows of files.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// `u8[rows, 3, 32, 32]`: red, green and blue.
    pub images: HostTensor,
    /// `i64[rows]`: the classes; of CIFAR-100 the fine ones.
    pub labels: HostTensor,
    /// `i64[rows]`: the coarse classes of CIFAR-100.
    pub coarse: Option<HostTensor>,
}

/// Reads files, one after the other.
///
/// # Errors
/// A file cannot be read, is not of whole rows, or has a label that there is not.
#[track_caller]
pub fn load<P: AsRef<Path>>(paths: &[P], labels: Labels) -> Result<Rows> {
    let mut read = Read { labels, images: Vec::new(), columns: [const { Vec::new() }; 2] };
    for path in paths {
        let path = path.as_ref();
        read.file(&super::read(path)?).in_file(path)?;
    }
    let whole = paths.first().map_or(Path::new(""), AsRef::as_ref);
    read.rows().in_file(whole)
}

/// The rows of a file's bytes; errors name the file as `path`.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn from_bytes(bytes: &[u8], labels: Labels, path: impl AsRef<Path>) -> Result<Rows> {
    let mut read = Read { labels, images: Vec::new(), columns: [const { Vec::new() }; 2] };
    read.file(bytes).and_then(|()| read.rows()).in_file(path.as_ref())
}

/// What is read so far.
struct Read {
    labels: Labels,
    images: Vec<u8>,
    /// The labels, by their places in a row.
    columns: [Vec<i64>; 2],
}

impl Read {
    fn file(&mut self, bytes: &[u8]) -> std::result::Result<(), Refusal> {
        let classes = self.labels.classes();
        let row = classes.len() + PIXELS;
        if !bytes.len().is_multiple_of(row) {
            let what = format!("{} bytes are not rows of {row} bytes", bytes.len());
            return Err(Refusal::new(what).hint(
                "the binary version of the set has rows of 3073 bytes (CIFAR-10) or 3074 \
                 (CIFAR-100); the versions for Python and Matlab are other formats",
            ));
        }
        for (i, row) in bytes.chunks_exact(row).enumerate() {
            let (labels, pixels) = row.split_at(classes.len());
            for ((label, n), column) in labels.iter().zip(classes).zip(&mut self.columns) {
                if label >= n {
                    return Err(format!("row {i} is of class {label}, but there are {n}").into());
                }
                column.push(i64::from(*label));
            }
            self.images.extend_from_slice(pixels);
        }
        Ok(())
    }

    fn rows(self) -> std::result::Result<Rows, Refusal> {
        let [first, second] = self.columns;
        let n = first.len();
        let images = tensor(DType::U8, &[n, 3, 32, 32], Bytes::from(self.images))?;
        let column = |labels| tensor(DType::I64, &[n], i64::into_bytes(labels));
        let (labels, coarse) = match self.labels {
            Labels::Ten => (column(first)?, None),
            Labels::Hundred => (column(second)?, Some(column(first)?)),
        };
        Ok(Rows { images, labels, coarse })
    }
}
