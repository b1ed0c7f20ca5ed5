//! Complex tensors against `num_complex` and constants of PyTorch, on the interpreter. Gradients
//! against finite differences are among those of all functions, in `autograd`.

mod arithmetic;
mod functions;
mod gradients;
mod mistakes;
mod movement;
mod printing;

use gt_ir::testing::Source;

use super::*;
use crate::reference::Reference;
use crate::{DType, DynTensor};

type C = Complex<f64>;

fn c(re: f64, im: f64) -> C {
    Complex::new(re, im)
}

fn run(test: impl FnOnce()) {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    test();
}

/// A number between -2 and 2.
fn uniform(source: &mut Source<'_>) -> f64 {
    (source.bits() >> 11) as f64 / (1_u64 << 51) as f64 - 2.0
}

fn random(source: &mut Source<'_>, n: usize) -> Vec<C> {
    (0..n).map(|_| c(uniform(source), uniform(source))).collect()
}

/// All numbers with parts among these.
fn grid(parts: &[f64]) -> Vec<C> {
    parts.iter().flat_map(|&re| parts.iter().map(move |&im| c(re, im))).collect()
}

fn tensor(numbers: &[C], sizes: &[usize]) -> ComplexTensor {
    ComplexTensor::from_slice(numbers, sizes)
}

/// Whether a part is the other up to rounding of numbers of this size.
fn near(got: f64, want: f64, size: f64, digits: f64) -> bool {
    (got.is_nan() && want.is_nan()) || got == want || (got - want).abs() <= digits * size
}

#[track_caller]
fn close_to(got: &ComplexTensor, want: &[C], digits: f64, what: &str) {
    let got = got.to_dtype(ComplexDType::C128).to_vec::<f64>().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let size = want.norm().max(f64::MIN_POSITIVE);
        let fits = near(got.re, want.re, size, digits) && near(got.im, want.im, size, digits);
        assert!(fits, "{what}: number {i} is {got}, not {want}");
    }
}

#[track_caller]
fn close(got: &ComplexTensor, want: &[C], what: &str) {
    close_to(got, want, 1e-13, what);
}

#[track_caller]
fn close_reals(got: &DynTensor, want: &[f64], what: &str) {
    let got = got.to_vec::<f64>().unwrap_or_else(|e| panic!("{what}: {e}"));
    let fits = |(got, want): (&f64, &f64)| near(*got, *want, want.abs(), 1e-13);
    assert!(got.len() == want.len() && got.iter().zip(want).all(fits), "{what}: {got:?} {want:?}");
}

#[test]
fn numbers_go_in_and_come_back() {
    run(|| {
        let mut source = Source::from_seed(1);
        let all = random(&mut source, 6);
        let z = tensor(&all, &[2, 3]);
        assert_eq!((z.sizes(), z.rank(), z.numel(), z.size(-1)), (vec![2, 3], 2, 6, 3));
        assert_eq!((z.size(2), z.size(-3)), (0, 0));
        assert_eq!(z.to_vec::<f64>().unwrap(), all);
        let narrow = z.to_dtype(ComplexDType::C64);
        assert_eq!(narrow.dtype(), ComplexDType::C64);
        let want: Vec<Complex<f32>> =
            all.iter().map(|z| Complex::new(z.re as f32, z.im as f32)).collect();
        assert_eq!(narrow.to_vec::<f32>().unwrap(), want);
        let pairs = z.view_as_real();
        assert_eq!((pairs.sizes(), pairs.dtype()), (vec![2, 3, 2], DType::F64));
        assert_eq!(ComplexTensor::from_pairs(&pairs).to_vec::<f64>().unwrap(), all);
        assert_eq!(ComplexTensor::scalar(all[0]).item().unwrap(), all[0]);
        assert_eq!(ComplexTensor::from([all[0], all[1]]).sizes(), [2]);
        let none = ComplexTensor::from_vec(Vec::<C>::new(), [0, 3]);
        assert_eq!((none.sizes(), none.to_vec::<f64>().unwrap()), (vec![0, 3], vec![]));
    });
}

#[test]
fn tensors_are_made_of_parts_angles_and_constants() {
    run(|| {
        let column = DynTensor::from([[1.0], [2.0]]);
        let row = DynTensor::from([3.0, -4.0]);
        let z = ComplexTensor::new(&column, &row);
        close(&z, &[c(1., 3.), c(1., -4.), c(2., 3.), c(2., -4.)], "parts broadcast");
        let polar = ComplexTensor::polar(&z.abs(), &z.angle());
        close(&polar, &z.to_vec::<f64>().unwrap(), "polar");
        for (x, dtype) in [
            (DynTensor::from([1_i64, 2]), ComplexDType::C64),
            (DynTensor::from([true, false]), ComplexDType::C64),
            (DynTensor::from([1.0, 2.0]), ComplexDType::C128),
            (DynTensor::from([1.0f32, 2.0]).to_dtype(DType::F16), ComplexDType::C64),
        ] {
            let z = ComplexTensor::from_real(&x);
            assert_eq!((z.dtype(), z.sizes()), (dtype, vec![2]));
            assert_eq!(z.imag().to_dtype(DType::F64).to_vec::<f64>().unwrap(), [0.0, 0.0]);
        }
        let of = ComplexDType::C128;
        close(&ComplexTensor::zeros([2], of), &[c(0., 0.); 2], "zeros");
        close(&ComplexTensor::ones([2], of), &[c(1., 0.); 2], "ones");
        close(&ComplexTensor::full((), c(1., -2.), of), &[c(1., -2.)], "full");
        close(&z.zeros_like(), &[c(0., 0.); 4], "zeros_like");
        close(&z.ones_like(), &[c(1., 0.); 4], "ones_like");
        let noise = ComplexTensor::randn([4000], of);
        let power = noise.abs().square().mean(..).item().unwrap();
        assert!((power - 1.0).abs() < 0.1, "the variance is {power}");
        let parts = ComplexTensor::rand([100], of).view_as_real();
        let (least, most) = (parts.min(..).item().unwrap(), parts.max(..).item().unwrap());
        assert!(least >= 0.0 && most < 1.0);
    });
}

#[test]
fn truth_values_are_those_of_both_parts() {
    run(|| {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let z = tensor(&[c(1., 2.), c(1., -2.), c(nan, 0.), c(0., inf), c(-0., 0.)], &[5]);
        let flags = |x: DynTensor| x.to_vec::<bool>().unwrap();
        assert_eq!(flags(z.eq(c(1., 2.))), [true, false, false, false, false]);
        assert_eq!(flags(z.ne(c(1., 2.))), [false, true, true, true, true]);
        assert_eq!(flags(z.eq(&z)), [true, true, false, true, true]);
        assert_eq!(flags(z.eq(0.0)), [false, false, false, false, true]);
        assert_eq!(flags(z.eq(&DynTensor::zeros([5], DType::F64)))[4..], [true]);
        assert_eq!(flags(z.isnan()), [false, false, true, false, false]);
        assert_eq!(flags(z.isinf()), [false, false, false, true, false]);
        assert_eq!(flags(z.isfinite()), [true, true, false, false, true]);
        let chosen = ComplexTensor::select(&z.isfinite(), &z, c(7., 8.));
        let want = [c(1., 2.), c(1., -2.), c(7., 8.), c(7., 8.), c(0., 0.)];
        close(&chosen, &want, "selected");
        let chosen = ComplexTensor::select(&z.isfinite().logical_not(), 0, &z);
        assert_eq!(chosen.slice(2).item().unwrap(), c(0., 0.));
        let grid = DynTensor::from([[true], [false]]);
        assert_eq!(ComplexTensor::select(&grid, &z, &z.conj()).sizes(), [2, 5]);
    });
}
