//! Random numbers by counter: Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011), keyed by an
//! instruction's seed, with the element's index in the whole tensor as counter.
//!
//! An element depends on the seed, its index and the dtype only, so any number of workers, any
//! engine and any retry gives the same bits. This is the only implementation: engines call [`fill`]
//! tile by tile. Normal numbers come from the Box-Muller transform with a logarithm and a sine made
//! of additions and multiplications in a fixed order.

use half::{bf16, f16};

use crate::dtype::DType;

/// The distribution of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform in [0, 1).
    Uniform,
    /// Standard normal.
    Normal,
    /// Uniform integers in [low, high); `low` where the range is empty.
    Integers {
        /// Smallest value.
        low: i64,
        /// One above the largest value.
        high: i64,
    },
}

const M0: u64 = 0xD251_1F53;
const M1: u64 = 0xCD9E_8D57;
const W0: u32 = 0x9E37_79B9;
const W1: u32 = 0xBB67_AE85;

/// Ten rounds over a 128-bit counter with a 64-bit key.
///
/// The constants are those of the paper; the example is the first known answer of its reference
/// implementation, Random123.
///
/// ```
/// use gt_ir::philox::philox4x32;
/// let known = [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
/// assert_eq!(philox4x32([0; 4], [0; 2]), known);
/// ```
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let (p0, p1) = (M0 * u64::from(a), M1 * u64::from(c));
        [a, b, c, d] =
            [(p1 >> 32) as u32 ^ b ^ k0, p1 as u32, (p0 >> 32) as u32 ^ d ^ k1, p0 as u32];
        (k0, k1) = (k0.wrapping_add(W0), k1.wrapping_add(W1));
    }
    [a, b, c, d]
}

/// Four words of one counter: the index is the counter, the seed the key.
fn block(seed: u64, index: u64) -> [u32; 4] {
    philox4x32([index as u32, (index >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32])
}

/// Fills `out` with elements `start..` of the stream `seed`, as native-endian elements of `dtype`.
/// Bytes short of a whole element are left alone. `bool` gets the parity of an integer.
///
/// ```
/// use gt_ir::{DType, philox::{Distribution, fill}};
/// let (mut all, mut rest) = ([0_u8; 16], [0_u8; 8]);
/// fill(Distribution::Uniform, DType::F32, 7, 0, &mut all);
/// fill(Distribution::Uniform, DType::F32, 7, 2, &mut rest);
/// assert_eq!(all[8..], rest); // an element depends on its seed and its index alone
/// ```
pub fn fill(distribution: Distribution, dtype: DType, seed: u64, start: u64, out: &mut [u8]) {
    match (distribution, dtype) {
        (Distribution::Integers { low, high }, dtype) => {
            integers(seed, start, low, high, dtype, out)
        }
        (Distribution::Uniform, DType::F32) => {
            groups(seed, start, out, uniforms, |v| v.to_ne_bytes());
        }
        (Distribution::Uniform, DType::F16) => {
            fours(seed, start, out, |w, i| f16::from_f64(uniform(w[i], 11)).to_ne_bytes())
        }
        (Distribution::Uniform, DType::Bf16) => {
            fours(seed, start, out, |w, i| bf16::from_f64(uniform(w[i], 8)).to_ne_bytes())
        }
        (Distribution::Uniform, DType::F64) => {
            twos(seed, start, out, |w, i| uniform64(word64(w, i)).to_ne_bytes())
        }
        (Distribution::Normal, DType::F32) => {
            groups(seed, start, out, normals, |v| v.to_ne_bytes());
        }
        (Distribution::Normal, DType::F16) => {
            groups(seed, start, out, normals, |v| f16::from_f32(v).to_ne_bytes());
        }
        (Distribution::Normal, DType::Bf16) => {
            groups(seed, start, out, normals, |v| bf16::from_f32(v).to_ne_bytes());
        }
        (Distribution::Normal, DType::F64) => {
            twos(seed, start, out, |w, i| normal64(w, i).to_ne_bytes())
        }
        // No row of the op table asks for it.
        (Distribution::Uniform | Distribution::Normal, _) => out.fill(0),
    }
}

/// Four elements a block.
fn fours<const N: usize>(
    seed: u64,
    start: u64,
    out: &mut [u8],
    f: impl Fn([u32; 4], usize) -> [u8; N],
) {
    blocks(seed, start, out, 4, f);
}

/// Two elements a block.
fn twos<const N: usize>(
    seed: u64,
    start: u64,
    out: &mut [u8],
    f: impl Fn([u32; 4], usize) -> [u8; N],
) {
    blocks(seed, start, out, 2, f);
}

/// Blocks that are computed side by side, which the compiler makes vectors of.
const SIDE: usize = 16;
/// The elements of that many blocks, four of each.
type Group = [[f32; 4]; SIDE];

/// Fills `out` with elements, four of each block, by groups of blocks. The blocks of a group that
/// lie outside of `out` are left out.
fn groups<const N: usize>(
    seed: u64,
    start: u64,
    out: &mut [u8],
    group: impl Fn([[u32; SIDE]; 4]) -> Group,
    element: impl Fn(f32) -> [u8; N],
) {
    let (mut index, mut skipped) = (start / 4, (start % 4) as usize);
    let mut rest = out;
    while rest.len() >= N {
        let made = group(blocks_beside(seed, index));
        let n = (4 * SIDE - skipped).min(rest.len() / N);
        let (here, after) = rest.split_at_mut(n * N);
        let values = made.as_flattened()[skipped..].iter();
        here.chunks_exact_mut(N).zip(values).for_each(|(to, v)| to.copy_from_slice(&element(*v)));
        (index, skipped, rest) = (index + SIDE as u64, 0, after);
    }
}

/// The words of the blocks from this index on.
fn blocks_beside(seed: u64, index: u64) -> [[u32; SIDE]; 4] {
    let at: [u64; SIDE] = std::array::from_fn(|i| index.wrapping_add(i as u64));
    let (mut a, mut b) = (at.map(|i| i as u32), at.map(|i| (i >> 32) as u32));
    let (mut c, mut d) = ([0; SIDE], [0; SIDE]);
    let (mut k0, mut k1) = (seed as u32, (seed >> 32) as u32);
    for _ in 0..10 {
        for i in 0..SIDE {
            let (p0, p1) = (M0 * u64::from(a[i]), M1 * u64::from(c[i]));
            (a[i], b[i]) = ((p1 >> 32) as u32 ^ b[i] ^ k0, p1 as u32);
            (c[i], d[i]) = ((p0 >> 32) as u32 ^ d[i] ^ k1, p0 as u32);
        }
        (k0, k1) = (k0.wrapping_add(W0), k1.wrapping_add(W1));
    }
    [a, b, c, d]
}

/// Uniform numbers: as [`uniform`] of 24 bits, which are exact in `f32`.
fn uniforms(words: [[u32; SIDE]; 4]) -> Group {
    std::array::from_fn(|i| words.map(|w| (w[i] >> 8) as i32 as f32 * (1.0 / 16_777_216.0)))
}

/// Normal numbers: of words 0 and 1, then of words 2 and 3.
fn normals([u0, v0, u1, v1]: [[u32; SIDE]; 4]) -> Group {
    let (mut first, mut second) = ([[0.0; 2]; SIDE], [[0.0; 2]; SIDE]);
    for i in 0..SIDE {
        first[i] = normal(u0[i], v0[i]);
    }
    for i in 0..SIDE {
        second[i] = normal(u1[i], v1[i]);
    }
    std::array::from_fn(|i| [first[i][0], first[i][1], second[i][0], second[i][1]])
}

/// Fills `out` with elements, `per` of each block. A block is computed once for all its elements,
/// even if `start` lies within it.
fn blocks<const N: usize>(
    seed: u64,
    start: u64,
    out: &mut [u8],
    per: u64,
    f: impl Fn([u32; 4], usize) -> [u8; N],
) {
    let mut words = block(seed, start / per);
    for (i, element) in out.chunks_exact_mut(N).enumerate() {
        let at = start + i as u64;
        if i > 0 && at.is_multiple_of(per) {
            words = block(seed, at / per);
        }
        element.copy_from_slice(&f(words, (at % per) as usize));
    }
}

/// The i-th pair of words as one.
fn word64(w: [u32; 4], i: usize) -> u64 {
    u64::from(w[2 * i]) << 32 | u64::from(w[2 * i + 1])
}

/// The top `bits` of a word as a fraction: exact in a dtype of that precision, and below 1.
fn uniform(word: u32, bits: u32) -> f64 {
    f64::from(word >> (32 - bits)) / f64::from(1_u32 << bits)
}

/// 53 random bits as a number in [0, 1).
fn uniform64(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

/// Two standard normal numbers of two words.
///
/// The logarithm takes (u + 1) / 2^24, which is never 0. Its largest radius is about 5.8, so that
/// is the farthest a number can be from 0.
fn normal(u: u32, v: u32) -> [f32; 2] {
    let radius = (-2.0 * log_f32(((u >> 8) + 1) as i32 as f32 * (1.0 / 16_777_216.0))).sqrt();
    let (sin, cos) = turn_f32(v);
    [radius * cos, radius * sin]
}

/// A standard normal number by the Box-Muller transform (1958).
fn normal64(w: [u32; 4], i: usize) -> f64 {
    let (u, v) = (uniform64(word64(w, 0)), uniform64(word64(w, 1)));
    let radius = (-2.0 * libm::log(1.0 - u)).sqrt();
    let angle = 2.0 * std::f64::consts::PI * v;
    radius * if i == 0 { libm::cos(angle) } else { libm::sin(angle) }
}

/// Natural logarithm of a normal positive float (Cephes `logf`).
fn log_f32(x: f32) -> f32 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 23) as i32 - 126;
    let mut m = f32::from_bits(bits & 0x007f_ffff | 0x3f00_0000);
    let small = m < std::f32::consts::FRAC_1_SQRT_2;
    exponent -= i32::from(small);
    m += if small { m } else { 0.0 };
    let x = m - 1.0;
    let z = x * x;
    const P: [f32; 9] = [
        7.037_683_6e-2,
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    let poly = P.iter().skip(1).fold(P[0], |p, c| p * x + c);
    let e = exponent as f32;
    let mut y = poly * x * z;
    y += e * -2.121_944_4e-4;
    y -= 0.5 * z;
    (x + y) + e * 0.693_359_4
}

/// Sine and cosine of a word taken as a fraction of a full turn (Cephes polynomials on an eighth to
/// each side).
fn turn_f32(word: u32) -> (f32, f32) {
    let quadrant = word >> 30;
    // The fraction of the quadrant, centered: 23 bits are exact in a float.
    let r = (((word << 2) >> 9) as i32 as f32 * (1.0 / 8_388_608.0) - 0.5)
        * std::f32::consts::FRAC_PI_2;
    let z = r * r;
    let sin = ((-1.951_529_6e-4 * z + 8.332_161e-3) * z - 1.666_665_5e-1) * z * r + r;
    let cos = ((2.443_315_7e-5 * z - 1.388_731_6e-3) * z + 4.166_664_6e-2) * z * z - 0.5 * z + 1.0;
    let (a, b) = if quadrant & 1 == 0 { (sin, cos) } else { (cos, sin) };
    // The second bit is the sign.
    let signed = |v: f32, bit: u32| f32::from_bits(v.to_bits() ^ bit << 30);
    (signed(a, quadrant & 2), signed(b, (quadrant + 1) & 2))
}

/// Integers in [low, high): a 64-bit word times the width, its high half.
fn integers(seed: u64, start: u64, low: i64, high: i64, dtype: DType, out: &mut [u8]) {
    let range = high.wrapping_sub(low) as u64;
    let range = if high > low { range } else { 1 };
    // The high half of a product maps 64 random bits to the range; the bias is below range / 2^64.
    let draw =
        move |w, i| low.wrapping_add(((u128::from(word64(w, i)) * u128::from(range)) >> 64) as i64);
    match dtype {
        DType::I64 => twos(seed, start, out, |w, i| draw(w, i).to_ne_bytes()),
        DType::I32 => twos(seed, start, out, |w, i| (draw(w, i) as i32).to_ne_bytes()),
        DType::U8 => twos(seed, start, out, |w, i| [draw(w, i) as u8]),
        DType::Bool => twos(seed, start, out, |w, i| [draw(w, i) as u8 & 1]),
        DType::F32 => twos(seed, start, out, |w, i| (draw(w, i) as f32).to_ne_bytes()),
        DType::F64 => twos(seed, start, out, |w, i| (draw(w, i) as f64).to_ne_bytes()),
        DType::F16 => twos(seed, start, out, |w, i| f16::from_f64(draw(w, i) as f64).to_ne_bytes()),
        DType::Bf16 => {
            twos(seed, start, out, |w, i| bf16::from_f64(draw(w, i) as f64).to_ne_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Element;

    /// Random123's known-answer vectors.
    #[test]
    fn known_answers() {
        let check = |c, k, want| assert_eq!(philox4x32(c, k), want);
        check([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        check([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        check(
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        );
    }

    #[test]
    fn tiles_join_to_the_whole() {
        for distribution in [
            Distribution::Uniform,
            Distribution::Normal,
            Distribution::Integers { low: -3, high: 90 },
        ] {
            for dtype in [DType::F32, DType::F64, DType::Bf16] {
                let mut whole = vec![0; 101 * dtype.size()];
                fill(distribution, dtype, 7, 0, &mut whole);
                for cut in [1, 2, 3, 50] {
                    let mut tail = vec![0; (101 - cut) * dtype.size()];
                    fill(distribution, dtype, 7, cut as u64, &mut tail);
                    assert_eq!(tail, whole[cut * dtype.size()..], "{distribution:?} {dtype} {cut}");
                }
            }
        }
    }

    fn moments(
        distribution: Distribution,
        dtype: DType,
        to: impl Fn(&[u8]) -> Vec<f64>,
    ) -> [f64; 4] {
        let mut bytes = vec![0; 100_000 * dtype.size()];
        fill(distribution, dtype, 42, 0, &mut bytes);
        let x = to(&bytes);
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let central = |k| x.iter().map(|v| (v - mean).powi(k)).sum::<f64>() / n;
        [mean, central(2), central(3), central(4)]
    }

    /// Beyond the ends of groups, with an index of more than 32 bits, from within a block.
    #[test]
    fn groups_have_the_words_of_their_blocks() {
        let (seed, start, n) = (0x1234_5678_9abc, 4 * 0xffff_fff0_u64 + 3, 301);
        let mut bytes = vec![0; 4 * n];
        fill(Distribution::Uniform, DType::F32, seed, start, &mut bytes);
        let word = |at: u64| block(seed, at / 4)[(at % 4) as usize];
        let want: Vec<f32> = (0..n as u64).map(|i| uniform(word(start + i), 24) as f32).collect();
        assert_eq!(f32::from_bytes(&bytes), want);
    }

    #[test]
    fn moments_are_right() {
        let close = |got: [f64; 4], want: [f64; 4]| {
            got.iter()
                .zip(want)
                .for_each(|(g, w)| assert!((g - w).abs() < 0.05, "{got:?} {want:?}"))
        };
        let f32s = |b: &[u8]| f32::from_bytes(b).into_iter().map(f64::from).collect::<Vec<_>>();
        close(moments(Distribution::Normal, DType::F32, f32s), [0.0, 1.0, 0.0, 3.0]);
        close(moments(Distribution::Normal, DType::F64, f64::from_bytes), [0.0, 1.0, 0.0, 3.0]);
        close(moments(Distribution::Uniform, DType::F32, f32s), [0.5, 1.0 / 12.0, 0.0, 1.0 / 80.0]);
    }

    #[test]
    fn normals_match_a_better_logarithm() {
        for w in (0..10_000).map(|i| block(1, i)) {
            let want = (-2.0 * ((f64::from(w[0] >> 8) + 1.0) / 16_777_216.0).ln()).sqrt()
                * (f64::from(w[1]) / 4_294_967_296.0 * std::f64::consts::TAU
                    - std::f64::consts::FRAC_PI_4)
                    .cos();
            assert!((f64::from(normal(w[0], w[1])[0]) - want).abs() < 3e-6, "{w:?}");
        }
    }
}
