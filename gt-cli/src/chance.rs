//! Damage at random for tests: files that were cut, changed or mixed on their way. The same seed
//! gives the same damage.

use gt_ir::philox::philox4x32;

/// Numbers at random.
pub(crate) struct Chance {
    seed: u32,
    n: u32,
}

impl Chance {
    pub(crate) fn new(seed: u32) -> Chance {
        Chance { seed, n: 0 }
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.n += 1;
        let [word, ..] = philox4x32([self.n, 0, 0, 0], [self.seed, 0]);
        word as usize % n
    }

    /// Bytes with some damage: cut off, bits flipped, bytes replaced, or parts in another order.
    pub(crate) fn damaged(&mut self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len().max(1));
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (at % 8)),
                2 => {
                    let with = b"-\"{}[],:9e\n\xff\x00"[self.below(13)];
                    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = with);
                }
                3 => bytes.rotate_left(at),
                _ => {
                    let part = whole[self.below(whole.len())..].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        bytes
    }
}
