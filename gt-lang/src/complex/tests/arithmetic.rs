//! Sums, products and quotients, by operators.

use super::*;

/// Both sides owned and borrowed, complex and real, tensors and numbers.
#[test]
fn operators_take_everything_on_both_sides() {
    run(|| {
        let mut source = Source::from_seed(2);
        for _ in 0..10 {
            let (a, b) = (random(&mut source, 3), random(&mut source, 3));
            let (z, w) = (tensor(&a, &[3]), tensor(&b, &[3]));
            let n = c(uniform(&mut source), uniform(&mut source));
            let s = uniform(&mut source);
            let real: Vec<f64> = b.iter().map(|z| z.re).collect();
            let x = DynTensor::from_vec(real.clone(), [3]);
            macro_rules! check {
                ($op:tt) => {
                    let name = stringify!($op);
                    let each = |f: &dyn Fn(usize) -> C| (0..3).map(f).collect::<Vec<_>>();
                    let both = each(&|i| a[i] $op b[i]);
                    close(&(&z $op &w), &both, name);
                    close(&(z.clone() $op &w), &both, name);
                    close(&(&z $op w.clone()), &both, name);
                    close(&(z.clone() $op w.clone()), &both, name);
                    let of_real = each(&|i| a[i] $op real[i]);
                    close(&(&z $op &x), &of_real, name);
                    close(&(z.clone() $op x.clone()), &of_real, name);
                    let real_first = each(&|i| c(real[i], 0.0) $op a[i]);
                    close(&(&x $op &z), &real_first, name);
                    close(&(x.clone() $op z.clone()), &real_first, name);
                    close(&(&z $op n), &each(&|i| a[i] $op n), name);
                    close(&(n $op &z), &each(&|i| n $op a[i]), name);
                    close(&(&x $op n), &each(&|i| c(real[i], 0.0) $op n), name);
                    close(&(n $op &x), &each(&|i| n $op c(real[i], 0.0)), name);
                    close(&(&z $op s), &each(&|i| a[i] $op s), name);
                    close(&(s $op &z), &each(&|i| c(s, 0.0) $op a[i]), name);
                    close(&(z.clone() $op 3), &each(&|i| a[i] $op 3.0), name);
                    close(&(3 $op z.clone()), &each(&|i| c(3.0, 0.0) $op a[i]), name);
                };
            }
            check!(+);
            check!(-);
            check!(*);
            check!(/);
            close(&-&z, &a.iter().map(|z| -z).collect::<Vec<_>>(), "neg");
        }
    });
}

/// As programs write them, where nothing else says what their types are.
#[test]
fn literals_need_no_annotation() {
    run(|| {
        let z = ComplexTensor::from([Complex::new(1.0, 2.0)]);
        let mut w = (2.0 * &z + Complex::new(0.0, 1.0)) / Complex::new(0.0, 2.0);
        w -= Complex::new(0.5, 0.0);
        w = w.pow(Complex::new(2.0, 0.0)).sub(Complex::new(1.0, 0.0)) * 2;
        let want = (c(2., 5.) / c(0., 2.) - c(0.5, 0.)).powi(2) * 2.0 - 2.0;
        close(&w, &[want], "literals");
        let x = DynTensor::from([3.0]) * Complex::new(0.0, 1.0);
        close(&x, &[c(0., 3.)], "a real tensor by a literal");
    });
}

#[test]
fn assigning_operators_make_new_values_or_update_leaves() {
    run(|| {
        let mut z = tensor(&[c(1., 2.)], &[1]);
        let before = z.clone();
        z += 1.0;
        z *= &before;
        z -= c(0.0, 1.0);
        z /= DynTensor::from([2.0]);
        close(&z, &[(c(2., 2.) * c(1., 2.) - c(0., 1.)) / 2.0], "assigned");
        close(&before, &[c(1., 2.)], "the tensor before");
        let mut w = before.requires_grad();
        let seen_elsewhere = w.clone();
        crate::no_grad(|| w *= c(0.0, 1.0));
        close(&seen_elsewhere, &[c(-2., 1.)], "a leaf");
        w += 1.0;
        let told = w.error().unwrap().message().to_owned();
        assert!(told.starts_with("add_assign: a leaf that requires"), "{told}");
    });
}

#[test]
fn shapes_broadcast_and_dtypes_promote() {
    run(|| {
        let mut source = Source::from_seed(3);
        let (a, b) = (random(&mut source, 3), random(&mut source, 2));
        let (z, w) = (tensor(&a, &[3]), tensor(&b, &[2, 1]));
        let real = DynTensor::from([[2.0], [3.0]]);
        let table = |f: &dyn Fn(C, usize) -> C| -> Vec<C> {
            (0..2).flat_map(|j| a.iter().map(move |z| f(*z, j))).collect()
        };
        close(&(&z + &w), &table(&|z, j| z + b[j]), "sum");
        close(&(&z * &w), &table(&|z, j| z * b[j]), "product");
        close(&(&w / &z), &table(&|z, j| b[j] / z), "quotient");
        close(&(&z - &real), &table(&|z, j| z - (2.0 + j as f64)), "difference");
        close(&(&z * &real), &table(&|z, j| z * (2.0 + j as f64)), "real factors");
        close(&(&real / &z), &table(&|z, j| c(2.0 + j as f64, 0.0) / z), "real numerators");
        let sum = &z + ComplexTensor::scalar(c(1., 1.));
        close(&sum, &a.iter().map(|z| z + c(1., 1.)).collect::<Vec<_>>(), "one for all");
        let narrow = z.to_dtype(ComplexDType::C64);
        let whole = DynTensor::from([1_i64, 2, 3]);
        for (result, dtype) in [
            (&narrow * 2.0, ComplexDType::C64),
            (&narrow * c(1., 2.), ComplexDType::C64),
            (&narrow / c(1., 2.), ComplexDType::C64),
            (c(1., 2.) / &narrow, ComplexDType::C64),
            (&narrow + &whole, ComplexDType::C64),
            (&narrow * &whole, ComplexDType::C64),
            (&whole / &narrow, ComplexDType::C64),
            (&whole * c(0., 1.), ComplexDType::C64),
            (&narrow + &z, ComplexDType::C128),
            (&narrow * &real, ComplexDType::C128),
        ] {
            assert_eq!((result.error(), result.dtype()), (None, dtype));
        }
    });
}

/// Parts whose squares are infinite or 0, and divisors without a direction.
#[test]
fn quotients_and_absolute_values_do_not_overflow() {
    run(|| {
        for scale in [1e-300, 1e-200, 1.0, 1e200, 1e300] {
            let all: Vec<C> =
                [c(3., 4.), c(-4., 3.), c(0., -2.), c(5., 0.)].map(|z| z * scale).into();
            let z = tensor(&all, &[4]);
            close(&(&z / &z), &[c(1., 0.); 4], "a quotient");
            close(
                &(&z / all[0]),
                &all.iter().map(|z| z / scale / c(3., 4.)).collect::<Vec<_>>(),
                "n",
            );
            close_reals(&(z.abs() / scale), &[5., 5., 2., 5.], "absolute values");
            close_reals(&z.angle(), &all.iter().map(|z| z.arg()).collect::<Vec<_>>(), "angles");
        }
        // PyTorch's: tensor([1+2j, 0j, -1+0j]) / 0j.
        let inf = f64::INFINITY;
        let over = tensor(&[c(1., 2.), c(0., 0.), c(-1., 1.)], &[3]) / tensor(&[c(0., 0.)], &[1]);
        close(&over, &[c(inf, inf), c(f64::NAN, f64::NAN), c(-inf, inf)], "by zero");
        let far = c(1., 1.) / tensor(&[c(inf, 1.), c(0., -inf)], &[2]);
        close(&far, &[c(0., 0.), c(0., 0.)], "by infinity");
        // A real factor scales.
        close(&(tensor(&[c(inf, 0.)], &[1]) * 2.0), &[c(inf, 0.)], "infinities");
        let odd = tensor(&[c(inf, 1.), c(1., -inf)], &[2]).abs();
        close_reals(&odd, &[inf, inf], "absolute values of infinities");
    });
}
