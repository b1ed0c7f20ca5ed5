//! The reader of PyTorch's files never panics on any bytes. The first byte chooses whether the rest
//! is the whole file or the pickle in an archive, whose checksums a fuzzer does not guess.

use std::io::{Cursor, Write};

use bytes::Bytes;
use gt_lang::io::pth::from_bytes;
use zip::write::{SimpleFileOptions, ZipWriter};

pub(crate) fn check(bytes: &[u8]) {
    let Some((is_file, rest)) = bytes.split_first() else { return };
    let file = if *is_file == 0 { rest.to_vec() } else { archive(rest) };
    let _ = from_bytes(&Bytes::from(file), "x.pth");
}

/// An archive of this pickle and one storage of two floats.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let plain = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let storage = [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat();
    for (name, bytes) in [("a/data.pkl", pickle), ("a/data/0", &storage)] {
        writer.start_file(name, plain).expect("a short name");
        writer.write_all(bytes).expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything").into_inner()
}

/// A short text as pickles write it.
fn text(word: &str) -> Vec<u8> {
    [b"X", &(word.len() as u32).to_le_bytes()[..], word.as_bytes()].concat()
}

/// `{"epoch": 3, "w": a tensor of two elements}`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let pickle = [
        b"\x80\x02}(".to_vec(),
        text("epoch"),
        b"K\x03".to_vec(),
        text("w"),
        b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        text("storage"),
        b"ctorch\nFloatStorage\n".to_vec(),
        text("0"),
        text("cpu"),
        b"K\x02tQK\0K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRu.".to_vec(),
    ]
    .concat();
    let file = archive(&pickle);
    let read = from_bytes(&Bytes::from(file.clone()), "x.pth").expect("the seed is a state");
    assert_eq!(read.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["epoch", "w"]);
    vec![[&[0], &file[..]].concat(), [&[1], &pickle[..]].concat()]
}
