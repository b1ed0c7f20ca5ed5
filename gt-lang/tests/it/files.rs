//! Files: what PyTorch and NumPy wrote is read, what is written is read back, and what is damaged
//! is refused without harm.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::path::{Path, PathBuf};

use gt::io::{csv, npy, pth, safetensors};
use gt::prelude::*;
use gt_ir::testing::Source;
use gt_ir::{HostTensor, Shape};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn matrix(rows: usize, columns: usize) -> HostTensor {
    let shape = Shape::from_dims(&[rows, columns].map(gt_ir::Dim::new)).unwrap();
    HostTensor::from_vec((0..rows * columns).map(|i| i as f32 / 3.0).collect(), shape).unwrap()
}

fn state() -> StateDict {
    let mut state = StateDict::new();
    state.insert("a.weight", matrix(3, 4));
    state.insert("a.bias", matrix(1, 4));
    state.insert("b", matrix(0, 2));
    state.insert_number("steps", 17_i64);
    state.insert_number("on", true);
    state.insert_number("byte", 200_u8);
    state
}

#[test]
fn every_dtype_comes_back_from_bytes() {
    let ones = |dtype: DType, sizes: &[usize]| {
        let ty = gt_ir::Type::new(dtype, Shape::new(sizes).unwrap());
        HostTensor::new(ty, bytes::Bytes::from(vec![1; ty.bytes()])).unwrap()
    };
    let sizes: [&[usize]; 3] = [&[2, 0, 3], &[2, 3], &[]];
    let all = DType::ALL
        .iter()
        .flat_map(|dtype| sizes.map(|sizes| (format!("{dtype}{sizes:?}"), ones(*dtype, sizes))));
    let state = StateDict::from_iter(all);
    let file = bytes::Bytes::from(safetensors::to_bytes(&state).unwrap());
    assert_eq!(safetensors::from_bytes(&file, "memory").unwrap(), state);

    let mask = StateDict::from_iter([("mask".to_owned(), ones(DType::Bool, &[2]))]);
    let mut file = safetensors::to_bytes(&mask).unwrap();
    *file.last_mut().unwrap() = 2;
    let error = safetensors::from_bytes(&file.into(), "memory").unwrap_err();
    let told = error.message();
    assert!(told.starts_with("memory: mask: ") && told.ends_with("neither 0 nor 1"), "{error}");
}

#[test]
fn what_pytorch_saved_is_read() {
    let state = pth::load(fixture("whole.pth")).unwrap();
    let text = std::fs::read_to_string(fixture("whole.json")).unwrap();
    let want: serde_json::Value = serde_json::from_str(&text).unwrap();
    let dtypes = [
        ("torch.float32", DType::F32),
        ("torch.float64", DType::F64),
        ("torch.float16", DType::F16),
        ("torch.bfloat16", DType::Bf16),
        ("torch.int64", DType::I64),
        ("torch.int32", DType::I32),
        ("torch.uint8", DType::U8),
        ("torch.bool", DType::Bool),
        ("float", DType::F64),
        ("int", DType::I64),
        ("bool", DType::Bool),
    ];
    for (name, want) in want.as_object().unwrap() {
        let got = state.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        let dtype = dtypes.iter().find(|(theirs, _)| *theirs == want[0]).unwrap().1;
        assert_eq!(got.ty().dtype, dtype, "{name}");
        let numbers = |v: &serde_json::Value| -> Vec<f64> {
            v.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
        };
        let sizes: Vec<f64> = got.ty().shape.sizes().iter().map(|&s| s as f64).collect();
        assert_eq!(sizes, numbers(&want[1]), "{name}");
        // The parser of the test's own numbers may be off by the last bit.
        let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 1e-15 * w.abs();
        let (got, want) = (got.to_f64(), numbers(&want[2]));
        assert!(got.len() == want.len() && got.iter().zip(&want).all(near), "{name}");
    }
    assert_eq!(state.len(), want.as_object().unwrap().len());
    // The model alone has the same tensors, under their own names.
    assert_eq!(pth::load(fixture("model.pth")).unwrap(), state.part("model"));
}

#[test]
fn a_pickle_that_wants_more_than_states_do_is_refused() {
    let error = pth::load(fixture("hostile.pth")).unwrap_err();
    assert!(error.message().contains("the file mentions `collections.Counter`"), "{error}");
    let error = pth::load(fixture("whole.json")).unwrap_err();
    assert!(error.message().ends_with("not a zip archive, as torch.save writes them"), "{error}");
}

/// A `.pth` of this pickle and one storage of eight bytes.
fn archive(at: &Path, pickle: &[u8]) {
    use std::io::Write;
    let mut writer = zip::ZipWriter::new(std::fs::File::create(at).unwrap());
    writer.start_file("a/data.pkl", zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(pickle).unwrap();
    writer.start_file("a/data/0", zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(&[0; 8]).unwrap();
    writer.finish().unwrap();
}

#[test]
fn pickles_made_to_harm_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("a.pth");
    let told = |pickle: &[u8]| {
        archive(&at, pickle);
        pth::load(&at).unwrap_err().message().to_owned()
    };
    // os.system('x'), the usual one.
    let message = told(b"\x80\x02cos\nsystem\nX\x01\0\0\0x\x85R.");
    assert!(message.contains("the file mentions `os.system`"), "{message}");
    // A dictionary in itself; thirty that hold the one before twice, a tree of 2^30; a deep tuple.
    assert!(told(b"}q\0X\x01\0\0\0ah\0s.").contains("nested too deep"));
    let mut twice = b"}q\0".to_vec();
    for i in 1..=30 {
        twice.extend([b'}', b'q', i, b'K', 0, b'h', i - 1, b's', b'K', 1, b'h', i - 1, b's']);
    }
    twice.push(b'.');
    assert!(told(&twice).contains("nested too deep"));
    let mut deep = b"}K\0)".to_vec();
    deep.extend(std::iter::repeat_n(0x85, 1_000_000));
    deep.extend(b"s.");
    assert!(told(&deep).contains("nested too deep"));
    // Elements outside of a storage, and a shape of more than there is.
    for (offset, size) in [(b"K\x05", b"K\x02"), (b"K\0", b"K\xff")] {
        let mut pickle = b"}K\0ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n\
            FloatStorage\nX\x01\0\0\0\x30X\x03\0\0\0cpuK\x02tQ"
            .to_vec();
        pickle.extend(offset);
        pickle.extend(size);
        pickle.extend(b"\x85K\x01\x85\x89}tRs.");
        assert!(told(&pickle).contains("0: elements outside of storage 0"));
    }
    assert!(told(b"}").contains("cut off"));
    assert!(told(b"K\x01.").contains("a number, not a dictionary"));
    assert!(told(b"i").contains("pickle instruction 0x69"));
}

#[test]
fn what_numpy_saved_is_read() {
    let plain = npy::load_npz(fixture("plain.npz")).unwrap();
    assert_eq!(plain, npy::load_npz(fixture("packed.npz")).unwrap());
    let of = |name: &str| plain.get(name).unwrap();
    assert_eq!(of("f4").to_vec::<f32>().unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    assert_eq!(of("f8").to_vec::<f64>().unwrap(), [0.1]);
    assert_eq!(of("i8").to_vec::<i64>().unwrap(), [-2, -1, 0, 1, 2]);
    assert_eq!(of("u1").to_vec::<u8>().unwrap(), [255]);
    assert_eq!(of("b1").to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(of("i4").ty().to_string(), "i32[0,2]");
    assert_eq!(of("f2").ty().to_string(), "f16[1]");
    assert_eq!(of("turned").to_vec::<i32>().unwrap(), (0..24).collect::<Vec<_>>());
    assert_eq!(*of("turned"), npy::load(fixture("turned.npy")).unwrap());
    let error = npy::load(fixture("text.npy")).unwrap_err();
    assert!(error.message().ends_with("its dtype `<U1` has no counterpart here"), "{error}");
    assert!(error.cure().unwrap().contains("astype"), "{error}");
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let (state, at) = (state(), |name: &str| folder.path().join(name));
    safetensors::save(at("s"), &state).unwrap();
    assert_eq!(safetensors::load(at("s")).unwrap(), state);
    // A mapping outlives the file's replacement.
    let mapped = safetensors::map(at("s")).unwrap();
    safetensors::save(at("s"), &StateDict::new()).unwrap();
    assert_eq!((mapped, safetensors::load(at("s")).unwrap().len()), (state.clone(), 0));
    npy::save_npz(at("z"), &state).unwrap();
    assert_eq!(npy::load_npz(at("z")).unwrap(), state);
    npy::save(at("n"), &matrix(2, 5)).unwrap();
    assert_eq!(npy::load(at("n")).unwrap(), matrix(2, 5));
    // Nothing else is left in the folder, and nothing half written.
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["n", "s", "z"]);
    let error = safetensors::save(at("no/such"), &state).unwrap_err();
    assert!(error.message().contains("no/such"), "{error}");
}

#[test]
fn a_model_in_several_files() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("model.safetensors.index.json");
    safetensors::save_sharded(&index, &state(), 40).unwrap();
    let shards = std::fs::read_dir(folder.path()).unwrap().count() - 1;
    assert!(shards > 2, "{shards}");
    assert_eq!(safetensors::map_sharded(&index).unwrap(), state());
    std::fs::write(&index, r#"{"weight_map":{"a":"../a.safetensors"}}"#).unwrap();
    let error = safetensors::map_sharded(&index).unwrap_err();
    assert!(
        error.message().contains("which does not name a file in the folder of the index"),
        "{error}"
    );
    std::fs::write(&index, "{}").unwrap();
    assert!(safetensors::map_sharded(&index).unwrap_err().message().contains("no `weight_map`"));
}

#[test]
fn tables() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t.csv");
    let shape = Shape::from_dims(&[2, 2].map(gt_ir::Dim::new)).unwrap();
    let values = HostTensor::from_vec(vec![0.1, 1e300, -3.0, 1.0 / 3.0], shape).unwrap();
    let table = csv::Table { columns: vec!["x".into(), "a \"b\", c".into()], values };
    csv::save(&at, &table).unwrap();
    assert_eq!(csv::load(&at, csv::Header::Yes).unwrap(), table);
    std::fs::write(&at, "1, 2\n3,\n").unwrap();
    let got = csv::load(&at, csv::Header::No).unwrap();
    assert_eq!(got.values.ty().to_string(), "f64[2,2]");
    assert!(got.values.to_f64()[3].is_nan());
    std::fs::write(&at, "a,b\n1,2\n3,four\n").unwrap();
    let error = csv::load(&at, csv::Header::Yes).unwrap_err();
    assert!(error.message().ends_with("line 3, column b: `four` is not a number"), "{error}");
    std::fs::write(&at, "1,2\n3\n").unwrap();
    assert!(csv::load(&at, csv::Header::No).is_err());
}

/// Bytes with one to four of them changed, or an end cut off, or both.
pub(crate) fn damaged(whole: &[u8], source: &mut Source<'_>) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    if source.chance(1, 2) {
        bytes.truncate(source.below(whole.len()));
    }
    for _ in 0..source.below(5) {
        let at = source.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = if source.chance(1, 2) {
                source.bits() as u8
            } else {
                *byte ^ 1 << source.below(8)
            };
        }
    }
    bytes
}

#[test]
fn damaged_files_are_errors_or_what_they_say_never_worse() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("file");
    safetensors::save(&at, &state()).unwrap();
    let tensors = std::fs::read(&at).unwrap();
    type Load = fn(&Path) -> Result<StateDict>;
    let formats: [(Vec<u8>, Load); 6] = [
        (tensors.clone(), |p| safetensors::load(p)),
        (tensors, |p| safetensors::map(p)),
        (std::fs::read(fixture("whole.pth")).unwrap(), |p| pth::load(p)),
        (std::fs::read(fixture("plain.npz")).unwrap(), |p| npy::load_npz(p)),
        (std::fs::read(fixture("packed.npz")).unwrap(), |p| npy::load_npz(p)),
        (std::fs::read(fixture("turned.npy")).unwrap(), |p| {
            npy::load(p).map(|value| StateDict::from_iter([("x".to_owned(), value)]))
        }),
    ];
    for (i, (whole, load)) in formats.iter().enumerate() {
        let mut source = Source::from_seed(i as u64);
        let mut refused = 0;
        for _ in 0..400 {
            let bytes = damaged(whole, &mut source);
            std::fs::write(&at, &bytes).unwrap();
            match load(&at) {
                Ok(read) => {
                    // Checksums tell every change of our own files; where there are none, contents
                    // may differ but not their size.
                    assert!(i != 0 || read == state() || bytes.len() != whole.len(), "format {i}");
                    let total: usize = read.iter().map(|(_, value)| value.bytes().len()).sum();
                    assert!(total <= 100 * whole.len(), "format {i}: {total} bytes");
                }
                Err(error) => {
                    assert!(error.message().starts_with(&at.display().to_string()), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 200, "format {i}: {refused} of 400 refused");
    }
}

/// The pickle of a `.pth` on its own, so that checksums of the archive do not stand in the way of
/// the damage.
#[test]
fn damaged_pickles_are_errors_or_what_they_say_never_worse() {
    use std::io::{Read, Write};
    let mut archive =
        zip::ZipArchive::new(std::fs::File::open(fixture("whole.pth")).unwrap()).unwrap();
    let mut entries = Vec::new();
    for i in 0..archive.len() {
        let mut file = archive.by_index(i).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        entries.push((file.name().unwrap().into_owned(), bytes));
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("file.pth");
    let mut source = Source::from_seed(9);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..500 {
        let mut writer = zip::ZipWriter::new(std::fs::File::create(&at).unwrap());
        for (name, bytes) in &entries {
            let options = zip::write::SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Stored);
            writer.start_file(name.as_str(), options).unwrap();
            let changed = if name.ends_with("data.pkl") {
                damaged(bytes, &mut source)
            } else {
                bytes.clone()
            };
            writer.write_all(&changed).unwrap();
        }
        writer.finish().unwrap();
        match pth::load(&at) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 150 && read > 0, "{refused} refused, {read} read");
}

/// Places are the user's, not this crate's: here, this file's.
#[test]
fn errors_of_files_stand_at_the_users_line() {
    crate::run(|| {
        let folder = tempfile::tempdir().unwrap();
        let nothing = folder.path().join("nothing");
        let torn = folder.path().join("torn.safetensors");
        std::fs::write(&torn, b"torn").unwrap();
        let other = folder.path().join("other.safetensors");
        safetensors::save(&other, &state()).unwrap();
        let mut net: Linear<N<3>, N<2>> = Linear::new();
        let errors = [
            safetensors::load(&nothing).unwrap_err(),
            safetensors::load(&torn).unwrap_err(),
            safetensors::map(&torn).unwrap_err(),
            safetensors::map_sharded(&nothing).unwrap_err(),
            npy::load(&nothing).unwrap_err(),
            npy::load(&torn).unwrap_err(),
            npy::load_npz(&torn).unwrap_err(),
            pth::load(&nothing).unwrap_err(),
            pth::load(&torn).unwrap_err(),
            csv::load(&nothing, csv::Header::No).unwrap_err(),
            csv::load(&torn, csv::Header::No).unwrap_err(),
            net.load_state_dict(&state()).unwrap_err(),
            gt::io::checkpoint::load(&other, &mut [("net", &mut net)]).unwrap_err(),
        ];
        for error in errors {
            assert!(error.loc().file().ends_with("it/files.rs"), "{error}");
        }
        // A folder that is not there, one in a file's place, and names that are none.
        let missing = folder.path().join("missing").join("x.json");
        let (x, table) = (matrix(2, 2), csv::Table { columns: vec![], values: matrix(2, 2) });
        let errors = [
            safetensors::open(&torn).unwrap_err(),
            safetensors::open(&other).unwrap().get("c").unwrap_err(),
            safetensors::save(&missing, &state()).unwrap_err(),
            safetensors::save_sharded(&missing, &state(), 40).unwrap_err(),
            npy::save(&missing, &x).unwrap_err(),
            npy::save_npz(&missing, &state()).unwrap_err(),
            csv::save(&missing, &table).unwrap_err(),
            gt::io::checkpoint::save(&missing, &[("net", &net)]).unwrap_err(),
            gt::logger::RunLogger::new(torn.join("run"), &["loss"], 1).err().unwrap(),
            state().number::<f64>("steps").unwrap_err(),
            state().number::<f64>("stepz").unwrap_err(),
        ];
        for error in &errors {
            assert!(error.loc().file().ends_with("it/files.rs"), "{error}");
        }
        for error in &errors[2..8] {
            assert!(error.message().contains("there is no folder"), "{error}");
            assert!(error.cure().unwrap().contains("create_dir_all"), "{error}");
        }
        assert!(errors[9].message().ends_with("is i64[], not a single f64"), "{}", errors[9]);
        assert_eq!(errors[10].cure(), Some("did you mean `steps`?"));
    });
}

/// Names under a prefix, as parallel training writes them, are said to be that.
#[test]
fn a_state_under_a_prefix_says_how_to_take_it_out() {
    crate::run(|| {
        let mut net: Linear<N<3>, N<2>> = Linear::new();
        let mut wrapped = StateDict::new();
        wrapped.nest("module", net.state_dict().unwrap());
        let error = net.load_state_dict(&wrapped).unwrap_err();
        assert!(error.cure().unwrap().contains("state.part(\"module\")"), "{error}");
        net.load_state_dict(&wrapped.part("module")).unwrap();
        let error = net.load_state_dict(&StateDict::new()).unwrap_err();
        assert_eq!(error.cure(), None);
    });
}
