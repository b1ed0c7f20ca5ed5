//! Cases for `cargo xtask onnx`: a file of a function, and another file with inputs and results.
//!
//! They are written to the folder that `GT_ONNX_CASES` names, and nowhere without it. The second
//! file is an ONNX file as well, whose initializers are the values.

use std::path::PathBuf;

use gt_ir::HostTensor;
use prost::Message as _;

use super::super::proto::ModelProto;
use super::super::{OnnxConfig, to_bytes};
use crate::core::DynTensor;
use crate::error::Result;
use crate::reference::Reference;

/// Runs a program in a session of its own, seeded with 0.
pub(super) fn run<R>(program: impl FnOnce() -> R) -> R {
    let (session, _system) = Reference::session();
    session.manual_seed(0);
    let _current = session.enter();
    program()
}

/// The file, read again.
pub(super) fn decoded(bytes: &[u8]) -> ModelProto {
    ModelProto::decode(bytes).unwrap()
}

/// Writes a case: a file, and what it gets and gives.
pub(super) fn keep(name: &str, file: &[u8], inputs: &[HostTensor], results: &[HostTensor]) {
    let Some(folder) = std::env::var_os("GT_ONNX_CASES").map(PathBuf::from) else { return };
    std::fs::write(folder.join(format!("{name}.onnx")), file).unwrap();
    let tensors: Vec<DynTensor> =
        inputs.iter().chain(results).map(|x| DynTensor::from_host(x.clone())).collect();
    let names = |what: &str, n: usize| (0..n).map(|i| format!("{what}_{i}")).collect::<Vec<_>>();
    let names = [names("input", inputs.len()), names("output", results.len())].concat();
    let named = names.into_iter().zip(tensors.iter().cloned()).collect();
    let config = OnnxConfig { tensors: named, ..OnnxConfig::default() };
    let none: &[&DynTensor] = &[];
    let values = to_bytes(none, |_| tensors.clone(), &config).unwrap();
    std::fs::write(folder.join(format!("{name}.values")), values).unwrap();
}

/// Exports a function of tensors, computes it on them, and writes the case.
pub(super) fn case(
    name: &str,
    inputs: &[&DynTensor],
    f: impl Fn(&[DynTensor]) -> Vec<DynTensor>,
    config: &OnnxConfig,
) -> Result<ModelProto> {
    let bytes = to_bytes(inputs, |x| f(&x), config)?;
    let given: Vec<DynTensor> = inputs.iter().map(|x| (*x).clone()).collect();
    let results = f(&given);
    let read = |all: &[DynTensor]| all.iter().map(DynTensor::to_host).collect::<Result<Vec<_>>>();
    keep(name, &bytes, &read(&given)?, &read(&results)?);
    Ok(decoded(&bytes))
}
