//! Products that take less time than the preparation of their operands for the `gemm` crate: those
//! with a vector on one side, and those with a small matrix on the right.
//!
//! A product of `bf16` with a vector reads its operands as they are, and is one of `f32`.
//!
//! Guarantees the bits of the `gemm` crate's usual way, which is one fused multiply-add after the
//! other along the depth, from zero on. Depths of 1 and 2 begin with a product in the crate, and
//! processors without that instruction round twice: such products do not come here.
#![expect(unsafe_code, reason = "works on raw matrices with the processor's vectors")]

use bytemuck::Pod;
use half::bf16;

use super::{DEPTH, Float, Strided};

/// Rows or columns that are computed side by side: at most one vector of the widest kind.
const LANES: usize = 16;
/// Elements of a result with a vector that stay in the nearest cache while rows pass by.
const CHUNK: usize = 512;
/// The deepest right side that counts as small.
const DEEPEST: usize = 64;

/// Whether a product of this size is computed here.
///
/// The crate packs a right side whose columns lie side by side, and computes a whole vector of
/// columns even if there are few.
pub(super) fn takes<T>([m, n, k]: [usize; 3], rhs: &Strided<T>) -> bool {
    let widest = if rhs.row == 1 { LANES } else { LANES / 2 };
    let is_small = k <= DEEPEST && n <= widest;
    k > 2 && (m == 1 || n == 1 || is_small) && is_fused()
}

/// `out (+)= lhs * rhs`, if [`takes`] says so.
///
/// # Safety
/// As of [`multiply`](super::multiply), with `k` up to [`DEPTH`].
pub(super) unsafe fn product<S: Source<T>, T: Float>(
    size: [usize; 3],
    lhs: &Strided<S>,
    rhs: &Strided<S>,
    out: *mut T,
    out_row: isize,
    add: bool,
) {
    let work = Work { size, lhs, rhs, out, out_row, add };
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe { work.on_512() }
    } else {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe { work.on_256() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as the caller promises.
    unsafe {
        work.run();
    }
}

#[cfg(target_arch = "x86_64")]
fn is_fused() -> bool {
    is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_fused() -> bool {
    cfg!(target_arch = "aarch64")
}

/// One product.
struct Work<'a, S, T> {
    size: [usize; 3],
    lhs: &'a Strided<S>,
    rhs: &'a Strided<S>,
    out: *mut T,
    out_row: isize,
    add: bool,
}

/// What the matrices of a product of `T` hold.
pub(super) trait Source<T>: Pod {
    fn widened(self) -> T;
}

impl<T: Float> Source<T> for T {
    #[inline(always)]
    fn widened(self) -> T {
        self
    }
}

impl Source<f32> for bf16 {
    #[inline(always)]
    fn widened(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

/// A matrix times a vector.
struct Line<S, T> {
    /// Elements of the result, and of the vector.
    size: [usize; 2],
    matrix: Strided<S>,
    vector: *const S,
    apart: isize,
    out: *mut T,
    out_apart: isize,
    add: bool,
}

impl<S: Source<T>, T: Float> Work<'_, S, T> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
    unsafe fn on_512(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.run() }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn on_256(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.run() }
    }

    #[inline(always)]
    unsafe fn run(&self) {
        let [m, n, _] = self.size;
        if n == 1 || m == 1 {
            // SAFETY: as the caller promises.
            return unsafe { self.line().run() };
        }
        match n {
            // SAFETY: as the caller promises.
            ..=4 => unsafe { self.small::<4, 8>() },
            // SAFETY: as the caller promises.
            5..=8 => unsafe { self.small::<8, 8>() },
            // SAFETY: as the caller promises.
            _ => unsafe { self.small::<LANES, 4>() },
        }
    }

    /// The product with a vector, which is on the right or, where it is on the left, the right one
    /// of the transposed product.
    #[inline(always)]
    fn line(&self) -> Line<S, T> {
        let [m, n, k] = self.size;
        let (lhs, rhs, out, add) = (self.lhs, self.rhs, self.out, self.add);
        if n == 1 {
            let (size, matrix, out_apart) = ([m, k], Strided { ..*lhs }, self.out_row);
            let (vector, apart) = (rhs.at, rhs.row);
            Line { size, matrix, vector, apart, out, out_apart, add }
        } else {
            let matrix = Strided { at: rhs.at, row: rhs.column, column: rhs.row };
            let (vector, apart) = (lhs.at, lhs.column);
            Line { size: [n, k], matrix, vector, apart, out, out_apart: 1, add }
        }
    }

    /// `R` rows of the result at a time. A right side of `W` columns that lie side by side is read
    /// as it is. Any other is copied first, its columns side by side and filled up with zeros.
    #[inline(always)]
    unsafe fn small<const W: usize, const R: usize>(&self) {
        let [_, n, k] = self.size;
        if n == W && self.rhs.column == 1 {
            let line = |p: usize| {
                // SAFETY: the right side has this row, whose elements lie side by side.
                unsafe { self.rhs.element(p, 0).cast::<[S; W]>().read_unaligned() }.map(S::widened)
            };
            // SAFETY: as the caller promises.
            return unsafe { self.small_with::<W, R>(line) };
        }
        let mut right = [[T::zeroed(); W]; DEEPEST];
        for (p, line) in right[..k].iter_mut().enumerate() {
            for (j, to) in line[..n].iter_mut().enumerate() {
                // SAFETY: the right side has this element.
                *to = unsafe { self.rhs.element(p, j).read_unaligned() }.widened();
            }
        }
        // SAFETY: as the caller promises.
        unsafe { self.small_with::<W, R>(|p| right[p]) };
    }

    /// The product with a right side of which `line` gives a row.
    #[inline(always)]
    unsafe fn small_with<const W: usize, const R: usize>(&self, line: impl Fn(usize) -> [T; W]) {
        let m = self.size[0];
        let whole = m / R * R;
        for row in (0..whole).step_by(R) {
            // SAFETY: these rows exist.
            unsafe { self.rows::<W, R>(&line, row) };
        }
        for row in whole..m {
            // SAFETY: this row exists.
            unsafe { self.rows::<W, 1>(&line, row) };
        }
    }

    #[inline(always)]
    unsafe fn rows<const W: usize, const R: usize>(
        &self,
        line: &impl Fn(usize) -> [T; W],
        row: usize,
    ) {
        let mut sums = [[T::zeroed(); W]; R];
        let lines: [*const S; R] = std::array::from_fn(|r| self.lhs.element(row + r, 0));
        for p in 0..self.size[2] {
            let line = line(p);
            for r in 0..R {
                let at = lines[r].wrapping_offset(p as isize * self.lhs.column);
                // SAFETY: the row has this column.
                let x = unsafe { at.read_unaligned() }.widened();
                for j in 0..W {
                    sums[r][j] = x.times_plus(line[j], sums[r][j]);
                }
            }
        }
        let n = self.size[1];
        for (r, sums) in sums.iter().enumerate() {
            let to = self.out.wrapping_offset((row + r) as isize * self.out_row);
            if n == W && !self.add {
                // SAFETY: the result has these columns.
                unsafe { to.cast::<[T; W]>().write_unaligned(*sums) };
                continue;
            }
            for (j, sum) in sums[..n].iter().enumerate() {
                // SAFETY: the result has this element.
                unsafe { put(to.wrapping_add(j), *sum, self.add) };
            }
        }
    }
}

impl<S: Source<T>, T: Float> Line<S, T> {
    #[inline(always)]
    unsafe fn run(&self) {
        let [_, k] = self.size;
        let mut x = [T::zeroed(); DEPTH];
        for (p, to) in x[..k].iter_mut().enumerate() {
            let at = self.vector.wrapping_offset(p as isize * self.apart);
            // SAFETY: the vector has this element.
            *to = unsafe { at.read_unaligned() }.widened();
        }
        if self.matrix.row == 1 {
            // SAFETY: as the caller promises.
            unsafe { self.by_columns(&x[..k]) };
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.by_rows(&x[..k]) };
        }
    }

    /// The elements of a column lie side by side: all that fit into a cache get what four columns
    /// add to them, then what the next four do.
    #[inline(always)]
    unsafe fn by_columns(&self, x: &[T]) {
        let [m, _] = self.size;
        for first in (0..m).step_by(CHUNK) {
            let mut sums = [T::zeroed(); CHUNK];
            let sums = &mut sums[..CHUNK.min(m - first)];
            let whole = x.len() / 4 * 4;
            for p in (0..whole).step_by(4) {
                // SAFETY: the columns have these elements.
                unsafe { self.add_columns::<4>(x, first, p, sums) };
            }
            for p in whole..x.len() {
                // SAFETY: the column has these elements.
                unsafe { self.add_columns::<1>(x, first, p, sums) };
            }
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: the result has this element.
                unsafe { self.put(first + i, *sum) };
            }
        }
    }

    #[inline(always)]
    unsafe fn add_columns<const N: usize>(&self, x: &[T], first: usize, p: usize, sums: &mut [T]) {
        let at: [*const S; N] = std::array::from_fn(|c| self.matrix.element(first, p + c));
        let x: [T; N] = std::array::from_fn(|c| x[p + c]);
        for (i, sum) in sums.iter_mut().enumerate() {
            for c in 0..N {
                // SAFETY: the column has this element.
                let y = unsafe { at[c].wrapping_add(i).read_unaligned() }.widened();
                *sum = y.times_plus(x[c], *sum);
            }
        }
    }

    /// Sixteen rows at a time. Blocks of a row's elements that lie side by side are turned, so that
    /// each lane of a vector belongs to a row.
    #[inline(always)]
    unsafe fn by_rows(&self, x: &[T]) {
        let [m, _] = self.size;
        let whole = m / LANES * LANES;
        for row in (0..whole).step_by(LANES) {
            let mut sums = [T::zeroed(); LANES];
            let blocks = if self.matrix.column == 1 { x.len() / LANES } else { 0 };
            for block in 0..blocks {
                let p = block * LANES;
                // SAFETY: the rows have these elements.
                unsafe { self.add_block(row, p, &x[p..p + LANES], &mut sums) };
            }
            // SAFETY: the rows have these elements.
            unsafe { self.add_rows(row, blocks * LANES, x, &mut sums) };
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: the result has this element.
                unsafe { self.put(row + i, *sum) };
            }
        }
        let mut sums = [T::zeroed(); LANES];
        let sums = &mut sums[..m - whole];
        // SAFETY: these rows exist.
        unsafe { self.add_rows(whole, 0, x, sums) };
        for (i, sum) in sums.iter().enumerate() {
            // SAFETY: the result has this element.
            unsafe { self.put(whole + i, *sum) };
        }
    }

    #[inline(always)]
    unsafe fn add_block(&self, row: usize, p: usize, x: &[T], sums: &mut [T; LANES]) {
        let mut block = [[T::zeroed(); LANES]; LANES];
        for (r, line) in block.iter_mut().enumerate() {
            let at = self.matrix.element(row + r, p).cast::<[S; LANES]>();
            // SAFETY: the row has these elements side by side.
            *line = unsafe { at.read_unaligned() }.map(S::widened);
        }
        for (c, x) in x.iter().enumerate() {
            for r in 0..LANES {
                sums[r] = block[r][c].times_plus(*x, sums[r]);
            }
        }
    }

    #[inline(always)]
    unsafe fn add_rows(&self, row: usize, from: usize, x: &[T], sums: &mut [T]) {
        for (p, x) in x.iter().enumerate().skip(from) {
            for (r, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the row has this element.
                let y = unsafe { self.matrix.element(row + r, p).read_unaligned() }.widened();
                *sum = y.times_plus(*x, *sum);
            }
        }
    }

    #[inline(always)]
    unsafe fn put(&self, i: usize, sum: T) {
        // SAFETY: as the caller promises.
        unsafe { put(self.out.wrapping_offset(i as isize * self.out_apart), sum, self.add) };
    }
}

/// Puts a sum, or adds it to the element that is there.
#[inline(always)]
unsafe fn put<T: Float>(to: *mut T, sum: T, add: bool) {
    // SAFETY: as the caller promises.
    let sum = if add { unsafe { to.read_unaligned() }.plus(sum) } else { sum };
    // SAFETY: as the caller promises.
    unsafe { to.write_unaligned(sum) };
}

#[cfg(test)]
mod tests {
    use gt_ir::testing::Source;

    use super::{
        super::{any_strides, by_copies, multiply, multiply_vector},
        *,
    };

    /// Memory of a matrix, and the strides by which it lies there.
    struct Held {
        memory: Vec<f32>,
        strides: [isize; 2],
    }

    impl Held {
        fn random([rows, columns]: [usize; 2], source: &mut Source<'_>) -> Held {
            let strides = any_strides([rows, columns], source);
            let n = rows * strides[0] + columns * strides[1];
            let special = [0.0, -0.0, f32::INFINITY, f32::NAN, 1e-40, 3e38];
            let mut number = |_| match source.below(12) {
                n @ 0..6 if source.below(8) == 0 => special[n],
                _ => source.below(2001) as f32 / 7.0 - 140.0,
            };
            Held { memory: (0..n).map(&mut number).collect(), strides: strides.map(|n| n as isize) }
        }

        fn strided(&self) -> Strided<f32> {
            Strided { at: self.memory.as_ptr(), row: self.strides[0], column: self.strides[1] }
        }
    }

    #[test]
    fn bits_are_those_of_the_crate() {
        let mut source = Source::from_seed(11);
        let mut n_direct = 0;
        for _ in 0..4000 {
            let mut size = || [1, 1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 70][source.below(12)];
            let (size, k) = ([size(), size()], size());
            let ([m, n], k) = (size, if k == 70 { 20 + source.below(300) } else { k });
            let (lhs, rhs) = (Held::random([m, k], &mut source), Held::random([k, n], &mut source));
            let (a, b) = (lhs.strided(), rhs.strided());
            if !takes([m, n, k], &b) {
                continue;
            }
            n_direct += 1;
            let row = n + source.below(3);
            let add = source.below(2) == 1;
            let before: Vec<f32> = (0..m * row).map(|i| i as f32 - 5.0).collect();
            let (mut ours, mut theirs) = (before.clone(), before);
            let size = [m, n, k];
            // SAFETY: the operands have these rows and columns, and so have the results.
            unsafe { product(size, &a, &b, ours.as_mut_ptr(), row as isize, add) };
            // SAFETY: as above.
            unsafe { by_copies(size, &a, &b, theirs.as_mut_ptr(), row as isize, add) };
            let same =
                |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(
                ours.iter().zip(&theirs).all(same),
                "{size:?}, strides {:?} and {:?}: {ours:?} is not {theirs:?}",
                lhs.strides,
                rhs.strides
            );
        }
        assert!(n_direct > 500, "only {n_direct} products were computed directly");
    }

    /// Vectors and matrices of `bf16`, at depths around those of the parts of a sum.
    #[test]
    fn narrow_vectors_have_the_bits_of_widened_ones() {
        let mut source = Source::from_seed(12);
        for k in [1, 2, 3, 16, 40, 511, 512, 513, 514, 515, 1100] {
            for [m, n] in [[1, 1], [1, 37], [40, 1], [1, 600]] {
                let held = [[m, k], [k, n]].map(|size| Held::random(size, &mut source));
                let narrow = held
                    .each_ref()
                    .map(|of| of.memory.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<bf16>>());
                let wide =
                    narrow.each_ref().map(|of| of.iter().map(|x| x.to_f32()).collect::<Vec<f32>>());
                let (mut ours, mut theirs) = (vec![0.0; m * n], vec![0.0; m * n]);
                let row = n as isize;
                let [a, b] = [0, 1].map(|i| {
                    let [row, column] = held[i].strides;
                    Strided { at: narrow[i].as_ptr(), row, column }
                });
                // SAFETY: the operands have these rows and columns, and so have the results.
                unsafe { multiply_vector([m, n, k], &a, &b, ours.as_mut_ptr(), row) };
                let [a, b] = [0, 1].map(|i| {
                    let [row, column] = held[i].strides;
                    Strided { at: wide[i].as_ptr(), row, column }
                });
                // SAFETY: as above.
                unsafe { multiply([m, n, k], &a, &b, theirs.as_mut_ptr(), row) };
                let same =
                    |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(ours.iter().zip(&theirs).all(same), "{:?}", [m, n, k]);
            }
        }
    }
}
