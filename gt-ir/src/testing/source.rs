//! Where a generator's choices come from: a seed, or the bytes a fuzzer hands over.

use crate::splitmix::{GAMMA, mix};

/// A stream of choices. From a seed it never ends; from bytes it ends in zeros, so that what is
/// built from it ends too.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    bytes: Option<&'a [u8]>,
    state: u64,
}

impl<'a> Source<'a> {
    /// An endless stream; equal seeds give equal streams on any machine.
    pub fn from_seed(seed: u64) -> Source<'static> {
        Source { bytes: None, state: seed }
    }

    /// The choices that `bytes` spell.
    pub fn from_bytes(bytes: &'a [u8]) -> Source<'a> {
        Source { bytes: Some(bytes), state: 0 }
    }

    /// Whether nothing but zeros will follow.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_some_and(<[u8]>::is_empty)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        match &mut self.bytes {
            None => self.split_mix(),
            Some(bytes) => (0..8).fold(0, |word, _| word << 8 | u64::from(take(bytes))),
        }
    }

    /// A number below `n`, or 0 when there is none. Small ranges cost a fuzzer one byte.
    pub fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        match &mut self.bytes {
            _ if n < 2 => 0,
            None => ((u128::from(self.split_mix()) * u128::from(n)) >> 64) as usize,
            Some(bytes) if n <= 256 => (u64::from(take(bytes)) % n) as usize,
            Some(_) => (self.bits() % n) as usize,
        }
    }

    /// True `times` times in `of`; false once the bytes are used up.
    pub fn chance(&mut self, times: usize, of: usize) -> bool {
        self.below(of) >= of - times
    }

    /// One of the items.
    pub fn pick<'t, T>(&mut self, items: &'t [T]) -> Option<&'t T> {
        items.get(self.below(items.len()))
    }

    fn split_mix(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }
}

fn take(bytes: &mut &[u8]) -> u8 {
    match bytes.split_first() {
        Some((first, rest)) => {
            *bytes = rest;
            *first
        }
        None => 0,
    }
}
