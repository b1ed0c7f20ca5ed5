//! What loaders have in common: where one stands, and the iterator that hands out its batches.

use std::panic::Location;

use super::prefetch::Prefetch;
use crate::core::DynTensor;
use crate::error::Result;
use crate::state::{Commit, Misfits, StateDict, Stateful};

/// What gives batches epoch after epoch: [`DataLoader`](super::DataLoader) and
/// [`StreamLoader`](super::StreamLoader).
pub trait Loader: Stateful {
    /// The batches of the next epoch, as [`DataLoader::epoch`](super::DataLoader::epoch).
    #[track_caller]
    fn epoch(&mut self) -> Batches<'_>;

    /// The number of batches of an epoch; `None` of a stream, which does not know it.
    fn n_batches(&self) -> Option<usize>;
}

/// Where a loader stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    pub(super) epoch: u64,
    /// Batches of this epoch that were handed out.
    pub(super) batch: u64,
    /// Whether the epoch is one that a state has restored, and the next call for an epoch goes on
    /// with it.
    restored: bool,
}

impl Position {
    /// Leaves an epoch that was begun, unless a state has restored it.
    pub(super) fn begin(&mut self) {
        if !self.restored && self.batch > 0 {
            (self.epoch, self.batch) = (self.epoch + 1, 0);
        }
    }

    /// The number of the next batch of the epoch.
    pub(super) fn go_on(&mut self) -> usize {
        self.restored = false;
        usize::try_from(self.batch).unwrap_or(usize::MAX)
    }

    /// The state of a loader: where it stands, and what must be the same for the order to go on.
    pub(super) fn state_dict(self, fixed: &[(&'static str, i64)]) -> StateDict {
        let mut state = StateDict::new();
        state.insert_number("epoch", self.epoch.cast_signed());
        state.insert_number("batch", self.batch.cast_signed());
        fixed.iter().for_each(|(name, value)| state.insert_number(*name, *value));
        state
    }

    /// Looks whether a state is of a loader like this one; the result restores it.
    #[track_caller]
    pub(super) fn prepare(
        &mut self,
        fixed: &[(&'static str, i64)],
        state: &StateDict,
    ) -> Result<Commit<'_>> {
        let mut wanted = vec!["epoch", "batch"];
        wanted.extend(fixed.iter().map(|(name, _)| *name));
        let mut misfits = Misfits::names("data loader", state, &wanted);
        for (name, value) in fixed {
            let saved: Option<i64> = state.number(name).ok();
            if saved.is_some_and(|saved| saved != *value) {
                misfits.push(format!("{name}: is {value}, but was {}", saved.unwrap_or_default()));
            }
        }
        misfits.finish()?;
        let (epoch, batch): (i64, i64) = (state.number("epoch")?, state.number("batch")?);
        let (epoch, batch) = (epoch.cast_unsigned(), batch.cast_unsigned());
        Ok(Box::new(move || *self = Position { epoch, batch, restored: true }))
    }
}

/// A number as states hold it.
pub(super) fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// An iterator over the batches of an epoch: the tensors of each batch, in the current session.
pub struct Batches<'a> {
    position: &'a mut Position,
    /// What must be the same for the order to go on.
    fixed: Vec<(&'static str, i64)>,
    prefetch: Prefetch,
    is_over: bool,
    /// Where the epoch began: what stands nowhere in the program stands there.
    at: &'static Location<'static>,
}

impl<'a> Batches<'a> {
    #[track_caller]
    pub(super) fn new(
        position: &'a mut Position,
        fixed: &[(&'static str, i64)],
        prefetch: Prefetch,
    ) -> Batches<'a> {
        let (fixed, at) = (fixed.to_vec(), Location::caller());
        Batches { position, fixed, prefetch, is_over: false, at }
    }

    /// The state of the loader after the batches that were handed out, for a checkpoint within an
    /// epoch.
    pub fn state_dict(&self) -> StateDict {
        self.position.state_dict(&self.fixed)
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Vec<DynTensor>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        match self.prefetch.next() {
            Some(Ok(tensors)) => {
                self.position.batch += 1;
                let upload = |tensor| DynTensor::from_host_at(tensor, self.at);
                Some(Ok(tensors.into_iter().map(upload).collect()))
            }
            Some(Err(error)) => {
                self.is_over = true;
                Some(Err(error.or_at(self.at)))
            }
            None => {
                (self.position.epoch, self.position.batch) = (self.position.epoch + 1, 0);
                // The next call would be of the next epoch.
                self.is_over = true;
                None
            }
        }
    }
}
