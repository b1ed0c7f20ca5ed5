//! Complex numbers in files: those of PyTorch, NumPy and safetensors (`tests/fixtures/make.py`),
//! round trips, and damaged files.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use gt::io::{npy, pth, safetensors};
use gt::prelude::*;
use gt_ir::testing::Source;

use crate::files::damaged;
use crate::run;

type C = Complex<f64>;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn c(re: f64, im: f64) -> C {
    Complex::new(re, im)
}

/// The matrix of the fixtures.
fn matrix() -> Vec<C> {
    vec![c(1., 2.), c(3., -4.), c(5., 6.), c(7., -8.), c(0., 0.5), c(-1., 0.)]
}

/// Sizes, dtype of the parts, and numbers of pairs.
fn numbers(pairs: &HostTensor) -> (Vec<usize>, DType, Vec<C>) {
    let z = pairs.to_f64().chunks(2).map(|pair| c(pair[0], pair[1])).collect();
    (pairs.ty().shape.sizes().to_vec(), pairs.ty().dtype, z)
}

#[test]
fn what_pytorch_saved_is_read() {
    let state = pth::load(fixture("complex.pth")).unwrap();
    let all = matrix();
    let turned = [0, 2, 4, 1, 3, 5].map(|at| all[at]).to_vec();
    let conjugates: Vec<C> = all.iter().map(C::conj).collect();
    let negated: Vec<C> = all[..2].iter().map(|z| -z).collect();
    let both: Vec<C> = all[2..4].iter().map(|z| -z.conj()).collect();
    let f32 = DType::F32;
    for (name, want) in [
        ("z", (vec![3, 2, 2], f32, all)),
        ("wide", (vec![1, 2], DType::F64, vec![c(1.25, -2.0)])),
        ("turned", (vec![2, 3, 2], f32, turned)),
        ("conj", (vec![3, 2, 2], f32, conjugates)),
        ("one", (vec![2], f32, vec![c(2., -3.)])),
        ("neg", (vec![2, 2], f32, negated)),
        ("both", (vec![2, 2], f32, both)),
    ] {
        assert_eq!(numbers(state.get(name).unwrap()), want, "{name}");
    }
    assert_eq!(state.get("f").unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(state.len(), 8);
}

#[test]
fn what_numpy_and_safetensors_saved_is_read() {
    let narrow = npy::load(fixture("complex64.npy")).unwrap();
    assert_eq!(numbers(&narrow), (vec![3, 2, 2], DType::F32, matrix()));
    // In column-major order.
    let wide = npy::load(fixture("complex128.npy")).unwrap();
    assert_eq!(numbers(&wide), (vec![3, 2, 2], DType::F64, matrix()));
    // The bytes are NumPy's but for its blanks, which are as many as ours.
    let theirs = std::fs::read(fixture("complex64.npy")).unwrap();
    assert_eq!(npy::complex_to_bytes(&narrow).unwrap(), theirs);
    let state = safetensors::load(fixture("complex.safetensors")).unwrap();
    assert_eq!(numbers(state.get("z").unwrap()), (vec![3, 2, 2], DType::F32, matrix()));
    assert_eq!(state.get("f").unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn complex_tensors_come_back() {
    run(|| {
        let folder = tempfile::tempdir().unwrap();
        let (array, file) = (folder.path().join("z.npy"), folder.path().join("z.safetensors"));
        for dtype in [ComplexDType::C64, ComplexDType::C128] {
            for sizes in [vec![], vec![5], vec![0, 3], vec![2, 1, 4]] {
                let z = ComplexTensor::randn(&sizes, dtype);
                let pairs = z.to_host().unwrap();
                npy::save_complex(&array, &pairs).unwrap();
                assert_eq!(npy::load(&array).unwrap(), pairs);
                let back = ComplexTensor::from_pairs(&DynTensor::from_host(pairs.clone()));
                assert_eq!((back.sizes(), back.dtype()), (sizes, dtype));
                let mut state = StateDict::new();
                state.insert("z", pairs.clone());
                state.insert("pairs", pairs);
                let saved = safetensors::save_complex(&file, &state, &["z"]);
                if dtype == ComplexDType::C128 {
                    let error = saved.unwrap_err();
                    assert!(error.message().contains("z: complex numbers are pairs"), "{error}");
                    continue;
                }
                saved.unwrap();
                assert_eq!(safetensors::load(&file).unwrap(), state);
                assert_eq!(safetensors::map(&file).unwrap(), state);
                let bytes = std::fs::read(&file).unwrap();
                let header = String::from_utf8_lossy(&bytes).into_owned();
                assert_eq!(header.matches(r#""C64""#).count(), 1, "{header}");
            }
        }
    });
}

#[test]
fn what_is_not_complex_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("z");
    let of = |sizes: &[usize], dtype| {
        gt_ir::testing::tensor(
            gt_ir::Type { dtype, shape: gt_ir::Shape::new(sizes).unwrap() },
            &mut Source::from_seed(0),
        )
    };
    for bad in [of(&[2, 3], DType::F32), of(&[], DType::F32), of(&[2], DType::I64)] {
        for error in
            [npy::save_complex(&at, &bad).unwrap_err(), npy::complex_to_bytes(&bad).unwrap_err()]
        {
            let want = format!("complex numbers are pairs [.., 2] of f32 or f64, not {}", bad.ty());
            assert!(error.message().ends_with(&want), "{error}");
            assert!(error.cure().is_some() && error.loc().file().ends_with("complex_files.rs"));
        }
        let state = StateDict::from_iter([("x".to_owned(), bad)]);
        for name in ["x", "y"] {
            let error = safetensors::save_complex(&at, &state, &[name]).unwrap_err();
            assert!(error.message().contains(&format!("{name}: ")), "{error}");
        }
    }
    assert!(!at.exists());
    // More axes than a tensor has, with that of the pairs.
    let text = "{'descr': '<c8', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1), }\n";
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.extend([0; 8]);
    assert!(npy::from_bytes(&Bytes::from(bytes), "x").is_err());
}

#[test]
fn damaged_files_are_errors_or_what_they_say() {
    type Load = fn(&Bytes) -> Result<usize>;
    let array: Load = |bytes| npy::from_bytes(bytes, "x").map(|array| array.bytes().len());
    let formats: [(&str, Load); 4] = [
        ("complex64.npy", array),
        ("complex128.npy", array),
        ("complex.pth", |bytes| pth::from_bytes(bytes, "x").map(|state| state.len())),
        ("complex.safetensors", |bytes| safetensors::from_bytes(bytes, "x").map(|s| s.len())),
    ];
    for (i, (name, load)) in formats.into_iter().enumerate() {
        let whole = std::fs::read(fixture(name)).unwrap();
        let mut source = Source::from_seed(i as u64);
        for _ in 0..300 {
            match load(&Bytes::from(damaged(&whole, &mut source))) {
                Ok(total) => assert!(total <= 8 * whole.len(), "{name}: {total} bytes"),
                Err(error) => assert!(error.message().starts_with("x: "), "{error}"),
            }
        }
    }
}
