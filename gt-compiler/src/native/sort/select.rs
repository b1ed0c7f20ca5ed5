//! A part of the order of a row: its first positions by one scan that keeps the best so far, or
//! positions anywhere by partition (Hoare 1961).
//!
//! The scan compares an element with the last of the best, and most are behind it. Blocks of a long
//! row are scanned apart; the first positions of the row are among those of the blocks, so the
//! result does not depend on the blocks.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use pulp::{Arch, NullaryFnOnce};

use super::{Context, Pair, SHORT};

/// Elements that are compared with the last of the best at once.
const CHUNK: usize = 64;
/// Elements of a part of a chunk, which are compared at once where the chunk has one before it.
const PART: usize = 16;
/// Pairs that are kept at least before the best of them are chosen: the first time, when every
/// element is kept, and later.
const LEAST: [usize; 2] = [256, 32];
/// Elements of a block of a row at least.
const BLOCK: usize = 1 << 15;

/// Whether `wanted` positions of `n` are few enough to be found without sorting.
pub(super) fn is_small(n: usize, wanted: usize) -> bool {
    n > SHORT / 8 && wanted <= n / 8
}

/// The number of blocks in which one row is scanned, if it is long and little of it is wanted.
pub(super) fn blocks(n: usize, part: &Range<usize>, threads: usize) -> Option<usize> {
    let most = n / BLOCK.max(8 * part.end);
    (most > 1 && is_small(n, part.end)).then(|| most.min(4 * threads))
}

/// The first `wanted` pairs of a row, in order; places count from `base`.
pub(super) fn first<T: Copy, P: Pair>(
    x: &[T],
    base: usize,
    wanted: usize,
    key: &impl Fn(T) -> P::Key,
    best: &mut Vec<P>,
) {
    best.clear();
    Arch::new().dispatch(Scan { x, base, wanted, key, best });
    best.sort_unstable();
    best.truncate(wanted);
}

/// The best so far, element after element: [`first`], before the last choice among them.
struct Scan<'a, T, P, K> {
    x: &'a [T],
    base: usize,
    wanted: usize,
    key: &'a K,
    best: &'a mut Vec<P>,
}

impl<T: Copy, P: Pair, K: Fn(T) -> P::Key> NullaryFnOnce for Scan<'_, T, P, K> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        let n_first = (2 * self.wanted).max(LEAST[0]).min(self.x.len());
        let (first, rest) = self.x.split_at(n_first);
        let pairs = first.iter().enumerate();
        self.best.extend(pairs.map(|(i, v)| P::new((self.key)(*v), self.base + i)));
        if rest.is_empty() {
            return;
        }
        let mut last = self.choose();
        for (n, chunk) in rest.chunks(CHUNK).enumerate() {
            if !self.has_one_before(last, chunk) {
                continue;
            }
            for (m, part) in chunk.chunks(PART).enumerate() {
                if self.has_one_before(last, part) {
                    self.take(last, part, n_first + n * CHUNK + m * PART);
                }
                if self.best.len() >= (2 * self.wanted).max(LEAST[1]) {
                    last = self.choose();
                }
            }
        }
    }
}

impl<T: Copy, P: Pair, K: Fn(T) -> P::Key> Scan<'_, T, P, K> {
    /// Leaves the best of what is kept. Later elements are among the best only before the key that
    /// the last of them has.
    fn choose(&mut self) -> P::Key {
        let last = self.best.select_nth_unstable(self.wanted - 1).1.key();
        self.best.truncate(self.wanted);
        last
    }

    /// Whether an element comes before the last one. All are compared, which takes less time than
    /// to stop at the first.
    #[inline(always)]
    fn has_one_before(&self, last: P::Key, of: &[T]) -> bool {
        of.iter().fold(false, |any, v| any | ((self.key)(*v) < last))
    }

    /// Keeps the elements of a part that come before the last one. There is no branch on an
    /// element, which nobody could foresee.
    #[inline(always)]
    fn take(&mut self, last: P::Key, part: &[T], at: usize) {
        let n = self.best.len();
        self.best.resize(n + part.len(), P::default());
        let mut next = n;
        for (i, v) in part.iter().enumerate() {
            let key = (self.key)(*v);
            self.best[next] = P::new(key, self.base + at + i);
            next += usize::from(key < last);
        }
        self.best.truncate(next);
    }
}

/// Puts the pairs of `part` where they stand in order.
pub(super) fn middle<P: Pair>(pairs: &mut [P], part: &Range<usize>) {
    pairs.select_nth_unstable(part.start);
    let rest = &mut pairs[part.start..];
    rest.select_nth_unstable(part.len() - 1);
    rest[..part.len()].sort_unstable();
}

/// Pairs with the first `wanted` of a row among them, in any order: those of each block.
pub(super) fn apart<T: Copy + Sync, P: Pair>(
    context: &Context<'_>,
    x: &[T],
    n_blocks: usize,
    wanted: usize,
    key: &(impl Fn(T) -> P::Key + Sync),
) -> Vec<P> {
    let found: Mutex<Vec<P>> = Mutex::new(Vec::with_capacity(n_blocks * wanted));
    let block = x.len().div_ceil(n_blocks);
    context.threads.run(n_blocks, &|i, _| {
        let (start, end) = (i * block, ((i + 1) * block).min(x.len()));
        let mut best: Vec<P> = Vec::new();
        first(&x[start..end], start, wanted, key, &mut best);
        found.lock().unwrap_or_else(PoisonError::into_inner).extend(best);
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize, mask: u32) -> Vec<u32> {
        (0..n as u32).map(|i| i.wrapping_mul(0x9e37_79b9).rotate_left(9) & mask).collect()
    }

    fn ordered(keys: &[u32]) -> Vec<u64> {
        let mut pairs: Vec<u64> = keys.iter().zip(0..).map(|(k, i)| u64::new(*k, i)).collect();
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn a_scan_finds_what_a_sort_puts_first() {
        for (n, mask) in [(1, !0), (64, !0), (700, 3), (5000, !0), (5000, 0), (5001, 0xff)] {
            let keys = noise(n, mask);
            for wanted in [1, 2, 63, 300].into_iter().filter(|wanted| *wanted <= n) {
                let mut best: Vec<u64> = Vec::new();
                first(&keys, 0, wanted, &|k| k, &mut best);
                assert_eq!(best, ordered(&keys)[..wanted]);
            }
        }
    }

    #[test]
    fn partition_finds_what_a_sort_puts_in_the_middle() {
        let keys = noise(3000, 0x3ff);
        for part in [0..1, 5..9, 1499..1501, 2990..3000] {
            let mut pairs = ordered(&keys);
            pairs.reverse();
            middle(&mut pairs, &part);
            assert_eq!(pairs[part.clone()], ordered(&keys)[part]);
        }
    }
}
