//! Tensors in safetensors files, as the runtime holds them. Data is not copied on the way in.

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use gt_ir::{DType, Element, HostTensor, Shape, Type};
use safetensors::{Dtype, SafeTensors, View};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The tensors of a file's bytes, by name.
pub(crate) fn parse(file: &Bytes) -> Result<BTreeMap<String, HostTensor>> {
    let views = SafeTensors::deserialize(file).context("not a safetensors file")?;
    let named = views.iter().map(|(name, view)| {
        let dtype =
            dtype_of(view.dtype()).ok_or_else(|| anyhow!("unsupported dtype {}", view.dtype()));
        let shape = Shape::new(view.shape()).map_err(anyhow::Error::from);
        let tensor = dtype.and_then(|dtype| {
            Ok(HostTensor::new(Type::new(dtype, shape?), file.slice_ref(view.data()))?)
        });
        Ok((name.to_string(), tensor.with_context(|| format!("tensor `{name}`"))?))
    });
    named.collect()
}

/// A file that holds `tensors`.
pub(crate) fn print(tensors: &BTreeMap<String, HostTensor>) -> Result<Vec<u8>> {
    let views = tensors.iter().map(|(name, tensor)| (name, Viewed(tensor)));
    safetensors::serialize(views, None).context("cannot write the outputs")
}

/// A tensor as the safetensors crate wants to see it.
struct Viewed<'a>(&'a HostTensor);

impl View for Viewed<'_> {
    fn dtype(&self) -> Dtype {
        match self.0.ty().dtype {
            DType::F32 => Dtype::F32,
            DType::F64 => Dtype::F64,
            DType::Bf16 => Dtype::BF16,
            DType::F16 => Dtype::F16,
            DType::I64 => Dtype::I64,
            DType::I32 => Dtype::I32,
            DType::U8 => Dtype::U8,
            DType::Bool => Dtype::BOOL,
        }
    }

    fn shape(&self) -> &[usize] {
        self.0.ty().shape.sizes()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0.bytes())
    }

    fn data_len(&self) -> usize {
        self.0.bytes().len()
    }
}

fn dtype_of(dtype: Dtype) -> Option<DType> {
    DType::ALL.iter().copied().find(|ours| ours.name().eq_ignore_ascii_case(&dtype.to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(dtype: DType, sizes: &[usize]) -> HostTensor {
        let ty = Type::new(dtype, Shape::new(sizes).unwrap());
        HostTensor::new(ty, Bytes::from(vec![1; ty.bytes()])).unwrap()
    }

    #[test]
    fn every_dtype_comes_back() {
        for dtype in DType::ALL {
            let shapes: [&[usize]; 3] = [&[2, 0, 3], &[2, 3], &[]];
            let tensors: BTreeMap<_, _> =
                shapes.iter().map(|sizes| (format!("{sizes:?}"), filled(dtype, sizes))).collect();
            assert_eq!(parse(&Bytes::from(print(&tensors).unwrap())).unwrap(), tensors, "{dtype}");
        }
    }

    #[test]
    fn what_is_no_safetensors_file_is_an_error() {
        for bytes in [&b""[..], b"hello", &[255; 64]] {
            assert!(parse(&Bytes::copy_from_slice(bytes)).is_err());
        }
    }

    #[test]
    fn a_bool_is_0_or_1() {
        let good = BTreeMap::from([("mask".to_string(), filled(DType::Bool, &[2]))]);
        let mut file = print(&good).unwrap();
        *file.last_mut().unwrap() = 2;
        let error = format!("{:#}", parse(&Bytes::from(file)).unwrap_err());
        assert!(
            error.starts_with("tensor `mask`: ") && error.ends_with("neither 0 nor 1"),
            "{error}"
        );
    }

    #[test]
    fn values_are_cut_at_the_limit() {
        assert_eq!(values(&filled(DType::Bool, &[3]), 2), ["true", "true"]);
        assert_eq!(values(&filled(DType::I32, &[1]), 2), ["16843009"]);
        assert_eq!(values(&filled(DType::F16, &[0]), 2), [""; 0]);
    }
}
