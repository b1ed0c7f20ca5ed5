//! Quantized numbers: blocks of small integers with common scales, as `ggml` lays them out.

use half::f16;

/// A kind of quantized numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quant {
    /// 32 numbers of 4 bits, a scale.
    Q4_0,
    /// 32 numbers of 8 bits, a scale.
    Q8_0,
    /// 256 numbers of 4 bits; for each 32 a scale and a smallest number, of 6 bits.
    Q4K,
    /// 256 numbers of 6 bits; for each 16 a scale, of 8 bits.
    Q6K,
}

impl Quant {
    /// The numbers of a block, and its bytes.
    pub(super) const fn block(self) -> (usize, usize) {
        match self {
            Quant::Q4_0 => (32, 18),
            Quant::Q8_0 => (32, 34),
            Quant::Q4K => (256, 144),
            Quant::Q6K => (256, 210),
        }
    }

    /// The numbers of a group, which have a common scale; a block is some groups.
    pub(super) const fn group(self) -> usize {
        match self {
            Quant::Q4_0 | Quant::Q8_0 | Quant::Q4K => 32,
            Quant::Q6K => 16,
        }
    }

    /// The integer that stands for 0.
    pub(super) const fn zero(self) -> u8 {
        match self {
            Quant::Q4_0 => 8,
            Quant::Q8_0 => 128,
            Quant::Q4K => 0,
            Quant::Q6K => 32,
        }
    }

    /// Whether an integer is less than 16.
    pub(super) const fn has_four_bits(self) -> bool {
        matches!(self, Quant::Q4_0 | Quant::Q4K)
    }

    /// The integers and scales of whole blocks, in order.
    pub(super) fn unpack(self, bytes: &[u8]) -> Groups {
        let one = match self {
            Quant::Q4_0 => q4_0,
            Quant::Q8_0 => q8_0,
            Quant::Q4K => q4_k,
            Quant::Q6K => q6_k,
        };
        let mut all = Groups::default();
        for block in bytes.chunks_exact(self.block().1) {
            one(block, &mut all);
        }
        all
    }

    /// The numbers of whole blocks, in order.
    pub(super) fn dequantize(self, bytes: &[u8]) -> impl Iterator<Item = f32> {
        let Groups { numbers, scales, minima } = self.unpack(bytes);
        let (group, zero) = (self.group(), f32::from(self.zero()));
        numbers.into_iter().enumerate().map(move |(i, q)| {
            let number = scales[i / group] * (f32::from(q) - zero);
            minima.get(i / group).map_or(number, |minimum| number - minimum)
        })
    }
}

/// Integers of groups: a number is `scale * (q - zero) - minimum`.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) numbers: Vec<u8>,
    /// Of each group.
    pub(super) scales: Vec<f32>,
    /// Of each group, or none.
    pub(super) minima: Vec<f32>,
}

/// A scale: two bytes at this place.
fn scale(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Integers with a sign, moved by 128.
fn q8_0(block: &[u8], all: &mut Groups) {
    all.scales.push(scale(block, 0));
    all.numbers.extend(block[2..].iter().map(|q| q ^ 128));
}

/// The low halves of the bytes come first, then the high ones.
fn q4_0(block: &[u8], all: &mut Groups) {
    all.scales.push(scale(block, 0));
    all.numbers.extend(block[2..].iter().map(|q| q & 15));
    all.numbers.extend(block[2..].iter().map(|q| q >> 4));
}

fn q4_k(block: &[u8], all: &mut Groups) {
    let (d, least) = (scale(block, 0), scale(block, 2));
    let (scales, quants) = block[4..].split_at(12);
    for (i, quants) in quants.chunks_exact(32).enumerate() {
        for (part, shift) in [(2 * i, 0), (2 * i + 1, 4)] {
            let (factor, minimum) = scale_and_minimum(scales, part);
            all.scales.push(d * f32::from(factor));
            all.minima.push(least * f32::from(minimum));
            all.numbers.extend(quants.iter().map(|q| q >> shift & 15));
        }
    }
}

/// Scale and smallest number of a part of a block of `Q4_K`: eight of 6 bits each in 12 bytes.
fn scale_and_minimum(scales: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        return (scales[part] & 63, scales[part + 4] & 63);
    }
    let low = scales[part + 4];
    (low & 15 | scales[part - 4] >> 6 << 4, low >> 4 | scales[part] >> 6 << 4)
}

/// Each half of a block has 64 bytes of low bits, 32 of high ones, and 8 scales.
fn q6_k(block: &[u8], all: &mut Groups) {
    let d = scale(block, 208);
    for half in 0..2 {
        let low = &block[64 * half..][..64];
        let high = &block[128 + 32 * half..][..32];
        let scales = &block[192 + 8 * half..][..8];
        all.scales.extend(scales.iter().map(|factor| d * f32::from(factor.cast_signed())));
        for quarter in 0..4 {
            let (from, shift) = (32 * (quarter % 2), 4 * (quarter / 2));
            let bits = |i: usize| low[from + i] >> shift & 15 | (high[i] >> (2 * quarter) & 3) << 4;
            all.numbers.extend((0..32).map(bits));
        }
    }
}
