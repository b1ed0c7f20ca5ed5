//! What is done to whole rows, in the widest vectors that the processor has.
//!
//! Guarantees: the same operations in the same order on every processor, so the same bits: products
//! are rounded before they are added, and a sum has eight parts whatever the vectors' width.

use pulp::Arch;

/// Elements from which on wide vectors pay for the choice among them.
const LONG: usize = 24;
/// The parts of a sum.
const PARTS: usize = 8;

/// Runs `work` in code for this processor's vectors if it walks along so many elements.
#[inline(always)]
fn widely<R>(elements: usize, work: impl FnOnce() -> R) -> R {
    if elements < LONG { work() } else { Arch::new().dispatch(work) }
}

/// The sum of the products of elements.
pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
    widely(x.len(), || sum_of_products(x, y))
}

#[inline(always)]
fn sum_of_products(x: &[f64], y: &[f64]) -> f64 {
    let (x8, x) = groups(x, y.len());
    let (y8, y) = groups(y, x8.len() + x.len());
    let mut sums = [0.0; PARTS];
    for (x, y) in x8.chunks_exact(PARTS).zip(y8.chunks_exact(PARTS)) {
        for i in 0..PARTS {
            sums[i] += x[i] * y[i];
        }
    }
    let rest: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
    let [a, b, c, d, e, f, g, h] = sums;
    (((a + e) + (c + g)) + ((b + f) + (d + h))) + rest
}

/// Whole groups of the first elements, of which `other` has as many, and the rest.
#[inline(always)]
fn groups(x: &[f64], other: usize) -> (&[f64], &[f64]) {
    let x = &x[..x.len().min(other)];
    x.split_at(x.len() / PARTS * PARTS)
}

/// `y += factor x`.
pub(super) fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    widely(y.len(), || y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x));
}

/// `y += factors[0] rows[0] + factors[1] rows[1] + ..`, from the first on. Rows begin `stride`
/// elements after each other and are as long as `y`.
pub(super) fn add_rows(y: &mut [f64], factors: &[f64], rows: &[f64], stride: usize) {
    widely(y.len(), || {
        let done = add_groups::<8>(y, factors, 0, rows, stride);
        let done = add_groups::<2>(y, factors, done, rows, stride);
        add_groups::<1>(y, factors, done, rows, stride);
    });
}

/// As [`add_rows`], from row `done` on in whole groups of `N`, which are added while an element is
/// in a register. Returns the number of rows that are done.
#[inline(always)]
fn add_groups<const N: usize>(
    y: &mut [f64],
    factors: &[f64],
    mut done: usize,
    rows: &[f64],
    stride: usize,
) -> usize {
    let (groups, _) = factors[done..].as_chunks::<N>();
    for factors in groups {
        let group: [&[f64]; N] = std::array::from_fn(|i| &rows[(done + i) * stride..][..y.len()]);
        for (i, y) in y.iter_mut().enumerate() {
            *y = factors.iter().zip(&group).fold(*y, |sum, (factor, row)| sum + factor * row[i]);
        }
        done += N;
    }
    done
}

/// Rotates two rows into each other.
pub(super) fn rotate(x: &mut [f64], y: &mut [f64], cosine: f64, sine: f64) {
    widely(x.len(), || {
        for (x, y) in x.iter_mut().zip(y) {
            (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize, seed: u64) -> Vec<f64> {
        let bits = |i: u64| (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) >> 12;
        (0..n as u64).map(|i| bits(i) as f64 / (1u64 << 51) as f64 - 1.0).collect()
    }

    #[test]
    fn vectors_of_any_width_have_the_bits_of_plain_loops() {
        for n in [0, 1, 7, 8, 23, 24, 25, 64, 100, 513] {
            let (x, y) = (noise(n, 1), noise(n, 999));
            assert_eq!(dot(&x, &y).to_bits(), sum_of_products(&x, &y).to_bits());
            for n_rows in [0, 1, 3, 8, 9, 20] {
                let stride = n + 3;
                let (rows, factors) = (noise(n_rows * stride, 5), noise(n_rows, 70));
                let (mut together, mut apart) = (y.clone(), y.clone());
                // The last row ends where the memory does.
                let rows = rows.get(3..).unwrap_or_default();
                add_rows(&mut together, &factors, rows, stride);
                for (factor, row) in factors.iter().zip(rows.chunks(stride)) {
                    apart.iter_mut().zip(row).for_each(|(y, x)| *y += factor * x);
                }
                assert_eq!(together, apart);
            }
            let (mut turned, mut other) = (x.clone(), y.clone());
            rotate(&mut turned, &mut other, 0.6, 0.8);
            for i in 0..n {
                assert_eq!(turned[i], 0.6 * x[i] - 0.8 * y[i]);
                assert_eq!(other[i], 0.8 * x[i] + 0.6 * y[i]);
            }
        }
    }
}
