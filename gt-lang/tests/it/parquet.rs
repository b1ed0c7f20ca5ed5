//! Columns of Parquet files: every kind of numbers exactly, lists, missing numbers, streams, and
//! files that are damaged.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use bytes::Bytes;
use gt::data::ParquetStream;
use gt::io::parquet;
use gt::prelude::*;
use gt_ir::testing::Source;

use crate::files::damaged;
use crate::run;

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

/// A file of this schema, each of whose groups of rows a function writes. It is packed by gzip if
/// there is one group, and else by Snappy.
fn file(schema: &str, groups: usize, fill: impl Fn(usize, &mut Group<'_>)) -> Bytes {
    let schema = Arc::new(parse_message_type(&format!("message x {{ {schema} }}")).unwrap());
    let packed =
        if groups == 1 { Compression::GZIP(Default::default()) } else { Compression::SNAPPY };
    let properties = WriterProperties::builder().set_compression(packed).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for i in 0..groups {
        let mut group = writer.next_row_group().unwrap();
        fill(i, &mut group);
        group.close().unwrap();
    }
    writer.into_inner().unwrap().into()
}

/// Writes the next column: values, and the levels that tell where they are.
fn column<T: DataType>(group: &mut Group<'_>, values: &[T::T], levels: Option<(&[i16], &[i16])>) {
    let mut writer = group.next_column().unwrap().unwrap();
    let repeated = levels.map(|(_, repeated)| repeated).filter(|levels| !levels.is_empty());
    writer.typed::<T>().write_batch(values, levels.map(|(defined, _)| defined), repeated).unwrap();
    writer.close().unwrap();
}

fn read(bytes: &Bytes) -> parquet::Reader {
    parquet::from_bytes(bytes, "x").unwrap()
}

#[test]
fn numbers_keep_their_values() {
    let schema = "required boolean b; required int32 i; required int32 u8 (INTEGER(8, false)); \
        required int32 u32 (INTEGER(32, false)); required int64 l; required int64 u64 \
        (INTEGER(64, false)); required float f; required double d; required fixed_len_byte_array \
        (2) h (FLOAT16); required int32 day (DATE); required group s { required int32 of; }";
    let bytes = file(schema, 2, |i, group| {
        let i = i as i32;
        column::<BoolType>(group, &[i == 0, true], None);
        column::<Int32Type>(group, &[i32::MIN, i], None);
        column::<Int32Type>(group, &[255, i], None);
        column::<Int32Type>(group, &[-1, i], None);
        column::<Int64Type>(group, &[i64::MIN, i64::from(i)], None);
        column::<Int64Type>(group, &[i64::MAX, i64::from(i)], None);
        column::<FloatType>(group, &[0.1, i as f32], None);
        column::<DoubleType>(group, &[0.1, f64::from(i)], None);
        let halves = [[0, 0x3c], [0, 0xc0]].map(|half| FixedLenByteArray::from(half.to_vec()));
        column::<FixedLenByteArrayType>(group, &halves, None);
        column::<Int32Type>(group, &[20_000, i], None);
        column::<Int32Type>(group, &[7, i], None);
    });
    let file = read(&bytes);
    assert!(file.columns().eq(["b", "i", "u8", "u32", "l", "u64", "f", "d", "h", "day", "s.of"]));
    assert_eq!((file.rows(), file.row_groups()), (4, 2));
    let get = |name: &str| file.get(name).unwrap();
    assert_eq!(get("b").to_vec::<bool>().unwrap(), [true, true, false, true]);
    assert_eq!(get("i").to_vec::<i32>().unwrap(), [i32::MIN, 0, i32::MIN, 1]);
    assert_eq!(get("u8").to_vec::<u8>().unwrap(), [255, 0, 255, 1]);
    assert_eq!(get("u32").to_vec::<i64>().unwrap(), [4_294_967_295, 0, 4_294_967_295, 1]);
    assert_eq!(get("l").to_vec::<i64>().unwrap(), [i64::MIN, 0, i64::MIN, 1]);
    assert_eq!(get("u64").to_vec::<i64>().unwrap(), [i64::MAX, 0, i64::MAX, 1]);
    assert_eq!(get("f").to_vec::<f32>().unwrap(), [0.1, 0.0, 0.1, 1.0]);
    assert_eq!(get("d").to_vec::<f64>().unwrap(), [0.1, 0.0, 0.1, 1.0]);
    assert_eq!((get("h").ty().dtype, get("h").to_f64()), (DType::F16, vec![1., -2., 1., -2.]));
    assert_eq!(get("day").to_vec::<i32>().unwrap(), [20_000, 0, 20_000, 1]);
    assert_eq!(get("s.of").to_vec::<i32>().unwrap(), [7, 0, 7, 1]);
    assert_eq!(file.row_group(1, "i").unwrap().to_vec::<i32>().unwrap(), [i32::MIN, 1]);
    let error = file.row_group(2, "i").unwrap_err();
    assert_eq!(error.message(), "x: there is no group of rows 2, but 2 of them");
}

const LISTS: &str = "optional group v (LIST) { repeated group list { optional float element; } }";

#[test]
fn lists_of_one_length_are_matrices() {
    let whole: (&[i16], &[i16]) = (&[3; 6], &[0, 1, 1, 0, 1, 1]);
    let bytes = file(LISTS, 2, |_, group| {
        column::<FloatType>(group, &[1., 2., 3., 4., 5., 6.], Some(whole));
    });
    let value = read(&bytes).get("v").unwrap();
    assert_eq!(value.ty().to_string(), "f32[4,3]");
    assert_eq!(value.to_f64()[4..], [5., 6., 1., 2., 3., 4., 5., 6.]);

    let none = file(LISTS, 0, |_, _| ());
    assert_eq!(read(&none).get("v").unwrap().ty().to_string(), "f32[0,0]");
    type Case = (&'static [f32], &'static [i16], &'static [i16], &'static str);
    let cases: [Case; 4] = [
        (&[1., 2., 3.], &[3; 3], &[0, 1, 0], "row 1: a list of 1 numbers, where others have 2"),
        (&[1., 2.], &[3, 3, 2], &[0, 0, 0], "row 2: a number is missing"),
        (&[1.], &[1, 3], &[0, 0], "row 0: a number is missing, or a list is empty"),
        (&[1.], &[3, 0], &[0, 0], "row 1: a number is missing"),
    ];
    for (values, defined, repeated, text) in cases {
        let bytes = file(LISTS, 1, |_, group| {
            column::<FloatType>(group, values, Some((defined, repeated)));
        });
        let error = read(&bytes).get("v").unwrap_err();
        assert!(error.message().starts_with("x: v: ") && error.message().contains(text), "{error}");
        assert!(error.cure().is_some() && error.loc().file().ends_with("it/parquet.rs"), "{error}");
    }
}

#[test]
fn what_is_missing_is_nan_or_an_error() {
    let schema = "optional float f; optional int64 i; optional binary t (STRING); required \
        binary raw; required int64 cents (DECIMAL(10, 2)); required int64 u (INTEGER(64, false)); \
        repeated group s { required int32 a; required int32 b; }";
    let texts = ["läuft", "runs"].map(ByteArray::from);
    let bytes = file(schema, 1, |_, group| {
        column::<FloatType>(group, &[1.5, 2.5], Some((&[1, 0, 1], &[])));
        column::<Int64Type>(group, &[1, 2], Some((&[1, 1, 0], &[])));
        column::<ByteArrayType>(group, &texts, Some((&[1, 0, 1], &[])));
        column::<ByteArrayType>(group, &["a", "b", "c"].map(ByteArray::from), None);
        column::<Int64Type>(group, &[1, 2, 3], None);
        column::<Int64Type>(group, &[1, -2, 3], None);
        column::<Int32Type>(group, &[1, 2, 3], Some((&[1; 3], &[0; 3])));
        column::<Int32Type>(group, &[1, 2, 3], Some((&[1; 3], &[0; 3])));
    });
    let file = read(&bytes);
    let floats = file.get("f").unwrap().to_f64();
    assert!(floats[0] == 1.5 && floats[1].is_nan() && floats[2] == 2.5, "{floats:?}");
    assert_eq!(file.texts("t").unwrap(), ["läuft", "", "runs"]);
    for (name, text) in [
        ("i", "x: i: row 2: a number is missing"),
        ("u", "x: u: row 1: a number is out of range"),
        ("t", "x: t: a column of texts"),
        ("raw", "x: raw: a column of bytes, which is not read here"),
        ("cents", "x: cents: a column of decimal fractions"),
        ("s.a", "x: s.a: a list of structures"),
        ("z", "x: there is no column `z`"),
    ] {
        let error = file.get(name).unwrap_err();
        assert!(error.message().starts_with(text), "{error}");
        assert!(error.cure().is_some() && error.loc().file().ends_with("it/parquet.rs"), "{error}");
    }
    let error = file.texts("f").unwrap_err();
    assert_eq!(error.message(), "x: f: not a column of texts");
}

#[test]
fn files_are_datasets_and_streams() {
    let folder = tempfile::tempdir().unwrap();
    let path = |i: usize| folder.path().join(format!("{i}.parquet"));
    let schema = format!("{LISTS} required int64 label;");
    for i in 0..2 {
        let bytes = file(&schema, 2, |j, group| {
            let row = (4 * i + 2 * j) as i64;
            let values: Vec<f32> = (2 * row..2 * row + 4).map(|v| v as f32).collect();
            column::<FloatType>(group, &values, Some((&[3; 4], &[0, 1, 0, 1])));
            column::<Int64Type>(group, &[row, row + 1], None);
        });
        std::fs::write(path(i), bytes).unwrap();
    }
    run(|| {
        let file = parquet::open(path(1)).unwrap();
        let columns = ["v", "label"].map(|name| file.get(name).unwrap());
        let set = TensorDataset::new(columns.to_vec()).unwrap();
        assert_eq!(set.get(3).unwrap()[0].to_f64(), [14.0, 15.0]);

        // The third file is missed when the stream comes to it.
        let stream = ParquetStream::new((0..3).map(path), ["v", "label"]);
        let config = gt::data::StreamConfig { batch_size: 4, ..Default::default() };
        let mut loader = gt::data::StreamLoader::new(stream, config).unwrap();
        let mut batches = loader.epoch();
        for i in 0..2 {
            let batch = batches.next().unwrap().unwrap();
            assert_eq!(batch[0].ty().to_string(), "f32[4,2]");
            let labels: Vec<i64> = (4 * i..4 * i + 4).collect();
            assert_eq!(batch[1].to_vec::<i64>().unwrap(), labels);
        }
        let error = batches.next().unwrap().unwrap_err();
        assert!(error.message().contains("2.parquet: No such file"), "{error}");
        assert!(error.loc().file().ends_with("it/parquet.rs"), "{error}");
    });
}

#[test]
fn damaged_tables_are_errors_or_of_some_numbers() {
    let schema = format!("{LISTS} required int64 label; optional binary t (STRING);");
    let whole = file(&schema, 2, |i, group| {
        let values: Vec<f32> = (0..60).map(|v| v as f32).collect();
        let repeated: Vec<i16> = (0..60).map(|i| i16::from(i % 3 > 0)).collect();
        column::<FloatType>(group, &values, Some((&[3; 60], &repeated)));
        column::<Int64Type>(group, &(0..20).map(|v| v * v + i as i64).collect::<Vec<_>>(), None);
        let texts: Vec<ByteArray> =
            (0..20).map(|i| ByteArray::from(format!("text {i}").as_str())).collect();
        column::<ByteArrayType>(group, &texts, Some((&[1; 20], &[])));
    });
    let load = |bytes: &[u8]| -> Result<usize> {
        let file = parquet::from_bytes(&Bytes::copy_from_slice(bytes), "x")?;
        let names: Vec<String> = file.columns().map(str::to_owned).collect();
        let arrays = names.iter().filter(|name| *name != "t").map(|name| file.get(name));
        let total = arrays.map(|array| Ok(array?.bytes().len())).sum::<Result<usize>>()?;
        let texts =
            if names.iter().any(|name| name == "t") { file.texts("t")? } else { Vec::new() };
        Ok(total + texts.iter().map(String::len).sum::<usize>())
    };
    let size = load(&whole).unwrap();
    for n in 0..whole.len() {
        let error = load(&whole[..n]).unwrap_err();
        assert!(error.message().starts_with("x: "), "{error}");
        assert!(error.loc().file().ends_with("it/parquet.rs"), "{error}");
    }
    let mut source = Source::from_seed(0);
    let mut refused = 0;
    for _ in 0..3000 {
        match load(&damaged(&whole, &mut source)) {
            Ok(total) => assert!(total <= 64 * size, "{total} of {size} bytes"),
            Err(error) => {
                assert!(error.message().starts_with("x: "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1500, "{refused} of 3000 refused");
}
