//! The order in which an epoch goes through a dataset, and the random numbers that decide it:
//! functions of seed and epoch alone.

use gt_ir::splitmix::{GAMMA, mix};

/// The numbers of an epoch's examples, in order. It is the same on any machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order(Vec<u32>);

impl Order {
    /// As the examples are numbered.
    pub fn plain(n: usize) -> Order {
        Order((0..limit(n)).collect())
    }

    /// Shuffled (Fisher and Yates 1938, in Durstenfeld's form, with Lemire's bounded numbers;
    /// numbers by SplitMix64). A permutation of `0..n`.
    pub fn shuffled(n: usize, seed: u64, epoch: u64) -> Order {
        let mut order = Order::plain(n).0;
        let mut draws = Draws::new(seed, epoch);
        for i in (1..order.len()).rev() {
            let below = draws.below(i as u64 + 1);
            order.swap(i, below as usize);
        }
        Order(order)
    }

    /// The numbers of the examples.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|i| *i as usize)
    }

    /// The number of examples; one that comes twice counts twice.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the epoch has no example.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers from `start` on, at most `n`.
    pub(super) fn part(&self, start: usize, n: usize) -> Vec<usize> {
        self.0.iter().skip(start).take(n).map(|i| *i as usize).collect()
    }
}

/// An order of a sampler's own. Numbers beyond 2^32 are taken for the last one.
impl FromIterator<usize> for Order {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Order {
        Order(indices.into_iter().map(limit).collect())
    }
}

/// Examples beyond 2^32 are not numbered: an epoch of them would not end.
fn limit(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Random numbers of an epoch.
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(seed: u64, epoch: u64) -> Draws {
        Draws(mix(seed) ^ mix(epoch.wrapping_add(GAMMA)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`, of 53 bits.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
