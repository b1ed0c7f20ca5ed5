//! Streams: examples that come one after the other, of unknown number, and their loader. PyTorch's
//! `IterableDataset`.
//!
//! Guarantees: batches are the same as long as the stream is; a loader restored from a state reads
//! the batches before again and goes on with the very next one.
//!
//! Does not: divide a stream among threads. One thread reads and makes batches; a stream that needs
//! more work divides it inside.

use std::iter::Fuse;
use std::sync::Arc;

use gt_ir::HostTensor;

use super::batches::{Batches, Loader, Position, number};
use super::collate::{Collate, Example, Stack};
use super::loader::check_batch_size;
use super::order::Draws;
use super::prefetch::{Maker, Prefetch};
use super::sampler::Last;
use crate::error::Result;
use crate::state::{Commit, StateDict, Stateful};

/// The examples of an epoch as they come.
type Examples = Box<dyn Iterator<Item = Result<Vec<HostTensor>>> + Send>;

/// Examples in a row, such as lines of files or messages of a queue. Functions from the number of
/// the epoch to an iterator are streams.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::{StreamConfig, StreamLoader, array};
///
/// let squares = |_epoch| (0..).map(|i: i64| Ok(vec![array(vec![i * i], [1])?]));
/// let config = StreamConfig { batch_size: 4, ..Default::default() };
/// let mut loader = StreamLoader::new(squares, config)?;
/// for batch in loader.epoch().take(3) {
///     println!("{}", batch?[0]); // [4, 1]
/// }
/// # Ok::<(), gt::Error>(())
/// ```
pub trait IterableDataset: Send + Sync + 'static {
    /// The examples of an epoch from its beginning, each with as many tensors. An error ends the
    /// epoch.
    fn iter(&self, epoch: u64) -> Box<dyn Iterator<Item = Result<Vec<HostTensor>>> + Send>;
}

impl<F, I> IterableDataset for F
where
    F: Fn(u64) -> I + Send + Sync + 'static,
    I: Iterator<Item = Result<Vec<HostTensor>>> + Send + 'static,
{
    fn iter(&self, epoch: u64) -> Examples {
        Box::new(self(epoch))
    }
}

/// A stream in another order: each example is drawn from a buffer, in whose place the next of the
/// stream comes. A larger buffer shuffles better and takes more memory.
#[derive(Clone, Debug)]
pub struct ShuffleBuffer<D> {
    stream: D,
    size: usize,
    seed: u64,
}

impl<D: IterableDataset> ShuffleBuffer<D> {
    /// A stream shuffled by a buffer of so many examples. The seed and the epoch decide the order.
    pub fn new(stream: D, size: usize, seed: u64) -> ShuffleBuffer<D> {
        ShuffleBuffer { stream, size: size.max(1), seed }
    }
}

impl<D: IterableDataset> IterableDataset for ShuffleBuffer<D> {
    fn iter(&self, epoch: u64) -> Examples {
        let (mut stream, size) = (self.stream.iter(epoch).fuse(), self.size);
        let (mut buffer, mut draws) = (Vec::new(), Draws::new(self.seed, epoch));
        Box::new(std::iter::from_fn(move || {
            while buffer.len() < size
                && let Some(example) = stream.next()
            {
                match example {
                    Ok(example) => buffer.push(example),
                    error => return Some(error),
                }
            }
            let n = buffer.len() as u64;
            (n > 0).then(|| Ok(buffer.swap_remove(draws.below(n) as usize)))
        }))
    }
}

/// How a [`StreamLoader`] makes batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Examples of a batch.
    pub batch_size: usize,
    /// What becomes of a last batch that is smaller.
    pub last: Last,
    /// Batches that a thread makes ahead of the program; with 0 there is no thread.
    pub prefetch: usize,
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig { batch_size: 1, last: Last::Keep, prefetch: 2 }
    }
}

/// Batches of a stream. Iterate over [`StreamLoader::epoch`], once for each epoch.
pub struct StreamLoader {
    stream: Arc<dyn IterableDataset>,
    config: StreamConfig,
    collate: Arc<dyn Collate>,
    position: Position,
}

impl StreamLoader {
    /// A loader of a stream.
    ///
    /// # Errors
    /// Batches of no examples are asked for.
    #[track_caller]
    pub fn new(stream: impl IterableDataset, config: StreamConfig) -> Result<StreamLoader> {
        check_batch_size(config.batch_size)?;
        let (collate, position) = (Arc::new(Stack), Position::default());
        Ok(StreamLoader { stream: Arc::new(stream), config, collate, position })
    }

    /// The loader with batches made in another way than by stacking, as
    /// [`DataLoader::with_collate`](super::DataLoader::with_collate).
    #[must_use]
    pub fn with_collate(self, collate: impl Collate) -> StreamLoader {
        StreamLoader { collate: Arc::new(collate), ..self }
    }

    /// The number of the current epoch, from 0.
    pub fn epoch_number(&self) -> u64 {
        self.position.epoch
    }

    /// The batches of the next epoch, as [`DataLoader::epoch`](super::DataLoader::epoch).
    #[track_caller]
    pub fn epoch(&mut self) -> Batches<'_> {
        self.position.begin();
        self.rest()
    }

    /// The batches of this epoch that have not been handed out. Those that have been are read
    /// again.
    #[track_caller]
    pub fn rest(&mut self) -> Batches<'_> {
        let start = self.position.go_on();
        let (stream, collate) = (self.stream.clone(), self.collate.clone());
        let StreamConfig { batch_size, last, prefetch } = self.config;
        let epoch = self.position.epoch;
        let mut reading = None;
        let make: Maker = Box::new(move |_| {
            let reading = reading.get_or_insert_with(|| Reading::new(stream.iter(epoch)));
            let read = reading.skip(start.saturating_mul(batch_size));
            let examples = match read.and_then(|()| reading.take(batch_size)) {
                Ok(examples) => examples,
                Err(error) => return Some(Err(error)),
            };
            let is_whole = examples.len() == batch_size || last == Last::Keep;
            (is_whole && !examples.is_empty()).then(|| collate.collate(&examples))
        });
        let prefetch = Prefetch::new(&(start..usize::MAX), prefetch, vec![make]);
        let fixed = self.fixed();
        Batches::new(&mut self.position, &fixed, prefetch)
    }
}

/// An epoch of a stream, half read.
struct Reading {
    examples: Fuse<Examples>,
    /// Examples read so far.
    n_read: usize,
}

impl Reading {
    fn new(examples: Examples) -> Reading {
        Reading { examples: examples.fuse(), n_read: 0 }
    }

    /// Reads until so many are read.
    fn skip(&mut self, n: usize) -> Result<()> {
        while self.n_read < n {
            let Some(example) = self.examples.next() else { break };
            example?;
            self.n_read += 1;
        }
        Ok(())
    }

    /// The next examples, at most `n`.
    fn take(&mut self, n: usize) -> Result<Vec<Example>> {
        let mut taken = Vec::new();
        while taken.len() < n {
            let Some(tensors) = self.examples.next().transpose()? else { break };
            taken.push(Example { index: self.n_read, tensors });
            self.n_read += 1;
        }
        Ok(taken)
    }
}

impl Loader for StreamLoader {
    fn epoch(&mut self) -> Batches<'_> {
        StreamLoader::epoch(self)
    }

    fn n_batches(&self) -> Option<usize> {
        None
    }
}

/// Where it stands.
impl Stateful for StreamLoader {
    fn state_dict(&self) -> Result<StateDict> {
        Ok(self.position.state_dict(&self.fixed()))
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let fixed = self.fixed();
        self.position.prepare(&fixed, state)
    }
}

impl StreamLoader {
    /// What must be the same for the batches to go on.
    fn fixed(&self) -> [(&'static str, i64); 1] {
        [("batch_size", number(self.config.batch_size))]
    }
}
