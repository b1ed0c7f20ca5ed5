//! Tensors in files, and as text.

use crate::fault::advised;
use crate::files;
use anyhow::{Result, anyhow};
use gt_ir::{DType, Element, HostTensor};
use gt_lang::io::safetensors;
use gt_lang::state::StateDict;
use std::path::Path;

/// The tensors of a safetensors file, by name. Data is not copied.
pub(crate) fn read(path: &Path) -> Result<StateDict> {
    safetensors::from_bytes(&files::read(path)?, files::shown(path)).map_err(|error| told(&error))
}

/// Writes a safetensors file.
pub(crate) fn write(path: &Path, tensors: &StateDict) -> Result<()> {
    let bytes = safetensors::to_bytes(tensors).map_err(|error| told(&error))?;
    files::write(path, &bytes)
}

/// The first elements of a tensor, as numbers in text.
pub(crate) fn values(tensor: &HostTensor, limit: usize) -> Vec<String> {
    let n_bytes = limit.saturating_mul(tensor.ty().dtype.size()).min(tensor.bytes().len());
    let shown = |text: &dyn std::fmt::Display| text.to_string();
    let bytes = &tensor.bytes()[..n_bytes];
    match tensor.ty().dtype {
        DType::F32 => f32::from_bytes(bytes).iter().map(|v| shown(v)).collect(),
        DType::F64 => f64::from_bytes(bytes).iter().map(|v| shown(v)).collect(),
        DType::Bf16 => half::bf16::from_bytes(bytes).iter().map(|v| shown(v)).collect(),
        DType::F16 => half::f16::from_bytes(bytes).iter().map(|v| shown(v)).collect(),
        DType::I64 => i64::from_bytes(bytes).iter().map(|v| shown(v)).collect(),
        DType::I32 => i32::from_bytes(bytes).iter().map(|v| shown(v)).collect(),
        DType::U8 => bytes.iter().map(|v| shown(v)).collect(),
        DType::Bool => bool::from_bytes(bytes).iter().map(|v| shown(v)).collect(),
    }
}

/// An error of the language, without its source location, which lies in this program.
fn told(error: &gt_lang::Error) -> anyhow::Error {
    match error.cure() {
        Some(cure) => advised(error.message(), cure),
        None => anyhow!("{}", error.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gt_ir::{Shape, Type};

    fn filled(dtype: DType, sizes: &[usize]) -> HostTensor {
        let ty = Type::new(dtype, Shape::new(sizes).unwrap());
        HostTensor::new(ty, Bytes::from(vec![1; ty.bytes()])).unwrap()
    }

    #[test]
    fn values_are_cut_at_the_limit() {
        assert_eq!(values(&filled(DType::Bool, &[3]), 2), ["true", "true"]);
        assert_eq!(values(&filled(DType::I32, &[1]), 2), ["16843009"]);
        assert_eq!(values(&filled(DType::F16, &[0]), 2), [""; 0]);
    }
}
