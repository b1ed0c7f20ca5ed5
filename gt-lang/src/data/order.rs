//! The order in which an epoch goes through a dataset: a function of seed and epoch alone.

use gt_ir::splitmix::{GAMMA, mix};

/// A permutation of `0..n` that depends on the seed and the epoch only, on any machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order(Vec<u32>);

impl Order {
    /// As the examples are numbered.
    pub fn plain(n: usize) -> Order {
        Order((0..limit(n)).collect())
    }

    /// Shuffled (Fisher and Yates 1938, in Durstenfeld's form, with Lemire's bounded numbers;
    /// numbers by SplitMix64).
    pub fn shuffled(n: usize, seed: u64, epoch: u64) -> Order {
        let mut order = Order::plain(n).0;
        let mut state = mix(seed) ^ mix(epoch.wrapping_add(GAMMA));
        for i in (1..order.len()).rev() {
            state = state.wrapping_add(GAMMA);
            let below = (u128::from(mix(state)) * (i as u128 + 1)) >> 64;
            order.swap(i, below as usize);
        }
        Order(order)
    }

    /// The numbers of the examples.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|i| *i as usize)
    }

    /// The numbers from `start` on, at most `n`.
    pub(super) fn part(&self, start: usize, n: usize) -> Vec<usize> {
        self.0.iter().skip(start).take(n).map(|i| *i as usize).collect()
    }
}

/// Examples beyond 2^32 are not numbered: an epoch of them would not end.
fn limit(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
