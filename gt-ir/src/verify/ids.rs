//! The hash of value numbers: the verifier looks one up for every operand of every instruction.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::LazyLock,
};

/// Hashes value numbers by one wide multiplication under a key drawn once a process, so that a peer
/// cannot choose numbers that collide.
#[derive(Clone, Copy, Debug)]
pub struct IdHash(u64);

impl Default for IdHash {
    fn default() -> IdHash {
        static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0_u64));
        IdHash(*KEY)
    }
}

impl BuildHasher for IdHash {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

/// The state of [`IdHash`].
#[derive(Debug)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, id: u64) {
        let wide = u128::from(self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}
