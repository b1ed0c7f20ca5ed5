//! The lines of an operand, packed in pairs of terms.
//!
//! Lines whose terms lie side by side are turned by vectors, and lines that lie side by side are
//! joined; others are read one by one. Finds operands that the instruction takes for zero.
#![expect(unsafe_code, reason = "works on raw matrices with the processor's vectors")]

use std::{
    arch::x86_64::{
        __m256i, __m512, __m512bh, __m512i, _mm_loadu_si128, _mm256_and_si256,
        _mm256_cmplt_epu16_mask, _mm256_cvtepu16_epi32, _mm256_loadu_si256, _mm256_min_epu16,
        _mm256_or_si256, _mm256_permute2x128_si256, _mm256_rol_epi32, _mm256_set1_epi16,
        _mm256_setzero_si256, _mm256_slli_epi32, _mm256_storeu_si256, _mm256_sub_epi16,
        _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
        _mm512_and_si512, _mm512_cmplt_epu16_mask, _mm512_cvtepu16_epi32, _mm512_dpbf16_ps,
        _mm512_loadu_ps, _mm512_or_si512, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_slli_epi32,
        _mm512_storeu_ps, _mm512_sub_epi16,
    },
    mem::transmute,
};

use half::bf16;

use super::LANES;

/// Lines whose pairs are joined at a time, and pairs of a line that are turned with them.
const SIDE: usize = 8;
/// The bits of the largest number below 2^-126.
const LARGEST_TINY: i16 = 0x7F;

/// Two neighboring terms of a row or column, the earlier one in the upper half.
pub(super) type Pair = u32;

/// An operand below 2^-126 that is not zero.
pub(super) struct Tiny;

/// The rows of a left side, or the columns of a right side: a line's terms are `step` elements
/// apart, and lines `apart`.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub(super) at: *const bf16,
    pub(super) apart: isize,
    pub(super) step: isize,
    pub(super) n: usize,
}

impl Lines {
    pub(super) fn part(&self, line: usize, most: usize, term: usize) -> Lines {
        Lines { at: self.term(line, term), n: most.min(self.n - line), ..*self }
    }

    #[inline(always)]
    fn term(&self, line: usize, term: usize) -> *const bf16 {
        self.at.wrapping_offset(line as isize * self.apart + term as isize * self.step)
    }

    /// # Safety
    /// The term exists.
    #[inline(always)]
    unsafe fn bits(&self, line: usize, term: usize) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { self.term(line, term).cast::<u16>().read_unaligned() }.into()
    }

    /// A term in `f32`.
    ///
    /// # Safety
    /// The term exists.
    #[inline(always)]
    pub(super) unsafe fn widened(&self, line: usize, term: usize) -> f32 {
        // SAFETY: as the caller promises.
        f32::from_bits(unsafe { self.bits(line, term) } << 16)
    }

    /// Panels of `W` lines one after the other. A panel has `W` first pairs, then `W` second ones.
    /// Lines and terms that do not exist are zeros.
    ///
    /// # Safety
    /// The processor has the instruction. The lines have `depth` terms.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn pack<const W: usize>(
        &self,
        depth: usize,
        to: &mut Vec<Pair>,
    ) -> Result<(), Tiny> {
        let pairs = depth.div_ceil(2);
        to.resize(self.n.div_ceil(W) * pairs * W, 0);
        let panels = to.as_chunks_mut::<W>().0.chunks_exact_mut(pairs);
        for (first, panel) in (0..).step_by(W).zip(panels) {
            let lines = self.part(first, W, 0);
            if lines.n < W {
                panel.iter_mut().for_each(|to| to[lines.n..].fill(0));
            }
            // SAFETY: as the caller promises.
            unsafe { lines.pack_panel(depth, panel) }?;
        }
        Ok(())
    }

    /// # Safety
    /// As of [`pack`](Lines::pack), of at most `W` lines.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn pack_panel<const W: usize>(
        &self,
        depth: usize,
        panel: &mut [[Pair; W]],
    ) -> Result<(), Tiny> {
        // Vectors pack so many lines and pairs.
        let (lines, pairs) = match [self.apart, self.step] {
            [1, _] => (self.n / SIDE * SIDE, depth / 2),
            [_, 1] => (self.n / SIDE * SIDE, depth / (2 * SIDE) * SIDE),
            _ => (0, 0),
        };
        let mut least = _mm256_set1_epi16(-1);
        for p in (0..pairs).filter(|_| self.apart == 1) {
            for line in (0..lines).step_by(SIDE) {
                // SAFETY: the lines lie side by side and have these terms.
                unsafe { self.join(line, 2 * p, &mut panel[p], &mut least) };
            }
        }
        for line in (0..lines).step_by(SIDE).filter(|_| self.apart != 1) {
            for p in (0..pairs).step_by(SIDE) {
                // SAFETY: the lines have these terms, side by side.
                unsafe { self.turn(line, 2 * p, &mut panel[p..p + SIDE], &mut least) };
            }
        }
        let mut tiny = _mm256_cmplt_epu16_mask(least, _mm256_set1_epi16(LARGEST_TINY)) != 0;
        for (p, to) in panel.iter_mut().enumerate() {
            let first = if p < pairs { lines } else { 0 };
            for (line, pair) in to[..self.n].iter_mut().enumerate().skip(first) {
                // SAFETY: the line has this term.
                *pair = unsafe { self.bits(line, 2 * p) } << 16;
                if 2 * p + 1 < depth {
                    // SAFETY: the line has this term.
                    *pair |= unsafe { self.bits(line, 2 * p + 1) };
                }
                tiny |= is_tiny(*pair >> 16) || is_tiny(*pair & 0xFFFF);
            }
        }
        if tiny { Err(Tiny) } else { Ok(()) }
    }

    /// A pair of [`SIDE`] lines that lie side by side.
    ///
    /// # Safety
    /// The processor has the instruction. There are so many lines, with these two terms.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn join<const W: usize>(
        &self,
        line: usize,
        term: usize,
        to: &mut [Pair; W],
        least: &mut __m256i,
    ) {
        let at = [self.term(line, term), self.term(line, term + 1)];
        // SAFETY: the lines have this term.
        let earlier = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(at[0].cast()) });
        // SAFETY: as above.
        let later = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(at[1].cast()) });
        store(_mm256_or_si256(_mm256_slli_epi32::<16>(earlier), later), to, line, least);
    }

    /// Turns [`SIDE`] pairs of as many lines, from a line and a term on, whose terms lie side by
    /// side.
    ///
    /// # Safety
    /// The processor has the instruction. There are so many lines, with these terms.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn turn<const W: usize>(
        &self,
        line: usize,
        term: usize,
        to: &mut [[Pair; W]],
        least: &mut __m256i,
    ) {
        let mut lines = [_mm256_setzero_si256(); SIDE];
        for (i, pairs) in lines.iter_mut().enumerate() {
            // SAFETY: the line has these terms.
            let read = unsafe { _mm256_loadu_si256(self.term(line + i, term).cast()) };
            *pairs = _mm256_rol_epi32::<16>(read);
        }
        for (to, pairs) in to.iter_mut().zip(turned(lines)) {
            store(pairs, to, line, least);
        }
    }

    /// Adds `N` pairs of lines that lie side by side, from a pair on, times those of `x`. Whether
    /// an element is tiny.
    ///
    /// # Safety
    /// The processor has the instruction. There is a line for each sum, with so many terms. They
    /// are whole vectors.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn add_to<const N: usize>(
        &self,
        x: &[Pair],
        p: usize,
        depth: usize,
        sums: &mut [f32],
    ) -> bool {
        let mut tiny = 0;
        for (line, sums) in (0..).step_by(LANES).zip(sums.as_chunks_mut::<LANES>().0) {
            // SAFETY: the array has the size of the vector.
            let mut sum = unsafe { _mm512_loadu_ps(sums.as_ptr()) };
            for (p, x) in (p..).zip(&x[p..p + N]) {
                // SAFETY: the lines have this term.
                let earlier = unsafe { _mm256_loadu_si256(self.term(line, 2 * p).cast()) };
                let later = match 2 * p + 1 < depth {
                    // SAFETY: the lines have this term.
                    true => unsafe { _mm256_loadu_si256(self.term(line, 2 * p + 1).cast()) },
                    false => _mm256_setzero_si256(),
                };
                let earlier = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(earlier));
                let y = _mm512_or_si512(earlier, _mm512_cvtepu16_epi32(later));
                sum = add(sum, _mm512_set1_epi32(x.cast_signed()), y);
                let sizes = _mm512_and_si512(y, _mm512_set1_epi16(0x7FFF));
                let less_one = _mm512_sub_epi16(sizes, _mm512_set1_epi16(1));
                tiny |= _mm512_cmplt_epu16_mask(less_one, _mm512_set1_epi16(LARGEST_TINY));
            }
            // SAFETY: the array has the size of the vector.
            unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
        }
        tiny != 0
    }
}

/// Whether the bits are those of a number that the instruction takes for zero and is none.
fn is_tiny(bits: u32) -> bool {
    (1..=u32::from(LARGEST_TINY.cast_unsigned())).contains(&(bits & 0x7FFF))
}

/// A sum and the products of two pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn add(sum: __m512, x: __m512i, y: __m512i) -> __m512 {
    // SAFETY: any bits are a vector of `bf16`.
    let [x, y]: [__m512bh; 2] = unsafe { transmute([x, y]) };
    _mm512_dpbf16_ps(sum, x, y)
}

/// Puts the pairs of [`SIDE`] lines among those of a panel. Keeps the least size of an element in
/// each lane, less one: zeros, which are not tiny, are the largest then.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn store<const W: usize>(pairs: __m256i, to: &mut [Pair; W], line: usize, least: &mut __m256i) {
    let to = &mut to[line..line + SIDE];
    // SAFETY: the slice has the size of the vector.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), pairs) };
    let sizes = _mm256_and_si256(pairs, _mm256_set1_epi16(0x7FFF));
    *least = _mm256_min_epu16(*least, _mm256_sub_epi16(sizes, _mm256_set1_epi16(1)));
}

/// The transposed matrix of eight rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn turned(rows: [__m256i; 8]) -> [__m256i; 8] {
    let mut twos = rows;
    for i in [0, 2, 4, 6] {
        twos[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
        twos[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    let mut fours = twos;
    for i in [0, 1, 4, 5] {
        // Columns 2i and 2i + 1 of four rows, in each half of the vectors.
        let at = i / 4 * 4 + i % 4 * 2;
        fours[at] = _mm256_unpacklo_epi64(twos[i], twos[i + 2]);
        fours[at + 1] = _mm256_unpackhi_epi64(twos[i], twos[i + 2]);
    }
    let mut all = fours;
    for i in 0..4 {
        all[i] = _mm256_permute2x128_si256::<0x20>(fours[i], fours[i + 4]);
        all[i + 4] = _mm256_permute2x128_si256::<0x31>(fours[i], fours[i + 4]);
    }
    all
}
