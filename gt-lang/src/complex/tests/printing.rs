//! Complex tensors as text: PyTorch 2.11 printed the same, but for the names of dtypes.

use super::*;

#[test]
fn printing_is_pytorchs() {
    run(|| {
        let c64 =
            |numbers: &[C], sizes: &[usize]| tensor(numbers, sizes).to_dtype(ComplexDType::C64);
        let check = |z: ComplexTensor, want: &str| assert_eq!(z.to_string(), want);
        check(c64(&[c(1., 2.), c(3.5, -1.)], &[2]), "tensor([1.0000+2.j, 3.5000-1.j])");
        check(
            c64(&[c(1., 2.), c(-3., -4.), c(0., 0.), c(0., 2.)], &[2, 2]),
            "tensor([[ 1.+2.j, -3.-4.j],\n        [ 0.+0.j,  0.+2.j]])",
        );
        check(
            tensor(&[c(1.5, 0.25), c(-10., 100.)], &[2]),
            "tensor([  1.5000+0.2500j, -10.0000+100.0000j], dtype=c128)",
        );
        check(c64(&[c(1., 2.)], &[]), "tensor(1.+2.j)");
        check(c64(&[], &[0]), "tensor([], dtype=c64)");
        check(c64(&[], &[0, 3]), "tensor([], size=(0, 3), dtype=c64)");
        check(c64(&[c(1., 2.)], &[1]).requires_grad(), "tensor([1.+2.j], requires_grad=true)");
        check(
            c64(&[c(1e-5, 2.), c(1., 1e6)], &[2]),
            "tensor([1.0000e-05+2.0000e+00j, 1.0000e+00+1.0000e+06j])",
        );
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        check(
            c64(&[c(nan, 0.), c(inf, 0.), c(1., -0.5), c(1., nan), c(0., -inf)], &[5]),
            "tensor([nan+0.0000j, inf+0.0000j, 1.-0.5000j, 1.+nanj, 0.-infj])",
        );
        let places = DynTensor::arange(0, 2000, 1, DType::F32);
        check(
            ComplexTensor::from_real(&places),
            "tensor([0.0000e+00+0.j, 1.0000e+00+0.j, 2.0000e+00+0.j,  ..., 1.9970e+03+0.j,\n\
             \x20       1.9980e+03+0.j, 1.9990e+03+0.j])",
        );
        let pairs = DynTensor::arange(0, 40, 1, DType::F32).reshape([20, 2]) * 1.5;
        check(
            ComplexTensor::from_pairs(&pairs),
            "tensor([ 0.+1.5000j,  3.+4.5000j,  6.+7.5000j,  9.+10.5000j, 12.+13.5000j,\n        \
             15.+16.5000j, 18.+19.5000j, 21.+22.5000j, 24.+25.5000j, 27.+28.5000j,\n        \
             30.+31.5000j, 33.+34.5000j, 36.+37.5000j, 39.+40.5000j, 42.+43.5000j,\n        \
             45.+46.5000j, 48.+49.5000j, 51.+52.5000j, 54.+55.5000j, 57.+58.5000j])",
        );
        assert_eq!(format!("{:?}", c64(&[c(1., 2.)], &[])), "tensor(1.+2.j)");
        let bad = c64(&[c(1., 2.)], &[1]).sum(3).to_string();
        assert!(bad.starts_with("tensor(<error: sum: axis 3 is out of range for c64[1]"), "{bad}");
    });
}

#[test]
fn printing_a_large_tensor_reads_its_edges_only() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let z = ComplexTensor::zeros([40, 40], ComplexDType::C64);
    assert!(z.to_string().contains("..."));
    assert_eq!(session.stats().unwrap().total().bytes_out, 6 * 6 * 8);
    // 600 numbers are 1,200 parts, and shown.
    assert!(!ComplexTensor::zeros([20, 30], ComplexDType::C64).to_string().contains("..."));
}
