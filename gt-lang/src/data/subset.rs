//! Datasets made of others: parts, random parts, and several in a row.

use std::sync::Arc;

use gt_ir::HostTensor;

use super::order::Order;
use super::{Dataset, unplaced};
use crate::error::Result;
use crate::state::data_error;

/// Some examples of a dataset, in an order of their own.
#[derive(Clone)]
pub struct Subset<D> {
    dataset: D,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The examples of these numbers. A dataset in an [`Arc`] is one, and can be part of several.
    ///
    /// # Errors
    /// There is no example of a number.
    #[track_caller]
    pub fn new(dataset: D, indices: Vec<usize>) -> Result<Subset<D>> {
        let n = dataset.len();
        if let Some(index) = indices.iter().find(|i| **i >= n) {
            let error = data_error(format!("subset: example {index} of {n}"));
            return Err(error.hint("examples are numbered from 0"));
        }
        Ok(Subset { dataset, indices })
    }

    /// The numbers of the examples.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn get(&self, index: usize) -> Result<Vec<HostTensor>> {
        match self.indices.get(index) {
            Some(&index) => self.dataset.get(index),
            None => Err(unplaced(format!("subset: there is no example {index}"))),
        }
    }
}

/// The sizes of the parts of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub enum Parts<const N: usize> {
    /// Numbers of examples, which add up to all.
    Lengths([usize; N]),
    /// Shares, which add up to 1. What rounding leaves over goes to the first parts, one each.
    Shares([f64; N]),
}

impl<const N: usize> From<[usize; N]> for Parts<N> {
    fn from(lengths: [usize; N]) -> Parts<N> {
        Parts::Lengths(lengths)
    }
}

impl<const N: usize> From<[f64; N]> for Parts<N> {
    fn from(shares: [f64; N]) -> Parts<N> {
        Parts::Shares(shares)
    }
}

impl<const N: usize> Parts<N> {
    /// How many examples of `n` each part has.
    fn lengths(&self, n: usize) -> Option<[usize; N]> {
        match *self {
            Parts::Lengths(lengths) => {
                let sum = lengths.iter().try_fold(0_usize, |sum, n| sum.checked_add(*n));
                (sum == Some(n)).then_some(lengths)
            }
            Parts::Shares(shares) => {
                let valid = shares.iter().all(|share| (0.0..=1.0).contains(share));
                if !valid || (shares.iter().sum::<f64>() - 1.0).abs() > 1e-6 {
                    return None;
                }
                let mut lengths = shares.map(|share| (share * n as f64).floor() as usize);
                // Sums of shares a little above 1 would give a little more than all.
                let left = n.checked_sub(lengths.iter().sum())?;
                (0..left).for_each(|i| lengths[i % N] += 1);
                Some(lengths)
            }
        }
    }
}

/// A dataset in random parts that have no example in common, such as for training and for
/// validation. The seed alone decides.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # fn f(dataset: impl Dataset) -> Result<()> {
/// let [training, validation] = gt::data::random_split(dataset, [0.9, 0.1], 0)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Lengths do not add up to the number of examples, or shares not to 1.
#[track_caller]
pub fn random_split<D: Dataset, const N: usize>(
    dataset: D,
    parts: impl Into<Parts<N>>,
    seed: u64,
) -> Result<[Subset<Arc<D>>; N]> {
    let (dataset, parts) = (Arc::new(dataset), parts.into());
    let n = dataset.len();
    let Some(lengths) = parts.lengths(n) else {
        let error = data_error(format!("random_split: {parts:?} of {n} examples"));
        return Err(error.hint("lengths add up to the number of examples, and shares to 1"));
    };
    let order = Order::shuffled(n, seed, 0);
    let mut start = 0;
    Ok(lengths.map(|length| {
        let indices = order.part(start, length);
        start += length;
        Subset { dataset: dataset.clone(), indices }
    }))
}

/// The examples of several datasets, one dataset after the other.
pub struct ConcatDataset {
    datasets: Vec<Box<dyn Dataset>>,
}

impl ConcatDataset {
    /// The examples of these.
    pub fn new(datasets: Vec<Box<dyn Dataset>>) -> ConcatDataset {
        ConcatDataset { datasets }
    }
}

impl Dataset for ConcatDataset {
    fn len(&self) -> usize {
        self.datasets.iter().map(Dataset::len).sum()
    }

    fn get(&self, index: usize) -> Result<Vec<HostTensor>> {
        let mut inner = index;
        for dataset in &self.datasets {
            match inner.checked_sub(dataset.len()) {
                None => return dataset.get(inner),
                Some(rest) => inner = rest,
            }
        }
        Err(unplaced(format!("concat dataset: there is no example {index}")))
    }
}
