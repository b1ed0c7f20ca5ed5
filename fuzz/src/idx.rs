//! The readers of the files of MNIST and CIFAR never panic on any bytes. What is read has the bytes
//! that stand in the file.

use bytes::Bytes;
use gt_lang::io::cifar::{self, Labels};
use gt_lang::io::idx;

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(array) = idx::from_bytes(&Bytes::copy_from_slice(bytes), "x-idx3-ubyte") {
        let size = array.bytes().len();
        let is_packed = bytes.starts_with(&[0x1f, 0x8b]);
        assert!(is_packed || bytes.len() == size + 4 + 4 * usize::from(bytes[3]), "{}", array.ty());
    }
    for labels in [Labels::Ten, Labels::Hundred] {
        if let Ok(rows) = cifar::from_bytes(bytes, labels, "x.bin") {
            let n = rows.labels.ty().shape.numel();
            assert_eq!(rows.images.bytes().len(), n * 3 * 32 * 32);
            assert_eq!(rows.coarse.is_some(), labels == Labels::Hundred);
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let bytes = [&[0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3][..], &[7; 6]].concat();
    let floats = [&[0, 0, 13, 1, 0, 0, 0, 2][..], &[63, 128, 0, 0, 64, 0, 0, 0]].concat();
    // `bytes`, packed: stored in a block of its own.
    let block = [&[1, 18, 0, 237, 255][..], &bytes].concat();
    let end = [&0x3392_833f_u32.to_le_bytes()[..], &18_u32.to_le_bytes()].concat();
    let packed = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255][..], &block, &end].concat();
    let cifar = [&[3][..], &[9; 3072]].concat();
    vec![bytes, floats, packed, cifar]
}
