//! Gradient cases of linear algebra, on matrices that are far from singular and have no equal
//! values in their spectra.

use super::{Case, Domain, DynTensor, case};
use crate::DType;
use crate::fft;
use crate::linalg::{self, MatrixNorm, Triangular};

type Function = fn(&DynTensor) -> DynTensor;

/// Signals of complex numbers.
pub(super) fn transforms() -> Vec<Case> {
    let each: [(&str, Function); 4] = [
        ("fft", fft::fft),
        ("ifft", fft::ifft),
        ("irfft", fft::irfft),
        ("rfft", |x| fft::rfft(&x.flatten(-2, -1))),
    ];
    let of = |(name, f): (&'static str, Function)| {
        case(name, &[(&[2, 3, 2], Domain::Any)], move |x| f(&x[0]))
    };
    each.into_iter().map(of).collect()
}

fn unit(n: usize) -> DynTensor {
    DynTensor::eye(n, DType::F64)
}

/// Close to a multiple of the unit matrix.
fn regular(x: &DynTensor) -> DynTensor {
    x * 0.4 + unit(x.size(-1)) * 3.0
}

/// Symmetric, with different eigenvalues that are positive.
fn symmetric(x: &DynTensor) -> DynTensor {
    let n = x.size(-1);
    let diagonal = DynTensor::arange(0, n as i64, 1, DType::F64) * 2.0 + 4.0;
    (x + x.transpose(-2, -1)) * 0.2 + unit(n) * diagonal
}

/// Any matrix with different singular values.
fn spread(x: &DynTensor) -> DynTensor {
    let (m, n) = (x.size(-2), x.size(-1));
    let numbers: Vec<f64> = (0..m * n)
        .map(|at| if at / n == at % n { 2.0 + 2.0 * (at / n) as f64 } else { 0.0 })
        .collect();
    x * 0.3 + DynTensor::from_vec(numbers, [m, n])
}

fn joined(parts: [DynTensor; 2]) -> DynTensor {
    let flat = |x: &DynTensor| x.reshape([x.numel()]);
    DynTensor::cat([flat(&parts[0]), flat(&parts[1])], 0)
}

pub(super) fn cases() -> Vec<Case> {
    let square: &[(&str, Function)] = &[
        ("cholesky", |x| linalg::cholesky(&symmetric(x))),
        ("inv", |x| linalg::inv(&regular(x))),
        ("det", |x| linalg::det(&regular(x))),
        ("slogdet", |x| linalg::slogdet(&regular(x)).1),
        ("eigh values", |x| linalg::eigh(&symmetric(x)).0),
        ("eigvalsh", |x| linalg::eigvalsh(&symmetric(x))),
        ("eigh vectors", |x| linalg::eigh(&symmetric(x)).1),
        ("matrix_exp", |x| linalg::matrix_exp(&(x * 0.5))),
        ("matrix_power", |x| linalg::matrix_power(&(x * 0.5), 5)),
        ("matrix_power, negative", |x| linalg::matrix_power(&regular(x), -3)),
        ("svd_full", |x| joined([linalg::svd_full(&spread(x)).0, linalg::svd_full(&spread(x)).2])),
    ];
    let any: &[(&str, Function)] = &[
        ("qr", |x| joined(linalg::qr(&spread(x)).into())),
        ("svdvals", |x| linalg::svdvals(&spread(x))),
        ("svd, left", |x| linalg::svd(&spread(x)).0),
        ("svd, values", |x| linalg::svd(&spread(x)).1),
        ("svd, right", |x| linalg::svd(&spread(x)).2),
        ("pinv", |x| linalg::pinv(&spread(x))),
        ("norm", |x| linalg::matrix_norm(&spread(x), MatrixNorm::Frobenius)),
        ("nuclear norm", |x| linalg::matrix_norm(&spread(x), MatrixNorm::Nuclear)),
        ("1-norm", |x| linalg::matrix_norm(&spread(x), MatrixNorm::L1)),
        ("inf-norm", |x| linalg::matrix_norm(&spread(x), MatrixNorm::Inf)),
        ("2-norm", |x| linalg::matrix_norm(&spread(x), MatrixNorm::L2)),
        ("cond", |x| linalg::cond(&spread(x))),
    ];
    let mut cases = Vec::new();
    for &(name, f) in square {
        for shape in [&[3, 3][..], &[2, 2, 2]] {
            cases.push(case(format!("{name} {shape:?}"), &[(shape, Domain::Any)], move |x| {
                f(&x[0])
            }));
        }
    }
    for &(name, f) in any {
        for shape in [&[3, 3][..], &[4, 2], &[2, 2, 3]] {
            cases.push(case(format!("{name} {shape:?}"), &[(shape, Domain::Any)], move |x| {
                f(&x[0])
            }));
        }
    }
    let systems: [&[(&[usize], Domain)]; 3] = [
        &[(&[3, 3], Domain::Any), (&[3, 2], Domain::Any)],
        &[(&[2, 1, 2, 2], Domain::Any), (&[3, 2, 1], Domain::Any)],
        &[(&[2, 2], Domain::Any), (&[2], Domain::Any)],
    ];
    for inputs in systems {
        cases.push(case("solve", inputs, |x| linalg::solve(&regular(&x[0]), &x[1])));
    }
    for inputs in &systems[..2] {
        for triangle in
            [Triangular::Lower, Triangular::Upper, Triangular::UnitLower, Triangular::UnitUpper]
        {
            cases.push(case(format!("solve_triangular {triangle:?}"), inputs, move |x| {
                linalg::solve_triangular(&regular(&x[0]), &x[1], triangle)
            }));
            cases.push(case(format!("cholesky_solve {triangle:?}"), inputs, move |x| {
                linalg::cholesky_solve(&x[1], &regular(&x[0]), triangle)
            }));
        }
    }
    let tall: [(&[usize], Domain); 2] = [(&[4, 2], Domain::Any), (&[4, 3], Domain::Any)];
    cases.push(case("lstsq", &tall, |x| linalg::lstsq(&spread(&x[0]), &x[1])));
    let wide: [(&[usize], Domain); 2] = [(&[2, 4], Domain::Any), (&[2], Domain::Any)];
    cases.push(case("lstsq, wide", &wide, |x| linalg::lstsq(&spread(&x[0]), &x[1])));
    cases.push(case("qr_complete", &[(&[2, 3], Domain::Any)], |x| {
        joined(linalg::qr_complete(&spread(&x[0])).into())
    }));
    cases
}
