//! Files that hold what there is no counterpart for here: nothing of it is left out or changed
//! silently, and the rest is read.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::path::Path;

use gt::io::{pth, safetensors};
use gt::prelude::*;
use gt_ir::HostTensor;
use gt_ir::testing::Source;

/// A text as pickles write it.
fn text(word: &str) -> Vec<u8> {
    [b"X", &(word.len() as u32).to_le_bytes()[..], word.as_bytes()].concat()
}

/// A name that pickles mention.
fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// The call of a rebuilder with two elements of a storage, and what follows the strides.
fn call(rebuilder: &str, class: &str, rest: &[u8]) -> Vec<u8> {
    let mut out = [global("torch._utils", rebuilder), b"((".to_vec(), text("storage")].concat();
    out.extend([global("torch", class), text("0"), text("cpu"), b"K\x02tQ".to_vec()].concat());
    out.extend([b"K\0K\x02\x85K\x01\x85", rest, b"tR"].concat());
    out
}

/// What follows the strides of an ordinary tensor.
fn ordinary() -> Vec<u8> {
    [b"\x89".to_vec(), global("collections", "OrderedDict"), b")R".to_vec()].concat()
}

/// `{"model": {"a": 1, "w": VALUE}}`.
fn saved(value: &[u8]) -> Vec<u8> {
    let inner = [b"}(".to_vec(), text("a"), b"K\x01".to_vec(), text("w"), value.to_vec()].concat();
    [b"\x80\x02}".to_vec(), text("model"), inner, b"us.".to_vec()].concat()
}

/// Reads a `.pth` of this pickle whose storage holds 1.5 and -2.
fn load(pickle: &[u8]) -> Result<StateDict> {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("a.pth");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&at).unwrap());
    let numbers = [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat();
    for (name, bytes) in [("a/data.pkl", pickle), ("a/data/0", &numbers[..])] {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
    pth::load(&at)
}

fn floats(state: &StateDict) -> Vec<f32> {
    state.get("model.w").unwrap().to_vec().unwrap()
}

/// Tensors with lazy changes: the flag and whether it is on.
fn changed(flag: &str, on: bool) -> Vec<u8> {
    let switch = if on { b"\x88" } else { b"\x89" };
    let flags = [b"}(".to_vec(), text(flag), switch.to_vec(), b"u".to_vec()].concat();
    call("_rebuild_tensor_v2", "FloatStorage", &[ordinary(), flags].concat())
}

#[test]
fn a_tensor_negated_lazily_has_the_other_sign() {
    let plain = call("_rebuild_tensor_v2", "FloatStorage", &ordinary());
    assert_eq!(floats(&load(&saved(&plain)).unwrap()), [1.5, -2.0]);
    assert_eq!(floats(&load(&saved(&changed("neg", true))).unwrap()), [-1.5, 2.0]);
    assert_eq!(floats(&load(&saved(&changed("neg", false))).unwrap()), [1.5, -2.0]);
}

/// Any flag that is on and not understood is an error with the tensor, the flag and the cure.
#[test]
fn other_lazy_changes_are_refused() {
    let mut source = Source::from_seed(3);
    for _ in 0..50 {
        let flag: String =
            (0..=source.below(9)).map(|_| char::from(b'a' + source.below(26) as u8)).collect();
        if flag == "neg" {
            continue;
        }
        let error = load(&saved(&changed(&flag, true))).unwrap_err();
        assert!(error.message().contains("model.w: the tensor's values"), "{error}");
        assert!(error.message().contains(&format!("`{flag}`")), "{error}");
        assert!(error.cure().is_some(), "{error}");
    }
    assert!(load(&saved(&changed("conj", true))).is_err());
}

#[test]
fn tensors_of_other_kinds_name_themselves_and_a_cure() {
    let cases = [
        ("_rebuild_qtensor", "FloatStorage", "model.w: a quantized tensor", "dequantize"),
        ("_rebuild_parameter_with_state", "FloatStorage", "model.w: a tensor of a class", "detach"),
        ("_rebuild_from_type_v2", "FloatStorage", "model.w: a tensor of a class", "detach"),
        ("_rebuild_sparse_tensor", "FloatStorage", "model.w: a sparse tensor", "to_dense"),
        ("_rebuild_meta_tensor_no_storage", "FloatStorage", "device `meta`", "values"),
        ("_rebuild_tensor_v2", "CharStorage", "small integers", "int()"),
        ("_no_such_thing", "FloatStorage", "model.w: the file mentions", "state_dict"),
    ];
    for (rebuilder, class, what, cure) in cases {
        let error = load(&saved(&call(rebuilder, class, &ordinary()))).unwrap_err();
        assert!(error.message().contains(what), "{error}");
        assert!(error.cure().unwrap().contains(cure), "{error}");
    }
}

#[test]
fn what_is_more_or_less_than_a_tensor_is_refused() {
    let of = |rest: &[u8]| load(&saved(&call("_rebuild_tensor_v2", "FloatStorage", rest)));
    // A hook, something behind the changes, no changes but a number.
    for rest in [b"\x89K\x01".to_vec(), [ordinary(), b"}K\x01".to_vec()].concat()] {
        assert!(of(&rest).unwrap_err().message().contains("model.w: the tensor has more to it"));
    }
    // A storage of more elements than the archive has bytes for.
    let error =
        load(&saved(&call("_rebuild_tensor_v2", "DoubleStorage", &ordinary()))).unwrap_err();
    assert!(error.message().contains("storage 0 has 8 bytes, not 2 elements of f64"), "{error}");
    // A bare class, which is neither a tensor nor a number.
    let error = load(&saved(&global("torch", "FloatStorage"))).unwrap_err();
    assert!(error.message().contains("model.w: a class or function is neither"), "{error}");
    // Two values of one name.
    let twice = [b"}(".to_vec(), text("1"), b"K\x01K\x01K\x02u.".to_vec()].concat();
    assert!(load(&twice).unwrap_err().message().contains("two values are called `1`"));
    let error = load(b"]K\x01a.").unwrap_err();
    assert!(error.message().contains("what was saved is a list"), "{error}");
}

/// A file of these dtypes, each with one tensor `t0`, `t1` .. of four bytes.
fn tensors(at: &Path, dtypes: &[&str]) {
    let entries = dtypes.iter().enumerate().map(|(i, dtype)| {
        let n = if *dtype == "F32" { 1 } else { 4 };
        let (from, to) = (4 * i, 4 * i + 4);
        format!(r#""t{i}":{{"dtype":"{dtype}","shape":[{n}],"data_offsets":[{from},{to}]}}"#)
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    for i in 0..dtypes.len() {
        bytes.extend((i as f32).to_le_bytes());
    }
    std::fs::write(at, bytes).unwrap();
}

#[test]
fn tensors_beside_those_of_other_dtypes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t.safetensors");
    for foreign in ["I8", "F8_E4M3", "C32", "NEVER_HEARD_OF"] {
        tensors(&at, &["F32", foreign, "F32"]);
        let file = safetensors::open(&at).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["t0", "t1", "t2"]);
        assert_eq!(file.get("t2").unwrap().to_vec::<f32>().unwrap(), [2.0]);
        let readable = file.readable().unwrap();
        assert_eq!(readable.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["t0", "t2"]);
        for error in [
            file.get("t1").unwrap_err(),
            file.state().unwrap_err(),
            safetensors::load(&at).unwrap_err(),
            safetensors::map(&at).unwrap_err(),
        ] {
            assert!(error.message().contains(&format!("`t1` is {foreign}, a dtype without")));
            assert!(error.cure().unwrap().contains("readable()"), "{error}");
            assert!(error.loc().file().ends_with("it/foreign.rs"), "{error}");
        }
    }
    tensors(&at, &["I8"; 9]);
    let error = safetensors::load(&at).unwrap_err();
    assert!(error.message().contains("`t4` is I8 and 4 more are like that"), "{error}");
    assert!(safetensors::open(&at).unwrap().get("t9").unwrap_err().message().contains("no tensor"));
}

/// The format's own crate writes; names of any letters, empty tensors too.
#[test]
fn what_the_formats_own_crate_writes_is_read() {
    let mut source = Source::from_seed(5);
    for _ in 0..100 {
        let mut state = StateDict::new();
        for i in 0..source.below(5) {
            let n = source.below(4);
            let shape = gt_ir::Shape::new(&[n, 2]).unwrap();
            let values = (0..2 * n).map(|_| source.bits() as f32).collect();
            state.insert(format!("n{i}\n\"é"), HostTensor::from_vec(values, shape).unwrap());
        }
        let bytes = bytes::Bytes::from(safetensors::to_bytes(&state).unwrap());
        assert_eq!(safetensors::from_bytes(&bytes, "memory").unwrap(), state);
    }
}
