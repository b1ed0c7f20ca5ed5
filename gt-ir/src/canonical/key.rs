//! The key of a segment and the hash it comes from: two independent streams of wide
//! multiplications, fed a word at a time.
//!
//! Keys of different segments differ unless 128 bits collide by chance. The hash is not
//! cryptographic: who searches for two segments with one key finds them.

use std::{fmt, hash::Hasher, str::FromStr};

use crate::op::FINGERPRINT;

/// What a canonical segment goes by. Prints as 32 hexadecimal digits.
///
/// ```
/// use gt_ir::canonical::Key;
/// let key = Key(0xabc);
/// assert_eq!(key.to_string().len(), 32);
/// assert_eq!(key.to_string().parse(), Ok(key));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

/// The state of a key in the making.
#[derive(Clone, Copy)]
pub(super) struct KeyHasher {
    a: u64,
    b: u64,
}

/// 2^64 over the golden ratio, odd: consecutive words are spread over the whole range.
const A: u64 = 0x9e37_79b9_7f4a_7c15;
/// The second prime of xxHash (Collet 2012), for a stream that is independent of the first.
const B: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// Both halves of the product, so that every bit of the word reaches every bit of the result.
const fn fold(word: u64, by: u64) -> u64 {
    let wide = word as u128 * by as u128;
    wide as u64 ^ (wide >> 64) as u64
}

impl KeyHasher {
    /// Keys of different op tables have nothing in common: their ops have other numbers.
    pub(super) const START: KeyHasher = KeyHasher { a: FINGERPRINT, b: !FINGERPRINT };

    /// Takes a word into both streams. The second rotates its state, so that exchanging two words
    /// changes it.
    #[inline]
    pub(super) const fn word(&mut self, word: u64) {
        self.a = fold(self.a ^ word, A);
        self.b = fold(self.b.rotate_left(23).wrapping_add(word), B);
    }

    /// Takes a text with its length before it: without it, `ab` then `c` would be `a` then `bc`.
    pub(super) fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        self.write(text.as_bytes());
    }

    /// The key of all words so far. Both streams enter both halves.
    pub(super) const fn key(self) -> Key {
        let high = fold(self.a ^ self.b.rotate_left(32), B);
        let low = fold(self.b ^ self.a, A);
        Key((high as u128) << 64 | low as u128)
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.key().0 as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.word(n.into());
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }

    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.word(n as u64);
    }

    #[inline]
    fn write_isize(&mut self, n: isize) {
        self.word(n as u64);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Key {
    type Err = ();
    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Key, ()> {
        let digits =
            text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        digits.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(Key).ok_or(())
    }
}
