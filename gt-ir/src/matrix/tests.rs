//! Each decomposition is multiplied together again, on random matrices and on awkward ones.

use super::*;
use crate::{
    attr::{Direction, Eigen, Extent, Spectrum, Triangle},
    dtype::DType,
    shape::Shape,
    splitmix::{GAMMA, mix},
};

fn random(n: usize, seed: u64) -> Vec<f64> {
    let bits = |i: u64| mix((seed << 32 | i).wrapping_mul(GAMMA)) >> 11;
    (0..n as u64).map(|i| bits(i) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

fn product(a: &[f64], b: &[f64], (m, k, n): (usize, usize, usize)) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            out[i * n + j] = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        }
    }
    out
}

fn transposed(rows: usize, columns: usize, a: &[f64]) -> Vec<f64> {
    (0..rows * columns).map(|at| a[at % rows * columns + at / rows]).collect()
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|at| if at / n == at % n { 1.0 } else { 0.0 }).collect()
}

fn close(a: &[f64], b: &[f64], tolerance: f64) {
    let scale = b.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
    assert_eq!(a.len(), b.len());
    let off = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off <= tolerance * scale, "{off}: {a:?} {b:?}");
}

fn compute(op: Op, operands: &[(&[f64], usize, usize)]) -> Vec<f64> {
    compute_in::<f64>(DType::F64, op, operands)
}

/// As [`compute`], in `f32`.
fn compute_narrow(op: Op, operands: &[(&[f64], usize, usize)]) -> Vec<f64> {
    compute_in::<f32>(DType::F32, op, operands)
}

fn compute_in<T: Number>(dtype: DType, op: Op, operands: &[(&[f64], usize, usize)]) -> Vec<f64> {
    let ty = |m: usize, n: usize| Type::new(dtype, Shape::new(&[m, n]).unwrap());
    let types: Vec<Type> = operands.iter().map(|(_, m, n)| ty(*m, *n)).collect();
    let seen: Vec<_> = types.iter().map(|ty| crate::op::OperandType::Tensor(*ty)).collect();
    let out = crate::op::infer(&op, &seen).unwrap();
    let problem = Problem::new(&op, &types, &out).unwrap();
    let narrow = |x: &[f64]| x.iter().map(|x| T::narrow(*x)).collect::<Vec<T>>();
    let owned: Vec<Vec<T>> = operands.iter().map(|x| narrow(x.0)).collect();
    let mut result = vec![T::zero(); problem.result()];
    problem.run(0, &owned.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut result);
    result.into_iter().map(T::widen).collect()
}

/// Random matrices, and such with equal rows, zeros, and large and small numbers.
fn matrices(m: usize, n: usize) -> Vec<Vec<f64>> {
    let plain = random(m * n, (m * 31 + n) as u64);
    let mut equal = plain.clone();
    for i in 0..m {
        (0..n).for_each(|j| equal[i * n + j] = plain[(i / 2 * 2) * n + j]);
    }
    let large = plain.iter().map(|x| x * 1e300).collect();
    let small = plain.iter().map(|x| x * 1e-300).collect();
    let mut graded = plain.clone();
    (0..m * n).for_each(|at| graded[at] *= libm::pow(10.0, -((at % n.max(1)) as f64)));
    let one = (0..m * n).map(|at| if at / n.max(1) == at % n.max(1) { 1.0 } else { 0.0 }).collect();
    vec![plain, equal, large, small, graded, vec![0.0; m * n], one]
}

const SIZES: [(usize, usize); 9] =
    [(0, 0), (1, 1), (2, 2), (5, 5), (20, 20), (7, 3), (3, 7), (4, 0), (0, 4)];

fn columns(packed: &[f64], width: usize, start: usize, n: usize) -> Vec<f64> {
    packed.chunks(width).flat_map(|row| row[start..start + n].to_vec()).collect()
}

fn is_orthonormal(rows: &[f64], n: usize) {
    let count = rows.len() / n.max(1);
    let square = product(rows, &transposed(count, n, rows), (count, n, count));
    close(&square, &identity(count), 1e-12);
}

#[test]
fn qr_is_a_product() {
    for ((m, n), extent) in
        SIZES.into_iter().flat_map(|s| [(s, Extent::Reduced), (s, Extent::Full)])
    {
        for a in matrices(m, n) {
            let packed = compute(Op::Qr(extent), &[(&a, m, n)]);
            if m == 0 {
                continue;
            }
            let k = packed.len() / (m + n);
            let (qt, r) = (columns(&packed, m + n, 0, m), columns(&packed, m + n, m, n));
            is_orthonormal(&qt, m);
            close(&product(&transposed(k, m, &qt), &r, (m, k, n)), &a, 1e-13);
            assert!((0..k).all(|i| (0..i.min(n)).all(|j| r[i * n + j] == 0.0)));
        }
    }
}

#[test]
fn svd_is_a_product() {
    for ((m, n), wanted) in
        SIZES.into_iter().flat_map(|s| [(s, Spectrum::Reduced), (s, Spectrum::Full)])
    {
        for a in matrices(m, n) {
            let packed = compute(Op::Svd(wanted), &[(&a, m, n)]);
            let (width, k) = (1 + m + n, m.min(n));
            let values = compute(Op::Svd(Spectrum::Values), &[(&a, m, n)]);
            close(&columns(&packed, width, 0, 1)[..k], &values, 1e-13);
            assert!(values.is_sorted_by(|a, b| a >= b) && values.iter().all(|s| *s >= 0.0));
            let (left, right) = (columns(&packed, width, 1, m), columns(&packed, width, 1 + m, n));
            let full = wanted == Spectrum::Full;
            let counts = if full { (m, n) } else { (k, k) };
            is_orthonormal(&left[..counts.0 * m], m);
            is_orthonormal(&right[..counts.1 * n], n);
            let mut scaled = right[..k * n].to_vec();
            (0..k * n).for_each(|at| scaled[at] *= values[at / n]);
            close(&product(&transposed(k, m, &left[..k * m]), &scaled, (m, k, n)), &a, 1e-13);
        }
    }
}

#[test]
fn eigh_is_a_product() {
    for n in [0, 1, 2, 3, 5, 20, 50] {
        for half in matrices(n, n) {
            let turned = transposed(n, n, &half);
            let a: Vec<f64> = half.iter().zip(&turned).map(|(a, b)| (a + b) / 2.0).collect();
            let packed = compute(Op::Eigh(Eigen::Vectors), &[(&a, n, n)]);
            let values = compute(Op::Eigh(Eigen::Values), &[(&a, n, n)]);
            close(&columns(&packed, n + 1, 0, 1), &values, 1e-13);
            assert!(values.is_sorted());
            let vt = columns(&packed, n + 1, 1, n);
            is_orthonormal(&vt, n);
            let mut scaled = vt.clone();
            (0..n * n).for_each(|at| scaled[at] *= values[at / n]);
            close(&product(&transposed(n, n, &vt), &scaled, (n, n, n)), &a, 1e-13);
        }
    }
}

#[test]
fn systems_are_solved() {
    for n in [0, 1, 2, 5, 16, 17, 30, 61] {
        let (a, x) = (random(n * n, 5), random(n * 3, 6));
        let b = product(&a, &x, (n, n, 3));
        close(&compute(Op::Solve, &[(&a, n, n), (&b, n, 3)]), &x, 1e-9);
        for (upper, unit) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut t = a.clone();
            for at in 0..n * n {
                let (i, j) = (at / n, at % n);
                let is_in = if upper { j > i } else { j < i };
                t[at] = if i == j { 2.0 + a[at] } else { t[at] * f64::from(u8::from(is_in)) / 4.0 };
                t[at] = if unit && i == j { 1.0 } else { t[at] };
            }
            let b = product(&t, &x, (n, n, 3));
            // What is outside the triangle is not read.
            for (at, x) in t.iter_mut().enumerate() {
                let (i, j) = (at / n, at % n);
                let out = if upper { j < i } else { j > i };
                *x = if out || unit && i == j { f64::NAN } else { *x };
            }
            let op = Op::TriangularSolve(Triangle { upper, unit });
            close(&compute(op, &[(&t, n, n), (&b, n, 3)]), &x, 1e-12);
        }
        let mut square = product(&a, &transposed(n, n, &a), (n, n, n));
        (0..n).for_each(|i| square[i * n + i] += 1.0);
        let l = compute(Op::Cholesky, &[(&square, n, n)]);
        close(&product(&l, &transposed(n, n, &l), (n, n, n)), &square, 1e-13);
    }
}

#[test]
fn determinants_have_signs() {
    let det = |a: &[f64], n: usize| compute(Op::Determinant, &[(a, n, n)]);
    assert_eq!(det(&[], 0), [1.0, 1.0, 0.0]);
    close(&det(&[1.0, 2.0, 3.0, 4.0], 2), &[-2.0, -1.0, libm::log(2.0)], 1e-15);
    assert_eq!(det(&[0.0, 1.0, 1.0, 0.0], 2), [-1.0, -1.0, 0.0]);
    assert_eq!(det(&[1.0, 2.0, 2.0, 4.0], 2), [0.0, 0.0, f64::NEG_INFINITY]);
    assert!(det(&[-0.0], 1)[0].is_sign_negative() && det(&[0.0], 1)[0].is_sign_positive());
    let huge = [1e200, 0.0, 0.0, 0.0, 1e200, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(det(&huge, 3), [0.0, 0.0, f64::NEG_INFINITY]);
    assert!(det(&[f64::NAN, 0.0, 0.0, 1.0], 2).iter().all(|x| x.is_nan()));
}

#[test]
fn determinants_of_singular_matrices_are_zero() {
    for n in [2, 16, 17, 40, 130] {
        for a in [vec![0.0; n * n], vec![1.0; n * n]] {
            let found = compute(Op::Determinant, &[(&a, n, n)]);
            assert_eq!(found, [0.0, 0.0, f64::NEG_INFINITY], "{n}");
        }
        let mut a = identity(n);
        a[n * n - 1] = f64::NAN;
        assert!(compute(Op::Determinant, &[(&a, n, n)]).iter().all(|x| x.is_nan()), "{n}");
        a[n * n - 1] = -3.0;
        close(&compute(Op::Determinant, &[(&a, n, n)]), &[-3.0, -1.0, libm::log(3.0)], 1e-15);
    }
}

#[test]
fn decompositions_in_f32_have_its_errors() {
    // Tall columns that differ little from each other, and sizes that are divided in two.
    let tall: Vec<f64> = (0..40_000)
        .map(|at| match at % 4 {
            0 => 1.0,
            1 => 2000.0 + (at / 4 % 21) as f64,
            _ => mix(at as u64) as f64 / u64::MAX as f64,
        })
        .collect();
    for (a, m, n) in [(tall.clone(), 10_000, 4), (random(150 * 150, 8), 150, 150)] {
        let packed = compute_narrow(Op::Qr(Extent::Reduced), &[(&a, m, n)]);
        let (qt, r) = (columns(&packed, m + n, 0, m), columns(&packed, m + n, m, n));
        close(&product(&transposed(n, m, &qt), &r, (m, n, n)), &a, 1e-5);
        for (a, m, n) in [(a.clone(), m, n), (transposed(m, n, &a), n, m)] {
            let (k, width) = (m.min(n), 1 + m + n);
            let packed = compute_narrow(Op::Svd(Spectrum::Reduced), &[(&a, m, n)]);
            let (values, left) = (columns(&packed, width, 0, 1), columns(&packed, width, 1, m));
            let mut right = columns(&packed, width, 1 + m, n);
            (0..k * n).for_each(|at| right[at] *= values[at / n]);
            close(&product(&transposed(k, m, &left), &right, (m, k, n)), &a, 1e-4);
        }
    }
    let (n, noise) = (150, random(150 * 150, 4));
    let square = product(&noise, &transposed(n, n, &noise), (n, n, n));
    let packed = compute_narrow(Op::Eigh(Eigen::Vectors), &[(&square, n, n)]);
    let (values, vectors) = (columns(&packed, n + 1, 0, 1), columns(&packed, n + 1, 1, n));
    let mut scaled = vectors.clone();
    (0..n * n).for_each(|at| scaled[at] *= values[at / n]);
    close(&product(&transposed(n, n, &vectors), &scaled, (n, n, n)), &square, 1e-4);
}

#[test]
fn upper_triangles_of_symmetric_matrices_are_not_read() {
    for n in [3, 16, 17, 130] {
        let mut a = identity(n);
        (0..n * n).filter(|at| at % n > at / n).for_each(|at| a[at] = f64::NAN);
        assert_eq!(compute(Op::Cholesky, &[(&a, n, n)]), identity(n));
        let values = compute(Op::Eigh(Eigen::Values), &[(&a, n, n)]);
        close(&values, &vec![1.0; n], 1e-14);
    }
}

#[test]
fn numbers_of_all_sizes_keep_their_digits() {
    let apart = [1e30, 0.0, 0.0, 1e-20];
    let packed = compute_narrow(Op::Qr(Extent::Reduced), &[(&apart, 2, 2)]);
    close(&[packed[3 + 4].abs() / 1e-20], &[1.0], 1e-6);
    for scale in [1e-38, 1e-25, 1.0, 1e25, 1e38] {
        let a = [3.0 * scale, 0.0, 4.0 * scale, 0.0].map(|x| x * 0.5);
        let values = compute_narrow(Op::Svd(Spectrum::Values), &[(&a, 2, 2)]);
        close(&[values[0] / scale, values[1]], &[2.5, 0.0], 1e-6);
    }
    // A quotient, not a product with the reciprocal, which an f32 has no room for.
    let triangle = [1.0, 0.0, 1e20, 1e-39];
    let op = Op::TriangularSolve(Triangle { upper: false, unit: false });
    let x = compute_narrow(op, &[(&triangle, 2, 2), (&[0.0, 1e-39], 2, 1)]);
    close(&x, &[0.0, 1.0], 1e-6);
}

#[test]
fn exponentials() {
    for scale in [1e-9, 0.1, 1.0, 3.0] {
        let n = 6;
        let a: Vec<f64> = random(n * n, 9).iter().map(|x| x * scale).collect();
        let (mut sum, mut term) = (identity(n), identity(n));
        for k in 1..120 {
            term = product(&term, &a, (n, n, n)).iter().map(|x| x / f64::from(k)).collect();
            sum.iter_mut().zip(&term).for_each(|(s, t)| *s += t);
        }
        close(&compute(Op::MatrixExp, &[(&a, n, n)]), &sum, 1e-13);
    }
}

#[test]
fn transforms_are_sums_of_turns() {
    let lengths = [1, 2, 3, 4, 5, 6, 12, 17, 60, 128, 251].into_iter();
    for (n, is_real) in lengths.flat_map(|n| [(n, false), (n, true)]) {
        let mut x = random(2 * n, n as u64);
        x.iter_mut().skip(1).step_by(2).filter(|_| is_real).for_each(|x| *x = 0.0);
        for direction in [Direction::Forward, Direction::Inverse] {
            let sign = if direction == Direction::Forward { -1.0 } else { 1.0 };
            let mut sums = vec![0.0; 2 * n];
            for (k, sum) in sums.chunks_exact_mut(2).enumerate() {
                for (j, number) in x.chunks_exact(2).enumerate() {
                    let angle = sign * std::f64::consts::TAU * ((j * k) % n) as f64 / n as f64;
                    let (sin, cos) = angle.sin_cos();
                    sum[0] += number[0] * cos - number[1] * sin;
                    sum[1] += number[0] * sin + number[1] * cos;
                }
            }
            close(&compute(Op::Fft(direction), &[(&x, n, 2)]), &sums, 1e-12);
            let ty = Type::new(DType::F32, Shape::new(&[n, 2]).unwrap());
            let (problem, mut out) =
                (Problem::new(&Op::Fft(direction), &[ty], &ty), vec![0.0; 2 * n]);
            let narrow: Vec<f32> = x.iter().map(|x| *x as f32).collect();
            problem.unwrap().run(0, &[&narrow], &mut out);
            close(&out.into_iter().map(f64::from).collect::<Vec<_>>(), &sums, 1e-6);
        }
    }
}

#[test]
fn no_contents_panic() {
    let awkward = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -0.0];
    for (m, n) in SIZES {
        let mut a = random(m * n, 3);
        for x in awkward {
            for at in 0..(m * n).min(4) {
                a[at] = x;
                compute(Op::Qr(Extent::Full), &[(&a, m, n)]);
                compute(Op::Svd(Spectrum::Full), &[(&a, m, n)]);
                if n == 2 {
                    compute(Op::Fft(Direction::Forward), &[(&a, m, n)]);
                }
                if m == n {
                    for op in [Op::Cholesky, Op::Determinant, Op::MatrixExp] {
                        compute(op, &[(&a, n, n)]);
                    }
                    compute(Op::Eigh(Eigen::Vectors), &[(&a, n, n)]);
                    compute(Op::Solve, &[(&a, n, n), (&a, n, n)]);
                }
            }
        }
    }
    let singular = [1.0, 2.0, 2.0, 4.0];
    for (op, a) in [
        (Op::Solve, &singular[..]),
        (Op::Cholesky, &[1.0, 2.0, 2.0, 1.0]),
        (Op::Eigh(Eigen::Values), &[1.0, 0.0, f64::NAN, 1.0]),
        (Op::Svd(Spectrum::Values), &[1.0, f64::INFINITY, 0.0, 1.0]),
    ] {
        let operands = [(a, 2, 2), (a, 2, 2)];
        let n = if op == Op::Solve { 2 } else { 1 };
        assert!(compute(op, &operands[..n]).iter().all(|x| x.is_nan()), "{op}");
    }
}

#[test]
fn svd_of_awkward_matrices_ends() {
    let n = 40;
    let (ones, powers) = (identity(n), |at: usize| libm::pow(10.0, -((at / n * 20) as f64)));
    let near: Vec<f64> = ones.iter().map(|x| x.max(1e-3)).collect();
    let noise = random(n * n, 3);
    let graded: Vec<f64> = (0..n * n).map(|at| noise[at] * powers(at)).collect();
    let turned = transposed(n, n, &graded);
    let lower: Vec<f64> =
        (0..n * n).map(|at| if at / n >= at % n { noise[at] } else { 0.0 }).collect();
    for a in [near, graded, turned, lower] {
        let packed = compute(Op::Svd(Spectrum::Reduced), &[(&a, n, n)]);
        let width = 1 + 2 * n;
        let values = columns(&packed, width, 0, 1);
        let (left, right) = (columns(&packed, width, 1, n), columns(&packed, width, 1 + n, n));
        is_orthonormal(&left, n);
        is_orthonormal(&right, n);
        let scaled: Vec<f64> = (0..n * n).map(|at| right[at] * values[at / n]).collect();
        close(&product(&transposed(n, n, &left), &scaled, (n, n, n)), &a, 1e-12);
    }
}

#[test]
fn problems_of_a_batch_are_told_apart() {
    let ty = |sizes: &[usize]| Type::new(DType::F32, Shape::new(sizes).unwrap());
    let types = [ty(&[3, 1, 1]), ty(&[3, 1, 2])];
    let problem = Problem::new(&Op::Solve, &types, &types[1]).unwrap();
    let (a, b) = ([1.0f32, 2.0, 4.0], [8.0f32, 16.0, 24.0, 32.0, 40.0, 48.0]);
    let mut out = [0.0; 4];
    problem.run(1, &[&a, &b], &mut out);
    assert_eq!(out, [12.0, 16.0, 10.0, 12.0]);
    assert_eq!(work(&Op::Solve, &types[..1], &types[1]), 3.0 * (1.0 + 2.0));
    // As many problems as there can be, and not one element.
    let empty = ty(&[1 << 47, 0, 0]);
    let problem = Problem::new(&Op::Cholesky, &[empty], &empty).unwrap();
    assert_eq!((problem.batch(), problem.result(), problem.scratch()), (1 << 47, 0, 0));
    problem.run::<f32>(0, &[&[]], &mut []);
}
