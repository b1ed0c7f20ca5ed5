//! Well-known sets of images, read from the files in which they are distributed: a folder holds
//! them as they come, packed or not.
//!
//! Does not: fetch them.

use std::path::{Path, PathBuf};

use super::TensorDataset;
#[cfg(feature = "images")]
pub use super::image_folder::ImageFolder;
use crate::error::Result;
use crate::io::{cifar, idx};
use crate::state::data_error;

/// Which part of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// For training.
    Train,
    /// For the test.
    Test,
}

/// MNIST, and the sets in its format (Fashion-MNIST, KMNIST): images `u8[28, 28]` and labels `i64`
/// from `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-..`, each also with `.gz`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::vision::{Part, mnist};
/// let config = LoaderConfig { batch_size: 64, shuffle: Shuffle::Seed(0), ..Default::default() };
/// let mut loader = DataLoader::new(mnist("data/mnist", Part::Train)?, config)?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// A file is not there or damaged, or images and labels are not equally many.
#[track_caller]
pub fn mnist(folder: impl AsRef<Path>, part: Part) -> Result<TensorDataset> {
    let start = match part {
        Part::Train => "train",
        Part::Test => "t10k",
    };
    let file = |name: &str| packed_or_not(folder.as_ref(), &format!("{start}-{name}"));
    let images = idx::load(file("images-idx3-ubyte")?)?;
    let labels = idx::load_labels(file("labels-idx1-ubyte")?)?;
    TensorDataset::new(vec![images, labels])
}

/// CIFAR-10: images `u8[3, 32, 32]` and labels `i64` from `data_batch_1.bin` to `data_batch_5.bin`,
/// or `test_batch.bin`.
///
/// # Errors
/// A file is not there or damaged.
#[track_caller]
pub fn cifar10(folder: impl AsRef<Path>, part: Part) -> Result<TensorDataset> {
    let files = match part {
        Part::Train => (1..=5).map(|i| format!("data_batch_{i}.bin")).collect(),
        Part::Test => vec!["test_batch.bin".to_owned()],
    };
    let paths: Vec<PathBuf> = files.iter().map(|file| folder.as_ref().join(file)).collect();
    let rows = cifar::load(&paths, cifar::Labels::Ten)?;
    TensorDataset::new(vec![rows.images, rows.labels])
}

/// CIFAR-100: images `u8[3, 32, 32]` and fine labels `i64` from `train.bin` or `test.bin`.
/// [`cifar::load`] has the coarse labels too.
///
/// # Errors
/// A file is not there or damaged.
#[track_caller]
pub fn cifar100(folder: impl AsRef<Path>, part: Part) -> Result<TensorDataset> {
    let file = match part {
        Part::Train => "train.bin",
        Part::Test => "test.bin",
    };
    let rows = cifar::load(&[folder.as_ref().join(file)], cifar::Labels::Hundred)?;
    TensorDataset::new(vec![rows.images, rows.labels])
}

/// The file of this name, or the same with `.gz`.
#[track_caller]
fn packed_or_not(folder: &Path, name: &str) -> Result<PathBuf> {
    let names = [name.to_owned(), format!("{name}.gz")];
    let found = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    match found {
        Some(path) => Ok(path),
        None => {
            let what = format!("no file {} or {} in {}", names[0], names[1], folder.display());
            Err(data_error(what).hint("fetch the set's files into this folder"))
        }
    }
}
