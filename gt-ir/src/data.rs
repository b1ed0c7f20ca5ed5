//! Tensor contents outside any engine: a type and its row-major, native-endian (little-endian)
//! bytes, shared without copying.

use bytes::Bytes;
use half::{bf16, f16};

use crate::{
    dtype::DType,
    error::OpError,
    shape::{Shape, Type},
};

/// Contents of a tensor in host memory. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    ty: Type,
    bytes: Bytes,
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is the element type of a [`DType`].
pub trait Element:
    sealed::Sealed + Copy + Send + Sync + PartialEq + std::fmt::Debug + 'static
{
    /// The dtype.
    const DTYPE: DType;
    /// Takes over a vector's memory as bytes, without copying where the layouts agree.
    fn into_bytes(data: Vec<Self>) -> Bytes;
    /// Copies elements out of bytes; trailing bytes short of an element are ignored.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
}

/// A vector lent to [`Bytes`] as its bytes.
struct Owner<T>(Vec<T>);

impl<T: bytemuck::NoUninit> AsRef<[u8]> for Owner<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

macro_rules! elements {
    ($($t:ty => $dtype:ident),*) => { $(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            fn into_bytes(data: Vec<Self>) -> Bytes {
                Bytes::from_owner(Owner(data))
            }
            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                let whole = bytes.len() - bytes.len() % size_of::<$t>();
                bytemuck::pod_collect_to_vec(&bytes[..whole])
            }
        }
    )* };
}
elements! { f32 => F32, f64 => F64, bf16 => Bf16, f16 => F16, i64 => I64, i32 => I32, u8 => U8 }

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn into_bytes(data: Vec<Self>) -> Bytes {
        Bytes::from_owner(Owner(data))
    }
    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|b| *b != 0).collect()
    }
}

impl HostTensor {
    /// A tensor from its type and contents.
    ///
    /// # Errors
    /// The number of bytes is not that of the type, or a `bool` is neither 0 nor 1.
    pub fn new(ty: Type, bytes: Bytes) -> Result<HostTensor, OpError> {
        if bytes.len() != ty.bytes() {
            return Err(OpError::new(format!(
                "{ty} takes {} bytes, but got {}",
                ty.bytes(),
                bytes.len()
            )));
        }
        // All bits together are looked at once, which takes less time than to stop at the first.
        if ty.dtype == DType::Bool && bytes.iter().fold(0, |all, b| all | b) > 1 {
            return Err(OpError::new(format!(
                "the contents of {ty} hold a byte that is neither 0 nor 1"
            )));
        }
        Ok(HostTensor { ty, bytes })
    }

    /// A tensor from a vector in row-major order, which is not copied.
    ///
    /// ```
    /// use gt_ir::{HostTensor, Shape};
    /// let x = HostTensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], Shape::new(&[2, 2])?)?;
    /// assert_eq!(x.ty().to_string(), "f32[2,2]");
    /// assert!(HostTensor::from_vec(vec![1.0f32], Shape::new(&[2])?).is_err());
    /// # Ok::<(), gt_ir::OpError>(())
    /// ```
    ///
    /// # Errors
    /// The vector's length is not the shape's number of elements.
    pub fn from_vec<T: Element>(data: Vec<T>, shape: Shape) -> Result<HostTensor, OpError> {
        if data.len() != shape.numel() {
            return Err(OpError::new(format!(
                "shape {shape} has {} elements, but got {}",
                shape.numel(),
                data.len()
            )));
        }
        Ok(HostTensor { ty: Type::new(T::DTYPE, shape), bytes: T::into_bytes(data) })
    }

    /// A single number.
    pub fn scalar<T: Element>(value: T) -> HostTensor {
        HostTensor { ty: Type::scalar(T::DTYPE), bytes: T::into_bytes(vec![value]) }
    }

    /// The type.
    pub const fn ty(&self) -> &Type {
        &self.ty
    }

    /// The contents.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The contents, taken out.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The elements, copied.
    ///
    /// ```
    /// use gt_ir::HostTensor;
    /// assert_eq!(HostTensor::scalar(7_i64).to_vec::<i64>()?, [7]);
    /// assert!(HostTensor::scalar(7_i64).to_vec::<f32>().is_err()); // nothing is cast
    /// # Ok::<(), gt_ir::OpError>(())
    /// ```
    ///
    /// # Errors
    /// The dtype is another one.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, OpError> {
        if self.ty.dtype != T::DTYPE {
            return Err(OpError::new(format!("{} cannot be read as {}", self.ty, T::DTYPE))
                .hint("cast it first"));
        }
        Ok(T::from_bytes(&self.bytes))
    }

    /// The elements as floats, whatever the dtype: for comparing and printing.
    pub fn to_f64(&self) -> Vec<f64> {
        let b = &self.bytes;
        match self.ty.dtype {
            DType::F32 => f32::from_bytes(b).into_iter().map(f64::from).collect(),
            DType::F64 => f64::from_bytes(b),
            DType::Bf16 => bf16::from_bytes(b).into_iter().map(bf16::to_f64).collect(),
            DType::F16 => f16::from_bytes(b).into_iter().map(f16::to_f64).collect(),
            DType::I64 => i64::from_bytes(b).into_iter().map(|v| v as f64).collect(),
            DType::I32 => i32::from_bytes(b).into_iter().map(f64::from).collect(),
            DType::U8 | DType::Bool => b.iter().map(|v| f64::from(*v)).collect(),
        }
    }
}
