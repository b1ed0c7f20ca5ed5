//! The reader of GGUF files never panics on any bytes, and takes no more memory than the blocks of
//! a file stand for.

use bytes::Bytes;
use gt_ir::DType;
use gt_lang::io::gguf::from_bytes;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(file) = from_bytes(&Bytes::copy_from_slice(bytes), "x.gguf") else { return };
    let mut total = 0;
    for name in file.names() {
        if let Ok(value) = file.get(name) {
            total += value.bytes().len();
            let halves = file.get_as(name, DType::Bf16);
            assert_eq!(halves.is_ok(), value.ty().dtype.is_float(), "{name}");
        }
    }
    // Four bits become 32.
    assert!(total <= 8 * bytes.len(), "{total} bytes");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let kinds: [(u32, u64, usize); 6] =
        [(0, 2, 8), (2, 32, 18), (8, 32, 34), (12, 256, 144), (14, 256, 210), (27, 3, 24)];
    kinds.map(|(kind, n, bytes)| file(kind, n, bytes)).to_vec()
}

/// A file with a value, a list of texts, and a tensor of one row.
fn file(kind: u32, n: u64, bytes: usize) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    let mut add = |bytes: &[u8]| file.extend_from_slice(bytes);
    add(&1_u64.to_le_bytes());
    add(&2_u64.to_le_bytes());
    add(&text("layers"));
    add(&[4_u32, 12].map(u32::to_le_bytes).concat());
    add(&text("tokens"));
    add(&[9_u32, 8].map(u32::to_le_bytes).concat());
    add(&1_u64.to_le_bytes());
    add(&text("a"));
    add(&text("weight"));
    add(&1_u32.to_le_bytes());
    add(&n.to_le_bytes());
    add(&kind.to_le_bytes());
    add(&0_u64.to_le_bytes());
    let start = file.len().next_multiple_of(32);
    file.resize(start, 0);
    file.resize(start + bytes, 1);
    file
}
