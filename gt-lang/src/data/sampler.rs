//! Samplers: which examples an epoch has, and in which order. PyTorch's `torch.utils.data.Sampler`.
//!
//! Guarantees: an order is a function of the sampler and the epoch alone, so that a loader goes on
//! in the middle of an epoch and every process of a run knows the order of all.

use std::sync::Arc;

use super::order::{Draws, Order};
use crate::error::Result;
use crate::state::data_error;

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

/// Which examples an epoch has, and in which order.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// use gt::data::{Order, Sampler};
///
/// /// Every second example.
/// struct Even(usize);
///
/// impl Sampler for Even {
///     fn len(&self) -> usize {
///         self.0.div_ceil(2)
///     }
///     fn order(&self, _epoch: u64) -> Order {
///         (0..self.0).step_by(2).collect()
///     }
/// }
/// ```
pub trait Sampler: Send + Sync + 'static {
    /// How many examples an epoch has.
    fn len(&self) -> usize;

    /// The order of an epoch: as many examples as [`Sampler::len`] says. One may come twice, and
    /// others not at all.
    fn order(&self, epoch: u64) -> Order;

    /// The seed, if there is one. A loader's state has it, and is refused by a loader of another.
    fn seed(&self) -> Option<u64> {
        None
    }

    /// Whether an epoch has no example.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<S: Sampler + ?Sized> Sampler for Arc<S> {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn order(&self, epoch: u64) -> Order {
        (**self).order(epoch)
    }
    fn seed(&self) -> Option<u64> {
        (**self).seed()
    }
}

/// Whole batches of examples: PyTorch's `batch_sampler`. For batches of examples of like lengths,
/// say. [`LoaderConfig`](super::LoaderConfig) makes batches of one size of any [`Sampler`].
pub trait BatchSampler: Send + Sync + 'static {
    /// How many batches an epoch has.
    fn len(&self) -> usize;

    /// The examples of each batch of an epoch.
    fn batches(&self, epoch: u64) -> Vec<Vec<usize>>;

    /// The seed, as [`Sampler::seed`].
    fn seed(&self) -> Option<u64> {
        None
    }

    /// Whether an epoch has no batch.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All examples, as they are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequentialSampler(pub usize);

impl Sampler for SequentialSampler {
    fn len(&self) -> usize {
        self.0
    }
    fn order(&self, _: u64) -> Order {
        Order::plain(self.0)
    }
}

/// All examples, in another order each epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomSampler {
    n: usize,
    seed: u64,
}

impl RandomSampler {
    /// Of `n` examples, by this seed.
    pub fn new(n: usize, seed: u64) -> RandomSampler {
        RandomSampler { n, seed }
    }
}

impl Sampler for RandomSampler {
    fn len(&self) -> usize {
        self.n
    }
    fn order(&self, epoch: u64) -> Order {
        Order::shuffled(self.n, self.seed, epoch)
    }
    fn seed(&self) -> Option<u64> {
        Some(self.seed)
    }
}

/// What [`Shuffle`] says, of so many examples.
impl Shuffle {
    pub(super) fn sampler(self, n: usize) -> Arc<dyn Sampler> {
        match self {
            Shuffle::Off => Arc::new(SequentialSampler(n)),
            Shuffle::Seed(seed) => Arc::new(RandomSampler::new(n, seed)),
        }
    }
}

/// Examples drawn by their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedRandomSampler {
    weights: Vec<f64>,
    n: usize,
    replacement: Replacement,
    seed: u64,
}

/// Whether an example that was drawn can be drawn again in the same epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// It can.
    With,
    /// It cannot.
    Without,
}

impl WeightedRandomSampler {
    /// `n` examples an epoch. The chance of each is its weight's share of their sum, so that rare
    /// classes come as often as others if the weight is one by the number of the class.
    ///
    /// # Errors
    /// A weight is negative or not finite, all are 0, or fewer have a weight than are drawn without
    /// replacement.
    #[track_caller]
    pub fn new(
        weights: Vec<f64>,
        n: usize,
        replacement: Replacement,
        seed: u64,
    ) -> Result<WeightedRandomSampler> {
        if let Some(i) = weights.iter().position(|w| !w.is_finite() || *w < 0.0) {
            let what = format!("weighted sampler: weight {i} is {}", weights[i]);
            return Err(data_error(what).hint("weights are finite and not negative"));
        }
        let n_drawable = weights.iter().filter(|w| **w > 0.0).count();
        let needed = match replacement {
            Replacement::With => n.min(1),
            Replacement::Without => n,
        };
        if n_drawable < needed {
            let what = format!("weighted sampler: {n} of {n_drawable} examples with a weight");
            return Err(data_error(what).hint("draw fewer, or with replacement"));
        }
        Ok(WeightedRandomSampler { weights, n, replacement, seed })
    }

    /// By inverting the sums of the weights.
    fn with_replacement(&self, draws: &mut Draws) -> Order {
        let sums = self.weights.iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let sums: Vec<f64> = sums.collect();
        let total = sums.last().copied().unwrap_or(0.0);
        // Rounding may reach the total itself; the last example with a weight is meant then.
        let last = self.weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
        let draw = |_| {
            let at = draws.uniform() * total;
            sums.partition_point(|sum| *sum <= at).min(last)
        };
        (0..self.n).map(draw).collect()
    }

    /// By exponential waiting times (Efraimidis and Spirakis 2006).
    fn without_replacement(&self, draws: &mut Draws) -> Order {
        let time = |weight: &f64| -(1.0 - draws.uniform()).ln() / weight;
        let mut times: Vec<(f64, usize)> = self.weights.iter().map(time).zip(0..).collect();
        times.retain(|(_, i)| self.weights[*i] > 0.0);
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        times.into_iter().take(self.n).map(|(_, i)| i).collect()
    }
}

impl Sampler for WeightedRandomSampler {
    fn len(&self) -> usize {
        self.n
    }
    fn order(&self, epoch: u64) -> Order {
        let mut draws = Draws::new(self.seed, epoch);
        match self.replacement {
            Replacement::With => self.with_replacement(&mut draws),
            Replacement::Without => self.without_replacement(&mut draws),
        }
    }
    fn seed(&self) -> Option<u64> {
        Some(self.seed)
    }
}

/// One rank's share of what another sampler gives, for programs that run once for each worker and
/// average their gradients themselves. Every rank has equally many examples. (One program on many
/// workers needs none: see the guide's chapter on parallel training.)
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::{DistributedSampler, RandomSampler, Sampler};
/// let all = RandomSampler::new(10, 0); // the same seed in every process
/// let mine = DistributedSampler::new(all, 1, 4, Last::Keep)?;
/// assert_eq!(mine.len(), 3); // two of the ten come twice
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributedSampler<S> {
    all: S,
    rank: usize,
    n_ranks: usize,
    last: Last,
}

impl<S: Sampler> DistributedSampler<S> {
    /// The examples `rank`, `rank + n_ranks`, .. of the order. Where they do not divide, the order
    /// begins again, or ([`Last::Drop`]) its end is left out.
    ///
    /// # Errors
    /// There is no such rank.
    #[track_caller]
    pub fn new(all: S, rank: usize, n_ranks: usize, last: Last) -> Result<DistributedSampler<S>> {
        if rank >= n_ranks {
            let error = data_error(format!("distributed sampler: rank {rank} of {n_ranks}"));
            return Err(error.hint("ranks count from 0"));
        }
        Ok(DistributedSampler { all, rank, n_ranks, last })
    }
}

impl<S: Sampler> Sampler for DistributedSampler<S> {
    fn len(&self) -> usize {
        match self.last {
            Last::Keep => self.all.len().div_ceil(self.n_ranks),
            Last::Drop => self.all.len() / self.n_ranks,
        }
    }
    fn order(&self, epoch: u64) -> Order {
        let all: Vec<usize> = self.all.order(epoch).indices().collect();
        let share = all.iter().cycle().skip(self.rank).step_by(self.n_ranks);
        share.take(self.len()).copied().collect()
    }
    fn seed(&self) -> Option<u64> {
        self.all.seed()
    }
}
