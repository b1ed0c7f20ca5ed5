//! Between host tensors and libtorch's: dtypes, contents, errors.
//!
//! Guarantees: every dtype, to the bit, and back. Contents are copied; a view is made contiguous on
//! its way to the host.

use gt_ir::{DType, HostTensor, Shape, Type};
use tch::{Device, Kind, TchError, Tensor};

use super::{Made, Sizes, sizes};
use crate::error::EngineError;

/// libtorch's name for a dtype.
pub const fn kind_of(dtype: DType) -> Kind {
    match dtype {
        DType::F32 => Kind::Float,
        DType::F64 => Kind::Double,
        DType::Bf16 => Kind::BFloat16,
        DType::F16 => Kind::Half,
        DType::I64 => Kind::Int64,
        DType::I32 => Kind::Int,
        DType::U8 => Kind::Uint8,
        DType::Bool => Kind::Bool,
    }
}

/// The dtype of a tensor.
///
/// # Errors
/// It is one GT has no name for.
pub fn dtype_of(x: &Tensor) -> Result<DType, EngineError> {
    let kind = x.f_kind()?;
    let dtype = DType::ALL.into_iter().find(|d| kind_of(*d) == kind);
    dtype.ok_or_else(|| EngineError::Call(format!("GT has no dtype for libtorch's {kind:?}")))
}

/// The type of a tensor, without names of dimensions.
///
/// # Errors
/// GT has no such type.
pub fn type_of(x: &Tensor) -> Result<Type, EngineError> {
    let dims: smallvec::SmallVec<[usize; 8]> = x.size().iter().map(|n| *n as usize).collect();
    Ok(Type::new(dtype_of(x)?, Shape::new(&dims)?))
}

/// Copies host data to a device.
///
/// # Errors
/// Those of libtorch: no memory, no such device.
pub fn upload(data: &HostTensor, device: Device) -> Made {
    let (ty, dims) = (data.ty(), sizes(&data.ty().shape));
    let tensor = Tensor::f_from_data_size(data.bytes(), &dims, kind_of(ty.dtype))?;
    Ok(if device == Device::Cpu { tensor } else { tensor.f_to_device(device)? })
}

/// Copies a tensor to the host.
///
/// # Errors
/// Those of libtorch, among them those of calls made earlier on a device that runs behind.
pub fn download(x: &Tensor) -> Result<HostTensor, EngineError> {
    let (ty, host) = (type_of(x)?, x.f_to_device(Device::Cpu)?.f_contiguous()?);
    let mut bytes = vec![0; ty.bytes()];
    host.f_copy_data_u8(&mut bytes, ty.shape.numel())?;
    Ok(HostTensor::new(ty, bytes.into())?)
}

impl From<crate::Device> for Device {
    fn from(device: crate::Device) -> Device {
        match device {
            crate::Device::Cpu | crate::Device::Simulated => Device::Cpu,
            crate::Device::Cuda(n) => Device::Cuda(n),
        }
    }
}

impl From<TchError> for EngineError {
    /// The first line says what is wrong; the rest is a trace through libtorch.
    fn from(error: TchError) -> EngineError {
        let text = error.to_string();
        EngineError::Torch(text.lines().next().unwrap_or_default().to_owned())
    }
}

/// The sizes of a tensor.
pub(super) fn sizes_of(x: &Tensor) -> Sizes {
    x.size().into()
}
