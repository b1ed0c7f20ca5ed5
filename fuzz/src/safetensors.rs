//! The reader of safetensors files never panics on any bytes. Tensors that are read are written and
//! read back as they were.

use bytes::Bytes;
use gt_ir::HostTensor;
use gt_lang::io::safetensors::{from_bytes, to_bytes};
use gt_lang::state::StateDict;

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(state) = from_bytes(&Bytes::copy_from_slice(bytes), "x.safetensors") {
        let written = to_bytes(&state).expect("what was read can be written");
        let again = from_bytes(&Bytes::from(written), "x.safetensors");
        let again = again.expect("what was written is read");
        assert!(again.iter().map(|(name, _)| name).eq(state.iter().map(|(name, _)| name)));
        for ((name, again), (_, read)) in again.iter().zip(state.iter()) {
            assert!(again.ty().same_layout(read.ty()) && again.bytes() == read.bytes(), "{name}");
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let tensors = [("fc.weight", HostTensor::scalar(1.5_f32)), ("step", HostTensor::scalar(7_i64))];
    let state = StateDict::from_iter(tensors.map(|(name, value)| (name.to_owned(), value)));
    let header = r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let foreign = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
    vec![to_bytes(&state).expect("a small state"), foreign]
}
