//! Gradients in PyTorch's convention, dL/dre + i dL/dim: constants that PyTorch 2.11 computed.

use super::*;
use crate::autograd::{grad, jvp, vmap};

type Loss = fn(&ComplexTensor, &ComplexTensor) -> DynTensor;

/// A loss, and the gradients of z = [1+2i, -0.5+0.25i] and of w = [0.5-i, 2+i].
type Known = (&'static str, Loss, [C; 2], Option<[C; 2]>);

const LOSSES: [Known; 10] = [
    (
        "abs",
        |z, w| (z * w).abs().sum(..),
        [Complex::new(0.5, 1.0), Complex::new(-2.0, 1.0)],
        Some([Complex::new(1.0, -2.0), Complex::new(0.5, 0.25)]),
    ),
    (
        "real",
        |z, w| (z * w * z).real().sum(..),
        [Complex::new(5.0, 0.0), Complex::new(-2.5, 0.0)],
        Some([Complex::new(-3.0, -4.0), Complex::new(0.1875, 0.25)]),
    ),
    (
        "imag",
        |z, w| (z / w).imag().sum(..),
        [Complex::new(0.8, 0.4), Complex::new(-0.2, 0.4)],
        Some([Complex::new(0.32, 1.76), Complex::new(-0.11, 0.02)]),
    ),
    (
        "exp",
        |z, _| z.exp().real().sum(..),
        [
            Complex::new(-1.1312043837568135, -2.4717266720048188),
            Complex::new(0.5876750903439226, -0.15005808662216327),
        ],
        None,
    ),
    (
        "log",
        |z, _| z.log().abs().sum(..),
        [
            Complex::new(-0.2059727140790061, 0.3969574801599385),
            Complex::new(-0.4422162128739123, -1.733333441975737),
        ],
        None,
    ),
    (
        "sqrt",
        |z, w| (z.sqrt() * w).real().sum(..),
        [
            Complex::new(-0.033572671875625675, 0.3723266365664273),
            Complex::new(0.9581409023467763, 1.148056613913223),
        ],
        Some([
            Complex::new(1.272019649514069, -0.7861513777574233),
            Complex::new(0.17178037486125622, -0.7276733451126774),
        ]),
    ),
    (
        "tanh",
        |z, _| z.tanh().abs().sum(..),
        [
            Complex::new(-0.41167833549211647, -0.4944359976480499),
            Complex::new(-0.6713596757619158, 0.4815759936986138),
        ],
        None,
    ),
    (
        "pow",
        |z, _| z.pow(3).real().sum(..) + z.pow(1.5).imag().sum(..),
        [
            Complex::new(-9.0 + 1.1792270666361349, -12.0 + 1.9080294742711035),
            Complex::new(0.5625 + 1.0915100176690162, 0.75 + 0.25767056229188434),
        ],
        None,
    ),
    (
        "fft",
        |z, w| (z * w).fft().abs().square().sum(..),
        [Complex::new(5.0, 10.0), Complex::new(-10.0, 5.0)],
        Some([Complex::new(10.0, -20.0), Complex::new(2.5, 1.25)]),
    ),
    (
        "matmul",
        |z, w| z.unsqueeze(1).matmul(&w.unsqueeze(0)).abs().sum(..),
        [Complex::new(1.5, 3.0), Complex::new(-3.0, 1.5)],
        Some([Complex::new(1.25, -2.5), Complex::new(2.5, 1.25)]),
    ),
];

#[test]
fn gradients_are_pytorchs() {
    run(|| {
        for (name, loss, of_z, of_w) in LOSSES {
            let z = ComplexTensor::from([c(1., 2.), c(-0.5, 0.25)]).requires_grad();
            let w = ComplexTensor::from([c(0.5, -1.), c(2., 1.)]).requires_grad();
            assert!(z.is_leaf() && z.is_tracked() && !z.detach().is_tracked());
            loss(&z, &w).backward().unwrap();
            close_to(&z.grad().unwrap(), &of_z, 1e-12, name);
            match of_w {
                Some(of_w) => close_to(&w.grad().unwrap(), &of_w, 1e-12, name),
                None => assert!(w.grad().is_none(), "{name}"),
            }
            z.zero_grad();
            assert!(z.grad().is_none());
        }
    });
}

#[test]
fn gradients_at_zero_and_on_axes_are_numbers() {
    run(|| {
        let at = |numbers: &[C], loss: fn(&ComplexTensor) -> DynTensor| {
            let z = tensor(numbers, &[numbers.len()]).requires_grad();
            loss(&z).sum(..).backward().unwrap();
            z.grad().unwrap()
        };
        let zero = [c(0., 0.)];
        close(&at(&zero, ComplexTensor::abs), &zero, "abs");
        close(&at(&zero, ComplexTensor::angle), &zero, "angle");
        close(&at(&zero, |z| z.pow(2).real()), &zero, "pow 2");
        close(&at(&zero, |z| z.pow(1.5).real()), &zero, "pow 1.5");
        // The gradient of the real part of an analytic function is the conjugate of its slope.
        let axes = [c(4., 0.), c(-4., 0.), c(-4., -0.), c(0., 4.), c(0., -4.)];
        let want = axes.map(|z| (0.5 / z.sqrt()).conj());
        close_to(&at(&axes, |z| z.sqrt().real()), &want, 1e-12, "sqrt");
        let want = axes.map(|z| (1.0 / z).conj());
        close_to(&at(&axes, |z| z.log().real()), &want, 1e-12, "log");
        let want = axes.map(|z| (1.0 - z.tanh() * z.tanh()).conj());
        close_to(&at(&axes, |z| z.tanh().real()), &want, 1e-12, "tanh");
        // One factor is 0.
        let product = at(&[c(0., 0.), c(1., 2.), c(3., -1.)], |z| z.prod(..).real());
        let rest = (c(1., 2.) * c(3., -1.)).conj();
        close(&product, &[rest, c(0., 0.), c(0., 0.)], "prod");
        // Real numbers have real gradients.
        let x = DynTensor::from([1.0, 2.0]).requires_grad();
        (&x * ComplexTensor::from([c(1., 2.), c(3., -1.)])).abs().sum(..).backward().unwrap();
        close_reals(&x.grad().unwrap(), &[5_f64.sqrt(), 10_f64.sqrt()], "of a real factor");
    });
}

/// Functions of pairs, which are what the transforms of functions take.
#[test]
fn functions_of_complex_numbers_are_mapped_and_differentiated() {
    run(|| {
        let mut source = Source::from_seed(13);
        let all = random(&mut source, 6);
        let z = tensor(&all, &[3, 2]);
        let f = |z: &ComplexTensor| (z.exp() * z.conj() / (z + c(3., 0.))).abs().sum(..);
        let of_pairs = |x: &DynTensor| f(&ComplexTensor::from_pairs(x));
        let pairs = z.view_as_real();
        let each = vmap(|x| of_pairs(&x[0]), &[&pairs]).unwrap();
        let one_by_one: Vec<f64> = (0..3).map(|i| f(&z.slice(i)).item().unwrap()).collect();
        close_reals(&each, &one_by_one, "vmap");
        let direction = tensor(&random(&mut source, 6), &[3, 2]).view_as_real();
        let (_, slope) = jvp(|x| of_pairs(&x[0]), &[&pairs], &[&direction]).unwrap();
        let leaf = pairs.requires_grad();
        let gradient = grad(&of_pairs(&leaf), &[&leaf]).unwrap().remove(0);
        let want = (gradient * direction).sum(..).item().unwrap();
        assert!((slope.item().unwrap() - want).abs() < 1e-12);
    });
}

/// Steps of an optimizer on the pairs bring a complex number to its place.
#[test]
fn leaves_are_trained_by_their_pairs() {
    run(|| {
        use crate::optim::{Optimizer, Sgd, SgdConfig};
        let z = ComplexTensor::zeros([2], ComplexDType::C64).requires_grad();
        let config = SgdConfig { lr: 0.25, ..SgdConfig::default() };
        let mut optimizer = Sgd::new([z.view_as_real()], config);
        let goal = ComplexTensor::from([Complex::new(1.0f32, -2.0), Complex::new(0.5, 3.0)]);
        for _ in 0..30 {
            optimizer.zero_grad();
            (&z - &goal).abs().square().sum(..).backward().unwrap();
            optimizer.step().unwrap();
        }
        close_to(&z, &[c(1., -2.), c(0.5, 3.)], 1e-6, "trained");
    });
}
