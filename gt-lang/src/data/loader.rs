//! `DataLoader`: batches of a dataset, epoch after epoch.
//!
//! Guarantees: the order depends on seed and epoch alone, never on timing or the number of threads;
//! a loader restored from a state goes on with the very next batch; an example that cannot be read
//! ends the epoch with its error, in place of its batch.

use std::sync::Arc;

use super::batches::{Batches, Loader, Position, number};
use super::collate::{Collate, Example, Stack};
use super::order::Order;
use super::prefetch::{Made, Maker, Prefetch};
use super::sampler::{BatchSampler, Last, Sampler, Shuffle};
use super::{Dataset, unplaced};
use crate::error::Result;
use crate::state::{Commit, StateDict, Stateful, data_error};

/// How a [`DataLoader`] goes through its dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderConfig {
    /// Examples of a batch.
    pub batch_size: usize,
    /// In which order they come.
    pub shuffle: Shuffle,
    /// What becomes of a last batch that is smaller.
    pub last: Last,
    /// Batches that are made ahead of the program; with 0 they are made when they are asked for.
    pub prefetch: usize,
    /// Threads that make them, at most one for each batch ahead: PyTorch's `num_workers`. Batches
    /// come in the same order from any number.
    pub threads: usize,
}

impl Default for LoaderConfig {
    fn default() -> Self {
        let (shuffle, last) = (Shuffle::Off, Last::Keep);
        LoaderConfig { batch_size: 1, shuffle, last, prefetch: 2, threads: 1 }
    }
}

/// Batches of a dataset. Iterate over [`DataLoader::epoch`], once for each epoch.
pub struct DataLoader {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
    choice: Choice,
    collate: Arc<dyn Collate>,
    position: Position,
}

/// Which examples make the batches.
enum Choice {
    /// Those of a sampler, so many at a time.
    Examples(Arc<dyn Sampler>),
    /// As they are given.
    Batches(Arc<dyn BatchSampler>),
}

/// The batches of one epoch, by their numbers.
enum Plan {
    Order(Order, usize),
    Batches(Vec<Vec<usize>>),
}

impl Plan {
    /// The examples of a batch.
    fn batch(&self, i: usize) -> Vec<usize> {
        match self {
            Plan::Order(order, size) => order.part(i.saturating_mul(*size), *size),
            Plan::Batches(batches) => batches.get(i).cloned().unwrap_or_default(),
        }
    }
}

impl DataLoader {
    /// A loader of a dataset.
    ///
    /// # Errors
    /// Batches of no examples are asked for.
    #[track_caller]
    pub fn new(dataset: impl Dataset, config: LoaderConfig) -> Result<DataLoader> {
        check_batch_size(config.batch_size)?;
        let choice = Choice::Examples(config.shuffle.sampler(dataset.len()));
        let (collate, position) = (Arc::new(Stack), Position::default());
        Ok(DataLoader { dataset: Arc::new(dataset), config, choice, collate, position })
    }

    /// The loader with the examples of a sampler, in place of those that `shuffle` says.
    #[must_use]
    pub fn with_sampler(self, sampler: impl Sampler) -> DataLoader {
        DataLoader { choice: Choice::Examples(Arc::new(sampler)), ..self }
    }

    /// The loader with the batches of a sampler, in place of those that `batch_size`, `shuffle` and
    /// `last` say.
    #[must_use]
    pub fn with_batch_sampler(self, sampler: impl BatchSampler) -> DataLoader {
        DataLoader { choice: Choice::Batches(Arc::new(sampler)), ..self }
    }

    /// The loader with batches made in another way than by stacking the tensors of their examples:
    /// PyTorch's `collate_fn`.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// use gt::data::{Example, array};
    /// # fn f(dataset: impl Dataset) -> Result<()> {
    /// // The numbers of the examples only.
    /// let numbers = |examples: &[Example]| {
    ///     let numbers: Vec<i64> = examples.iter().map(|example| example.index as i64).collect();
    ///     Ok(vec![array(numbers, [examples.len()])?])
    /// };
    /// let loader = DataLoader::new(dataset, LoaderConfig::default())?.with_collate(numbers);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_collate(self, collate: impl Collate) -> DataLoader {
        DataLoader { collate: Arc::new(collate), ..self }
    }

    /// The number of batches of an epoch.
    pub fn len(&self) -> usize {
        match &self.choice {
            Choice::Examples(sampler) => {
                n_batches(sampler.len(), self.config.batch_size, self.config.last)
            }
            Choice::Batches(sampler) => sampler.len(),
        }
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the current epoch, from 0.
    pub fn epoch_number(&self) -> u64 {
        self.position.epoch
    }

    /// The batches of the next epoch. The first call after a state was restored gives the rest of
    /// the restored epoch.
    ///
    /// An epoch that the program has left early, by a `break` or an error, is over.
    /// [`DataLoader::rest`] goes on with it.
    #[track_caller]
    pub fn epoch(&mut self) -> Batches<'_> {
        self.position.begin();
        self.rest()
    }

    /// The batches of this epoch that have not been handed out. All batches of the next epoch, if
    /// none is left.
    #[track_caller]
    pub fn rest(&mut self) -> Batches<'_> {
        let start = self.position.go_on();
        let (epoch, n) = (self.position.epoch, self.len());
        let plan = Arc::new(match &self.choice {
            Choice::Examples(sampler) => Plan::Order(sampler.order(epoch), self.config.batch_size),
            Choice::Batches(sampler) => Plan::Batches(sampler.batches(epoch)),
        });
        let maker = |_| -> Maker {
            let (dataset, collate, plan) =
                (self.dataset.clone(), self.collate.clone(), plan.clone());
            Box::new(move |i| Some(batch(&*dataset, &*collate, &plan.batch(i))))
        };
        let makers = (0..self.config.threads.max(1)).map(maker).collect();
        let prefetch = Prefetch::new(&(start..n.max(start)), self.config.prefetch, makers);
        let fixed = self.fixed();
        Batches::new(&mut self.position, &fixed, prefetch)
    }

    /// What must be the same for the order to go on.
    fn fixed(&self) -> [(&'static str, i64); 3] {
        let (batch_size, seed) = match &self.choice {
            Choice::Examples(sampler) => (self.config.batch_size, sampler.seed()),
            // The sizes are the sampler's.
            Choice::Batches(sampler) => (0, sampler.seed()),
        };
        [
            ("examples", number(self.dataset.len())),
            ("batch_size", number(batch_size)),
            ("seed", seed.map_or(-1, u64::cast_signed)),
        ]
    }
}

impl Loader for DataLoader {
    fn epoch(&mut self) -> Batches<'_> {
        DataLoader::epoch(self)
    }

    fn n_batches(&self) -> Option<usize> {
        Some(self.len())
    }
}

/// Where it stands. The seed must be the same for the order to go on; it is part of the state and
/// checked.
impl Stateful for DataLoader {
    fn state_dict(&self) -> Result<StateDict> {
        Ok(self.position.state_dict(&self.fixed()))
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let fixed = self.fixed();
        self.position.prepare(&fixed, state)
    }
}

/// Batches of an epoch of so many examples.
pub(super) fn n_batches(n: usize, size: usize, last: Last) -> usize {
    match last {
        Last::Keep => n.div_ceil(size),
        Last::Drop => n / size,
    }
}

#[track_caller]
pub(super) fn check_batch_size(size: usize) -> Result<()> {
    if size > 0 {
        return Ok(());
    }
    let error = data_error("data loader: `batch_size` is 0".to_owned());
    Err(error.hint("a batch has at least one example"))
}

/// The tensors of these examples.
fn batch(dataset: &dyn Dataset, collate: &dyn Collate, indices: &[usize]) -> Made {
    let n = dataset.len();
    let example = |&index: &usize| {
        if index >= n {
            let what = format!("data loader: the sampler asks for example {index} of {n}");
            return Err(unplaced(what).hint("examples are numbered from 0"));
        }
        Ok(Example { index, tensors: dataset.get(index)? })
    };
    let examples: Result<Vec<Example>> = indices.iter().map(example).collect();
    let examples = examples?;
    if examples.is_empty() {
        let error = unplaced("data loader: the sampler gives an empty batch".to_owned());
        return Err(error.hint("a batch has at least one example"));
    }
    collate.collate(&examples)
}
