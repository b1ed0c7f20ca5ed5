//! Files of other programs: MNIST's and CIFAR's, and GGUF as `llama.cpp` writes it.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::path::Path;

use bytes::Bytes;
use gt::io::cifar::{self, Labels};
use gt::io::gguf::{self, Value};
use gt::io::{idx, npy};
use gt::prelude::*;
use gt::reference::Reference;
use gt_ir::testing::Source;

use crate::files::damaged;

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn arrays_of_mnists_format() {
    let read = |bytes: &[u8]| idx::from_bytes(&Bytes::copy_from_slice(bytes), "x");
    let bytes = [&[0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3][..], &[1, 2, 3, 4, 5, 6]].concat();
    let array = read(&bytes).unwrap();
    assert_eq!((array.ty().to_string().as_str(), &array.bytes()[..]), ("u8[2,3]", &bytes[12..]));
    assert_eq!(read(&packed(&bytes)).unwrap(), array);
    let floats =
        [&[0, 0, 13, 1, 0, 0, 0, 2][..], &1.5_f32.to_be_bytes(), &(-2.0_f32).to_be_bytes()];
    assert_eq!(read(&floats.concat()).unwrap().to_vec::<f32>().unwrap(), [1.5, -2.0]);
    for (bad, text) in [
        (&bytes[..17], "sizes [2, 3] take 6 bytes, but there are 5"),
        (&bytes[..11], "the header is cut off"),
        (&packed(&[&bytes[..], &[0]].concat()), "sizes [2, 3] take 6 bytes, but there are 7"),
        (&packed(&bytes)[..20], "unpacking: "),
        (&[1, 0, 8, 0], "does not begin with two zeros"),
        (&[0, 0, 9, 0], "(code 0x09)"),
        (&packed(&[[0, 0, 8, 2].as_slice(), &[255; 8]].concat()), "unpacks to more than"),
        (&[[0, 0, 14, 3].as_slice(), &[255; 12]].concat(), "more elements than fit"),
    ] {
        let error = read(bad).unwrap_err();
        assert!(error.message().starts_with("x: ") && error.message().contains(text), "{error}");
        assert!(error.loc().file().ends_with("it/formats.rs"), "{error}");
    }
}

#[test]
fn rows_of_cifars_format() {
    let row = |labels: &[u8]| [labels, &[7; 3072]].concat();
    let bytes = [row(&[3, 50]), row(&[19, 99])].concat();
    let rows = cifar::from_bytes(&bytes, Labels::Hundred, "x").unwrap();
    assert_eq!(rows.images.ty().to_string(), "u8[2,3,32,32]");
    assert_eq!(
        (rows.labels.to_f64(), rows.coarse.unwrap().to_f64()),
        (vec![50., 99.], vec![3., 19.])
    );
    let told =
        |bytes: &[u8], labels| cifar::from_bytes(bytes, labels, "x").unwrap_err().to_string();
    let error = told(&bytes[1..], Labels::Hundred);
    assert!(error.contains("6147 bytes are not rows of 3074 bytes"), "{error}");
    let error = told(&row(&[10]), Labels::Ten);
    assert!(error.contains("row 0 is of class 10, but there are 10"), "{error}");
}

/// What the package `gguf` of `llama.cpp` reads is read, every block to the last bit of `f32`.
#[test]
fn what_llama_cpp_writes_is_read() {
    let file = gguf::open(fixture("quantized.gguf")).unwrap();
    let want = npy::load_npz(fixture("quantized.npz")).unwrap();
    for (name, want) in want.iter() {
        let value = file.get(name).unwrap();
        assert_eq!(value.ty().shape.sizes(), want.ty().shape.sizes(), "{name}");
        assert_eq!(value.to_f64(), want.to_f64(), "{name}");
        if name.starts_with('Q') {
            assert_eq!(value.ty().dtype, DType::F32);
            let halves = file.get_as(name, DType::Bf16).unwrap();
            let near = |(a, b): (f64, f64)| (a - b).abs() <= b.abs() / 256.0;
            assert!(halves.to_f64().into_iter().zip(want.to_f64()).all(near), "{name}");
            let (session, _) = Reference::session();
            let _entered = session.enter();
            let integers = file.quantized(name).unwrap().dequantize();
            assert_eq!(integers.to_host().unwrap().to_f64(), want.to_f64(), "{name}");
        }
    }
    assert_eq!(want.len() + 1, file.names().count());
    assert_eq!(file.value("llama.block_count"), Some(&Value::Unsigned(2)));
    let tokens = ["a", "b"].map(|token| Value::Text(token.to_owned()));
    assert_eq!(file.value("tokenizer.ggml.tokens"), Some(&Value::List(tokens.to_vec())));
    for (error, text) in [
        (file.get("Q5_K"), "Q5_K: its numbers are Q5_K, which is not known here"),
        (file.get("Q9"), "there is no tensor `Q9`"),
        (file.get_as("I32", DType::F32), "I32: is i32[2,2], not of floats"),
        (file.get_as("F32", DType::I64), "F32: i64 is no dtype of floats"),
        (file.state().map(|_| unreachable!()), "which is not known here"),
        (file.quantized("F32").map(|_| unreachable!()), "F32: is no quantized matrix"),
    ] {
        let error = error.unwrap_err();
        assert!(error.message().contains(text), "{error}");
        assert!(error.loc().file().ends_with("it/formats.rs"), "{error}");
    }
}

#[test]
fn damaged_files_are_errors_or_what_they_say() {
    let images = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2][..], &[7; 8]].concat();
    let model = std::fs::read(fixture("quantized.gguf")).unwrap();
    type Load = fn(&Bytes) -> Result<usize>;
    let arrays: Load = |bytes| idx::from_bytes(bytes, "x").map(|array| array.bytes().len());
    let tensors: Load = |bytes| {
        let file = gguf::from_bytes(bytes, "x")?;
        file.names().for_each(|name| drop(file.quantized(name)));
        let values = file.names().filter_map(|name| file.get(name).ok());
        Ok(values.map(|value| value.bytes().len()).sum())
    };
    let formats = [(packed(&images), arrays), (images, arrays), (model, tensors)];
    for (i, (whole, load)) in formats.iter().enumerate() {
        let mut source = Source::from_seed(i as u64);
        let mut refused = 0;
        for _ in 0..400 {
            match load(&Bytes::from(damaged(whole, &mut source))) {
                Ok(total) => assert!(total <= 8 * whole.len(), "format {i}: {total} bytes"),
                Err(error) => {
                    assert!(error.message().starts_with("x: "), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 150, "format {i}: {refused} of 400 refused");
    }
}

#[test]
fn names_of_a_state_are_changed() {
    let state = |names: &[&str]| {
        let entry = |(name, i): (&&str, i64)| ((*name).to_owned(), HostTensor::scalar(i));
        StateDict::from_iter(names.iter().zip(0..).map(entry))
    };
    let old = state(&["blk.0.attn_q.weight", "blk.1.attn_q.weight", "rope"]);
    let new = old.renamed(|name| {
        let name = name.strip_prefix("blk.")?;
        Some(format!("layers.{}", name.replace("attn_q", "query")))
    });
    let new = new.unwrap();
    assert!(
        new.iter().map(|(name, _)| name).eq(["layers.0.query.weight", "layers.1.query.weight"])
    );
    assert_eq!(new.number::<i64>("layers.1.query.weight").unwrap(), 1);
    let error = old.renamed(|_| Some("same".to_owned())).unwrap_err();
    let want = "state: `blk.0.attn_q.weight` and `blk.1.attn_q.weight` both become `same`";
    assert_eq!(error.message(), want);
}

/// Bytes packed by gzip.
pub(crate) fn packed(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}
