//! Fourier transforms against PyTorch: the values that `tests/fixtures/make.py` computed with it.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use gt::fft::{Norm, Options, Stft};
use gt::prelude::*;
use serde_json::Value;

use crate::run;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[track_caller]
fn close(got: &DynTensor, want: &Value, what: &str) {
    let (got, want) = (got.to_vec::<f64>().unwrap(), numbers(want));
    let near = got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-9 * (1.0 + w.abs()));
    assert!(near && got.len() == want.len(), "{what}: {got:?} is not {want:?}");
}

fn plain(n_fft: usize) -> Stft {
    let window = Some(DynTensor::ones([n_fft], DType::F64));
    Stft { window, center: false, normalized: true, ..Stft::new(n_fft) }
}

/// The call of a case, of real numbers or complex ones.
fn call(name: &str, x: &DynTensor, window: &DynTensor) -> DynTensor {
    let d = Options::default();
    let (ortho, forward) = (Norm::Ortho, Norm::Forward);
    let short = Stft { hop_length: Some(3), window: Some(window.clone()), ..Stft::new(8) };
    match name {
        "fft" => fft::fft(x),
        "fft 7" => fft::fft_with(x, Options { n: Some(7), norm: ortho, ..d }),
        "fft 3" => fft::fft_with(x, Options { n: Some(3), dim: 1, norm: forward }),
        "ifft" => fft::ifft(x),
        "ifft 0" => fft::ifft_with(x, Options { dim: 0, norm: forward, ..d }),
        "rfft" => fft::rfft(x),
        "rfft 9" => fft::rfft_with(x, Options { n: Some(9), ..d }),
        "rfft 0" => fft::rfft_with(x, Options { dim: 0, norm: ortho, ..d }),
        "irfft" => fft::irfft(x),
        "irfft 7" => fft::irfft_with(x, Options { n: Some(7), norm: ortho, ..d }),
        "irfft 1" => fft::irfft_with(x, Options { n: Some(1), dim: 1, ..d }),
        "fft2" => fft::fft2(x),
        "ifft2" => fft::ifft2_with(x, ortho),
        "shift" => fft::fftshift(x, &[0, 1]),
        "unshift" => fft::ifftshift(x, &[1, 2]),
        "stft" => fft::stft(x, &short),
        "stft plain" => fft::stft(x, &plain(4)),
        "istft" => fft::istft(x, &short, None),
        "istft 12" => fft::istft(x, &short, Some(12)),
        "mul" => fft::mul(x, &x.flip([1])),
        "abs" => fft::abs(x),
        "angle" => fft::angle(x),
        other => panic!("{other}"),
    }
}

#[test]
fn transforms_and_their_gradients_are_pytorchs() {
    let data: Value = serde_json::from_str(include_str!("../fixtures/fft.json")).unwrap();
    run(|| {
        let window = DynTensor::from_vec(numbers(&data["window"]), [6]);
        for case in data["cases"].as_array().unwrap() {
            let name = case["name"].as_str().unwrap();
            let is_real = ["rfft", "stft", "shift"].iter().any(|n| name.starts_with(n));
            let x = match is_real {
                true => DynTensor::from_vec(numbers(&data["x"]), [3, 10]),
                false => DynTensor::from_vec(numbers(&data["z"]), [3, 5, 4, 2]),
            };
            let x = x.requires_grad();
            let y = call(name, &x, &window);
            let sizes: Vec<f64> = y.sizes().iter().map(|n| *n as f64).collect();
            assert_eq!(sizes, numbers(&case["sizes"]), "{name}: {:?}", y.error());
            close(&y, &case["y"], name);
            let weights = DynTensor::arange(0, y.numel() as i64, 1, DType::F64).remainder(7.0);
            (&y * weights.reshape(y.shape())).sum(..).backward().unwrap();
            close(&x.grad().unwrap(), &case["grad"], &format!("gradient of {name}"));
        }
        let of = [5, 6].map(|n| fft::fftfreq(n, 0.1, DType::F64));
        let real = [5, 6].map(|n| fft::rfftfreq(n, 0.1, DType::F64));
        for (i, got) in of.iter().chain(&real).enumerate() {
            close(got, &data["freq"][i], "frequencies");
        }
    });
}

#[test]
fn signals_come_back() {
    run(|| {
        let x = DynTensor::randn([2, 100], DType::F32);
        let how = Stft { hop_length: Some(5), ..Stft::new(20) };
        let near = |y: &DynTensor| y.sub(&x).abs().max(..).item().unwrap() < 1e-5;
        assert!(near(&fft::istft(&fft::stft(&x, &how), &how, Some(100))));
        let odd = Options { n: Some(100), ..Options::default() };
        assert!(near(&fft::irfft_with(&fft::rfft(&x), odd)));
        let z = fft::complex(&x, &(&x * 2.0));
        assert!(near(&fft::real(&fft::ifft(&fft::fft(&z)))));
        assert!(near(&(fft::imag(&fft::ifft2(&fft::fft2(&z))) / 2.0)));
        // Each example of a batch.
        let each = autograd::vmap(|x| fft::abs(&fft::rfft(&x[0])), &[&x]).unwrap();
        let apart = each.sub(&fft::abs(&fft::rfft(&x))).abs().max(..).item().unwrap();
        assert!(apart < 1e-5);
    });
}

#[test]
fn mistakes_are_told() {
    run(|| {
        let told = |x: DynTensor| x.error().unwrap().message().to_owned();
        let real = DynTensor::zeros([4, 3], DType::F32);
        let expected = "fft: takes complex numbers [.., n, 2], but got f32[4,3]";
        assert_eq!(told(fft::fft(&real)), expected);
        let complex = DynTensor::zeros([4, 2], DType::F32);
        let axis = fft::fft_with(&complex, Options { dim: 1, ..Options::default() });
        assert_eq!(told(axis), "fft: there is no axis 1 of complex numbers in f32[4,2]");
        assert!(told(fft::rfft(&DynTensor::zeros([0], DType::F32))).contains("no elements"));
        let whole = fft::fft(&DynTensor::zeros([4, 2], DType::I64));
        assert_eq!(told(whole), "fft: takes f32 or f64, but got i64[4,2]");
        let long = fft::stft(&real, &Stft { center: false, ..Stft::new(8) });
        assert_eq!(told(long), "stft: f32[4,3] is shorter than a part of 8");
        assert!(told(fft::istft(&complex, &Stft::new(8), None)).contains("no transforms of 8"));
        let none = Stft { hop_length: Some(0), ..Stft::new(8) };
        assert!(told(fft::stft(&real, &none)).contains("one every 0"));
        let window = Some(DynTensor::ones([9], DType::F32));
        let wide = Stft { window, ..Stft::new(8) };
        assert!(told(fft::stft(&real, &wide)).contains("a window Some([9]) for parts of 8"));
    });
}
