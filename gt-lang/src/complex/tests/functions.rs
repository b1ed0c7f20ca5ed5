//! Functions of one number, powers, reductions, products of matrices and transforms.

use super::*;
use crate::fft::{self, Options, Stft};

type Named = (&'static str, fn(&ComplexTensor) -> ComplexTensor, fn(C) -> C);

const FUNCTIONS: [Named; 13] = [
    ("exp", ComplexTensor::exp, |z| z.exp()),
    ("log", ComplexTensor::log, |z| z.ln()),
    ("sin", ComplexTensor::sin, |z| z.sin()),
    ("cos", ComplexTensor::cos, |z| z.cos()),
    ("sinh", ComplexTensor::sinh, |z| z.sinh()),
    ("cosh", ComplexTensor::cosh, |z| z.cosh()),
    ("tanh", ComplexTensor::tanh, |z| z.tanh()),
    ("sqrt", ComplexTensor::sqrt, |z| z.sqrt()),
    ("square", ComplexTensor::square, |z| z * z),
    ("reciprocal", ComplexTensor::reciprocal, |z| c(1., 0.) / z),
    ("conj", ComplexTensor::conj, |z| z.conj()),
    ("neg", ComplexTensor::neg, |z| -z),
    ("pow 2.5", |z| z.pow(2.5), |z| z.powf(2.5)),
];

#[test]
fn functions_are_those_of_num_complex() {
    run(|| {
        let mut source = Source::from_seed(5);
        let mut all = random(&mut source, 200);
        all.extend(grid(&[-1.0, 0.5, 3.0, 12.0, -7.0]));
        let z = tensor(&all, &[all.len()]);
        let narrow = z.to_dtype(ComplexDType::C64);
        for (name, ours, theirs) in FUNCTIONS {
            let want: Vec<C> = all.iter().map(|z| theirs(*z)).collect();
            close_to(&ours(&z), &want, 1e-12, name);
            let rounded: Vec<C> = narrow
                .to_vec::<f32>()
                .unwrap()
                .iter()
                .map(|z| theirs(c(z.re.into(), z.im.into())))
                .collect();
            let ours = ours(&narrow);
            assert_eq!(ours.dtype(), ComplexDType::C64, "{name}");
            close_to(&ours, &rounded, 1e-5, name);
        }
        close_reals(&z.abs(), &all.iter().map(|z| z.norm()).collect::<Vec<_>>(), "abs");
        close_reals(&z.angle(), &all.iter().map(|z| z.arg()).collect::<Vec<_>>(), "angle");
        close_reals(&z.real(), &all.iter().map(|z| z.re).collect::<Vec<_>>(), "real");
        close_reals(&z.imag(), &all.iter().map(|z| z.im).collect::<Vec<_>>(), "imag");
    });
}

/// On the axes, where the signs of zeros tell the sides of a cut.
#[test]
fn branches_are_those_of_num_complex() {
    run(|| {
        let all = grid(&[0.0, -0.0, 1.0, -1.0, 4.0, -4.0, 1e-200, -1e200]);
        let z = tensor(&all, &[all.len()]);
        for (name, ours, theirs) in FUNCTIONS {
            if !["log", "sqrt"].contains(&name) {
                continue;
            }
            let want: Vec<C> = all.iter().map(|z| theirs(*z)).collect();
            close_to(&ours(&z), &want, 1e-12, name);
        }
        close_reals(&z.angle(), &all.iter().map(|z| z.arg()).collect::<Vec<_>>(), "angle");
        let below = ComplexTensor::scalar(c(-4.0, -0.0));
        assert_eq!(below.sqrt().item().unwrap(), c(0., -2.));
        assert_eq!(below.log().item().unwrap().im, -std::f64::consts::PI);
    });
}

#[test]
fn hyperbolic_tangents_are_exact_far_out_and_near_poles() {
    run(|| {
        let half_turn = std::f64::consts::FRAC_PI_2;
        let all = [c(1e6, 1.0), c(-1e6, -2.0), c(0.0, 0.0), c(1e-300, 1e-300), c(1e-9, half_turn)];
        let got = tensor(&all, &[5]).tanh().to_vec::<f64>().unwrap();
        assert_eq!((got[0].re, got[1].re, got[2]), (1.0, -1.0, c(0., 0.)));
        assert!(got[0].im == 0.0 && got[1].im == 0.0);
        assert!((got[3] * 1e300 - c(1., 1.)).norm() < 1e-15, "{:e}", got[3].re);
        // 1 / (z - pole) beside a pole.
        assert!((got[4] * 1e-9 - 1.0).norm() < 1e-6, "{}", got[4]);
    });
}

#[test]
fn powers_have_whole_real_and_complex_exponents() {
    run(|| {
        let mut source = Source::from_seed(6);
        let all = random(&mut source, 20);
        let z = tensor(&all, &[20]);
        for n in [0, 1, 2, 3, 7, 12, -1, -2, -5] {
            let want: Vec<C> = all.iter().map(|z| z.powi(n)).collect();
            close_to(&z.pow(n), &want, 1e-11, "a whole exponent");
            close_to(&z.pow(f64::from(n)), &want, 1e-11, "a whole number of f64");
            close_to(&z.pow(c(n.into(), 0.0)), &want, 1e-11, "a whole complex number");
        }
        let w = random(&mut source, 20);
        let want: Vec<C> = all.iter().zip(&w).map(|(z, w)| z.powc(*w)).collect();
        close_to(&z.pow(&tensor(&w, &[20])), &want, 1e-11, "complex exponents");
        let want: Vec<C> = all.iter().map(|z| z.powc(c(0.5, -1.5))).collect();
        close_to(&z.pow(c(0.5, -1.5)), &want, 1e-11, "a complex exponent");
        let real = DynTensor::from_vec(w.iter().map(|w| w.re).collect(), [20]);
        let want: Vec<C> = all.iter().zip(&w).map(|(z, w)| z.powf(w.re)).collect();
        close_to(&z.pow(&real), &want, 1e-11, "real exponents");
        let zero = ComplexTensor::scalar(c(0., 0.));
        let at_zero = [zero.pow(0), zero.pow(3), zero.pow(1.5), zero.pow(c(1., 2.))];
        let values = at_zero.map(|z| z.item().unwrap());
        assert_eq!(values, [c(1., 0.), c(0., 0.), c(0., 0.), c(0., 0.)]);
    });
}

#[test]
fn reductions_run_over_axes_of_complex_numbers() {
    run(|| {
        let mut source = Source::from_seed(7);
        let all = random(&mut source, 30);
        let z = tensor(&all, &[2, 3, 5]);
        let at = |i: usize, j: usize, k: usize| all[15 * i + 5 * j + k];
        let rows = |f: &dyn Fn(&[C]) -> C| all.chunks(5).map(f).collect::<Vec<_>>();
        close(&z.sum(..), &[all.iter().sum()], "sum");
        close(&z.sum(-1), &rows(&|row| row.iter().sum()), "sums of rows");
        let middle: Vec<C> = (0..10).map(|n| (0..3).map(|j| at(n / 5, j, n % 5)).sum()).collect();
        close(&z.sum(1), &middle, "sums of an axis");
        close(
            &z.sum([0, -1]),
            &[0, 1, 2].map(|j| (0..10).map(|n| at(n / 5, j, n % 5)).sum()),
            "two",
        );
        close(&z.mean(-1), &rows(&|row| row.iter().sum::<C>() / 5.0), "means");
        close(&z.prod(-1), &rows(&|row| row.iter().product()), "products");
        close_to(&z.prod(..), &[all.iter().product()], 1e-12, "product");
        let middle: Vec<C> =
            (0..10).map(|n| (0..3).map(|j| at(n / 5, j, n % 5)).product()).collect();
        close(&z.prod(1), &middle, "products of an axis");
        assert_eq!(z.sum(crate::keepdim(1)).sizes(), [2, 1, 5]);
        assert_eq!(z.prod(crate::keepdim([0, 2])).sizes(), [1, 3, 1]);
        let one = ComplexTensor::scalar(c(1., 2.));
        for same in [one.sum(..), one.mean(0), one.prod(-1), one.prod(..)] {
            assert_eq!((same.sizes(), same.item().unwrap()), (vec![], c(1., 2.)));
        }
        let none = ComplexTensor::zeros([2, 0], ComplexDType::C128);
        close(&none.sum(1), &[c(0., 0.); 2], "sums of none");
        close(&none.prod(1), &[c(1., 0.); 2], "products of none");
    });
}

#[test]
fn matrix_products_have_vectors_batches_and_real_factors() {
    run(|| {
        let mut source = Source::from_seed(8);
        let (a, b) = (random(&mut source, 6), random(&mut source, 12));
        let (x, y) = (tensor(&a, &[2, 3]), tensor(&b, &[3, 4]));
        let cell = |i: usize, j: usize| (0..3).map(|k| a[3 * i + k] * b[4 * k + j]).sum::<C>();
        let want: Vec<C> = (0..8).map(|n| cell(n / 4, n % 4)).collect();
        close(&x.matmul(&y), &want, "matrices");
        close(&x.expand([5, 2, 3]).matmul(&y).slice(4), &want, "a batch");
        let column: Vec<C> = (0..2).map(|i| cell(i, 1)).collect();
        close(&x.matmul(&y.slice((.., 1))), &column, "a vector");
        close(&x.slice(1).matmul(&y.slice((.., 1))), &column[1..], "two vectors");
        let real = y.real();
        close(
            &x.matmul(&real),
            &x.matmul(&ComplexTensor::from_real(&real)).to_vec().unwrap(),
            "real",
        );
        let turned = real.t().matmul_complex(&x.t()).t();
        close(&turned, &x.matmul(&real).to_vec().unwrap(), "real on the left");
        let square = x.matmul(&x.adjoint()); // Hermitian
        close(&square.adjoint(), &square.to_vec().unwrap(), "adjoint");
        let narrow = x.to_dtype(ComplexDType::C64);
        let full = crate::autocast(DType::Bf16, || narrow.matmul(&y.to_dtype(ComplexDType::C64)));
        assert_eq!((full.error(), full.dtype()), (None, ComplexDType::C64));
        close_to(&full, &want, 1e-5, "inside autocast");
    });
}

/// The transforms are those of pairs, whose values are PyTorch's.
#[test]
fn transforms_are_those_of_pairs() {
    run(|| {
        let mut source = Source::from_seed(9);
        let all = random(&mut source, 24);
        let z = tensor(&all, &[2, 3, 4]);
        let (pairs, x) = (z.view_as_real(), z.real());
        let axis = Options { dim: 1, n: Some(5), norm: fft::Norm::Ortho };
        let how = Stft { hop_length: Some(2), ..Stft::new(4) };
        for (ours, of_pairs) in [
            (z.fft(), fft::fft(&pairs)),
            (z.ifft(), fft::ifft(&pairs)),
            (z.fft2(), fft::fft2(&pairs)),
            (z.ifft2(), fft::ifft2(&pairs)),
            (z.fft_with(axis), fft::fft_with(&pairs, axis)),
            (ComplexTensor::rfft(&x), fft::rfft(&x)),
            (ComplexTensor::stft(&x, &how), fft::stft(&x, &how)),
        ] {
            assert_eq!(ours.view_as_real().sizes(), of_pairs.sizes());
            close(&ours, &ComplexTensor::from_pairs(&of_pairs).to_vec().unwrap(), "a transform");
        }
        let direct = |k: usize| -> C {
            let turn = |j: usize| -std::f64::consts::TAU * (j * k) as f64 / 4.0;
            (0..4).map(|j| all[j] * C::from_polar(1.0, turn(j))).sum()
        };
        close_to(&z.fft().slice((0, 0)), &[0, 1, 2, 3].map(direct), 1e-12, "the sum");
        close_to(&z.fft().ifft(), &all, 1e-12, "back");
        close_reals(&ComplexTensor::rfft(&x).irfft(), &x.to_vec::<f64>().unwrap(), "real, back");
        let signal = x.reshape([24]);
        let back = ComplexTensor::stft(&signal, &how).istft(&how, Some(24));
        assert!((back - signal).abs().max(..).item().unwrap() < 1e-12);
    });
}
