//! `DataLoader`: batches of a dataset, epoch after epoch.
//!
//! Guarantees: the order depends on seed and epoch alone, never on timing; a loader restored from a
//! state goes on with the very next batch; an example that cannot be read ends the epoch with its
//! error, in place of its batch.

use std::panic::Location;
use std::sync::Arc;

use super::order::Order;
use super::prefetch::Prefetch;
use super::{Dataset, unplaced};
use crate::core::DynTensor;
use crate::error::Result;
use crate::state::{Commit, Misfits, StateDict, Stateful, data_error};
use gt_ir::{Dim, HostTensor, Shape, Type};

/// How a [`DataLoader`] goes through its dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderConfig {
    /// Examples of a batch.
    pub batch_size: usize,
    /// In which order they come.
    pub shuffle: Shuffle,
    /// What becomes of a last batch that is smaller.
    pub last: Last,
    /// Batches that a thread makes ahead of the program; with 0 there is no thread.
    pub prefetch: usize,
}

/// The order of the examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// As they are numbered.
    Off,
    /// Another one each epoch, decided by this seed.
    Seed(u64),
}

/// A last batch that is smaller than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Last {
    /// It comes, too. Its other shape makes another plan.
    #[default]
    Keep,
    /// It is left out: PyTorch's `drop_last=True`.
    Drop,
}

impl Default for LoaderConfig {
    fn default() -> Self {
        LoaderConfig { batch_size: 1, shuffle: Shuffle::Off, last: Last::Keep, prefetch: 2 }
    }
}

/// Batches of a dataset. Iterate over [`DataLoader::epoch`], once for each epoch.
pub struct DataLoader {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
    epoch: u64,
    /// Batches of this epoch that were handed out.
    batch: u64,
    /// Whether the epoch is one that a state has restored, and [`DataLoader::epoch`] goes on with
    /// it.
    restored: bool,
}

impl DataLoader {
    /// A loader of a dataset.
    ///
    /// # Errors
    /// Batches of no examples are asked for.
    #[track_caller]
    pub fn new(dataset: impl Dataset, config: LoaderConfig) -> Result<DataLoader> {
        if config.batch_size == 0 {
            let error = data_error("data loader: `batch_size` is 0".to_owned());
            return Err(error.hint("a batch has at least one example"));
        }
        Ok(DataLoader { dataset: Arc::new(dataset), config, epoch: 0, batch: 0, restored: false })
    }

    /// The number of batches of an epoch.
    pub fn len(&self) -> usize {
        let (n, size) = (self.dataset.len(), self.config.batch_size);
        match self.config.last {
            Last::Keep => n.div_ceil(size),
            Last::Drop => n / size,
        }
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the current epoch, from 0.
    pub fn epoch_number(&self) -> u64 {
        self.epoch
    }

    /// The batches of the next epoch. The first call after a state was restored gives the rest of
    /// the restored epoch.
    ///
    /// An epoch that the program has left early, by a `break` or an error, is over.
    /// [`DataLoader::rest`] goes on with it.
    #[track_caller]
    pub fn epoch(&mut self) -> Batches<'_> {
        if !self.restored && self.batch > 0 {
            (self.epoch, self.batch) = (self.epoch + 1, 0);
        }
        self.rest()
    }

    /// The batches of this epoch that have not been handed out. All batches of the next epoch, if
    /// none is left.
    #[track_caller]
    pub fn rest(&mut self) -> Batches<'_> {
        self.restored = false;
        let start = usize::try_from(self.batch).unwrap_or(usize::MAX);
        let order = match self.config.shuffle {
            Shuffle::Off => Order::plain(self.dataset.len()),
            Shuffle::Seed(seed) => Order::shuffled(self.dataset.len(), seed, self.epoch),
        };
        let (dataset, size) = (self.dataset.clone(), self.config.batch_size);
        let make = move |i: usize| batch(&*dataset, &order.part(i.saturating_mul(size), size));
        let prefetch = Prefetch::new(start..self.len().max(start), self.config.prefetch, make);
        Batches { loader: self, prefetch, failed: false, at: Location::caller() }
    }
}

/// An iterator over the batches of an epoch: the tensors of each batch, in the current session.
pub struct Batches<'a> {
    loader: &'a mut DataLoader,
    prefetch: Prefetch,
    failed: bool,
    /// Where the epoch began: what stands nowhere in the program stands there.
    at: &'static Location<'static>,
}

impl Iterator for Batches<'_> {
    type Item = Result<Vec<DynTensor>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.prefetch.next() {
            Some(Ok(tensors)) => {
                self.loader.batch += 1;
                let upload = |tensor| DynTensor::from_host_at(tensor, self.at);
                Some(Ok(tensors.into_iter().map(upload).collect()))
            }
            Some(Err(error)) => {
                self.failed = true;
                Some(Err(error.or_at(self.at)))
            }
            None => {
                (self.loader.epoch, self.loader.batch) = (self.loader.epoch + 1, 0);
                // The next call would be of the next epoch.
                self.failed = true;
                None
            }
        }
    }
}

/// Where it stands. The seed must be the same for the order to go on; it is part of the state and
/// checked.
impl Stateful for DataLoader {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert_number("epoch", self.epoch.cast_signed());
        state.insert_number("batch", self.batch.cast_signed());
        for (name, value) in self.fixed() {
            state.insert_number(name, value);
        }
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let mut wanted = vec!["epoch", "batch"];
        wanted.extend(self.fixed().iter().map(|(name, _)| *name));
        let mut misfits = Misfits::names("data loader", state, &wanted);
        for (name, value) in self.fixed() {
            let saved: Option<i64> = state.number(name).ok();
            if saved.is_some_and(|saved| saved != value) {
                misfits.push(format!("{name}: is {value}, but was {}", saved.unwrap_or_default()));
            }
        }
        misfits.finish()?;
        let (epoch, batch): (i64, i64) = (state.number("epoch")?, state.number("batch")?);
        Ok(Box::new(move || {
            (self.epoch, self.batch) = (epoch.cast_unsigned(), batch.cast_unsigned());
            self.restored = true;
        }))
    }
}

impl DataLoader {
    /// What must be the same for the order to go on.
    fn fixed(&self) -> [(&'static str, i64); 3] {
        let seed = match self.config.shuffle {
            Shuffle::Off => -1,
            Shuffle::Seed(seed) => seed.cast_signed(),
        };
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        [
            ("examples", number(self.dataset.len())),
            ("batch_size", number(self.config.batch_size)),
            ("seed", seed),
        ]
    }
}

/// The tensors of these examples, stacked.
fn batch(dataset: &dyn Dataset, indices: &[usize]) -> Result<Vec<HostTensor>> {
    let examples: Result<Vec<Vec<HostTensor>>> = indices.iter().map(|&i| dataset.get(i)).collect();
    let examples = examples?;
    let first = examples.first().cloned().unwrap_or_default();
    let width = first.len();
    if let Some((at, odd)) = examples.iter().enumerate().find(|(_, e)| e.len() != width) {
        let (index, n) = (indices[at], odd.len());
        let what = format!("data loader: example {index} has {n} tensors, others {width}");
        return Err(unplaced(what).hint("`Dataset::get` gives as many for each example"));
    }
    (0..width).map(|part| stacked(&examples, part, indices)).collect()
}

/// One tensor of each example, along a new first axis.
fn stacked(examples: &[Vec<HostTensor>], part: usize, indices: &[usize]) -> Result<HostTensor> {
    let ty = *examples[0][part].ty();
    let mut bytes = Vec::with_capacity(ty.bytes() * examples.len());
    for (example, index) in examples.iter().zip(indices) {
        let value = &example[part];
        if value.ty().dtype != ty.dtype || !value.ty().shape.same_sizes(&ty.shape) {
            let odd = value.ty();
            let what = format!("data loader: example {index} is {odd}, others are {ty}");
            let hint = "examples of a batch have one shape: pad them in `Dataset::get`, or take \
                        batches of 1";
            return Err(unplaced(what).hint(hint));
        }
        bytes.extend_from_slice(value.bytes());
    }
    let dims: Vec<Dim> = [Dim::new(examples.len())].into_iter().chain(ty.shape.dims()).collect();
    let told = |e: gt_ir::OpError| unplaced(format!("data loader: {}", e.message));
    let shape = Shape::from_dims(&dims).map_err(told)?;
    HostTensor::new(Type { dtype: ty.dtype, shape }, bytes.into()).map_err(told)
}
