//! SplitMix64 (Steele, Lea and Flood, 2014): 64 random bits for each number of a sequence.
//!
//! For seeds, shuffles and tests. The random numbers of tensors are [`philox`](crate::philox)'s.

/// The step between two states: the golden ratio as a fraction of 2^64, made odd.
pub const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of a state, by the finalizer of SplitMix64: neighbors give unrelated numbers.
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the authors' program from the seed 1234567.
    #[test]
    fn the_sequence_is_the_published_one() {
        let outputs = (1..=3u64).map(|n| mix(1_234_567u64.wrapping_add(n.wrapping_mul(GAMMA))));
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(outputs.collect::<Vec<_>>(), published);
    }
}
