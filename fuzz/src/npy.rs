//! The reader of `.npy` files never panics on any bytes. An array that is read is written and read
//! back as it was.

use bytes::Bytes;
use gt_ir::{DType, HostTensor, Shape};
use gt_lang::io::npy::{from_bytes, to_bytes};

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(array) = from_bytes(&Bytes::copy_from_slice(bytes), "x.npy") {
        let written = to_bytes(&array).expect("what was read can be written");
        let again = from_bytes(&Bytes::from(written), "x.npy").expect("what was written is read");
        assert!(again.ty().same_layout(array.ty()) && again.bytes() == array.bytes());
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let array = |dtype: DType, sizes: &[usize]| {
        let ty = gt_ir::Type { dtype, shape: Shape::new(sizes).expect("a shape") };
        HostTensor::new(ty, vec![1; ty.bytes()].into()).expect("as many bytes as the type has")
    };
    let arrays = [array(DType::F32, &[2, 3]), array(DType::I64, &[4]), array(DType::Bool, &[])];
    let rows = arrays.iter().map(|array| to_bytes(array).expect("NumPy has the dtype"));
    let mut seeds: Vec<Vec<u8>> = rows.collect();
    let columns = String::from_utf8_lossy(&seeds[0][10..128]).replace("False", "True ");
    seeds.push([&seeds[0][..10], columns.as_bytes(), &seeds[0][128..]].concat());
    seeds
}
