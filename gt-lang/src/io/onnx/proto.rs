//! The messages of ONNX's `onnx.proto` that are written: those of IR version 9, with the fields
//! that programs of tensors need.
//!
//! Guarantees: numbers of fields and of dtypes are those of the format. Fields whose presence has a
//! meaning are optional. Does not: have the fields of training, functions, sparse tensors,
//! sequences and data outside of the file; a reader skips those.

use bytes::Bytes;
use gt_ir::{DType, HostTensor, Type};
use prost::Message;

/// A program, with the versions that it is written in.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelProto {
    /// The version of the format.
    #[prost(int64, optional, tag = "1")]
    pub(super) ir_version: Option<i64>,
    /// Who made it.
    #[prost(string, optional, tag = "2")]
    pub(super) producer_name: Option<String>,
    /// The version of who made it.
    #[prost(string, optional, tag = "3")]
    pub(super) producer_version: Option<String>,
    /// What it computes.
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<GraphProto>,
    /// The sets of operators that it is made of.
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
}

/// A set of operators.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSetIdProto {
    /// Empty for ONNX's own.
    #[prost(string, optional, tag = "1")]
    pub(super) domain: Option<String>,
    /// Its version.
    #[prost(int64, optional, tag = "2")]
    pub(super) version: Option<i64>,
}

/// Nodes in an order in which each comes after what it uses.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphProto {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeProto>,
    /// A name.
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    /// Values that are part of the program.
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
    /// Values that are given.
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfoProto>,
    /// Results.
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfoProto>,
}

/// An operator applied to values, which have names.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeProto {
    /// The operands; one that is left out has an empty name.
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    /// The results.
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    /// A name.
    #[prost(string, optional, tag = "3")]
    pub(super) name: Option<String>,
    /// The operator.
    #[prost(string, optional, tag = "4")]
    pub(super) op_type: Option<String>,
    /// What the operator is told besides its operands.
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeProto>,
}

/// An attribute: one of the fields between name and type is there.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    /// A float.
    #[prost(float, optional, tag = "2")]
    pub(super) f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub(super) i: Option<i64>,
    /// A text.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) s: Option<Vec<u8>>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub(super) t: Option<TensorProto>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub(super) ints: Vec<i64>,
    /// Which of them is there.
    #[prost(int32, optional, tag = "20")]
    pub(super) r#type: Option<i32>,
}

/// A tensor with its contents.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    /// The sizes.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(super) dims: Vec<i64>,
    /// The dtype.
    #[prost(int32, optional, tag = "2")]
    pub(super) data_type: Option<i32>,
    /// The name.
    #[prost(string, optional, tag = "8")]
    pub(super) name: Option<String>,
    /// The elements in row-major order, little-endian.
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(super) raw_data: Option<Bytes>,
}

/// A value that is given or asked for.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfoProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub(super) r#type: Option<TypeProto>,
}

/// The type of a value, which is a tensor here.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeProto {
    /// The type of a tensor.
    #[prost(message, optional, tag = "1")]
    pub(super) tensor_type: Option<TensorTypeProto>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorTypeProto {
    /// The dtype.
    #[prost(int32, optional, tag = "1")]
    pub(super) elem_type: Option<i32>,
    /// The shape.
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShapeProto>,
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShapeProto {
    /// The dimensions.
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<DimensionProto>,
}

/// `TensorShapeProto.Dimension`, of a known size.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DimensionProto {
    /// The size.
    #[prost(int64, optional, tag = "1")]
    pub(super) dim_value: Option<i64>,
}

/// The number of a dtype.
pub(super) const fn number_of(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::Bf16 => 16,
    }
}

/// Sizes as the format has them.
pub(super) fn dims(sizes: &[usize]) -> Vec<i64> {
    sizes.iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX)).collect()
}

impl TensorProto {
    /// A tensor under a name.
    pub(super) fn of(name: &str, value: &HostTensor) -> TensorProto {
        TensorProto {
            dims: dims(value.ty().shape.sizes()),
            data_type: Some(number_of(value.ty().dtype)),
            name: Some(name.to_owned()),
            raw_data: Some(value.bytes().clone()),
        }
    }
}

impl ValueInfoProto {
    /// A value of this name and type.
    pub(super) fn of(name: &str, ty: &Type) -> ValueInfoProto {
        let dims = dims(ty.shape.sizes()).into_iter();
        let dim = dims.map(|size| DimensionProto { dim_value: Some(size) }).collect();
        let tensor_type = TensorTypeProto {
            elem_type: Some(number_of(ty.dtype)),
            shape: Some(TensorShapeProto { dim }),
        };
        ValueInfoProto {
            name: Some(name.to_owned()),
            r#type: Some(TypeProto { tensor_type: Some(tensor_type) }),
        }
    }
}

/// An attribute of this type, as the format numbers types, without a value.
fn attribute(name: &str, ty: i32) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), r#type: Some(ty), ..Default::default() }
}

impl AttributeProto {
    /// A float.
    pub(super) fn float(name: &str, value: f64) -> AttributeProto {
        AttributeProto { f: Some(value as f32), ..attribute(name, 1) }
    }

    /// An integer.
    pub(super) fn int(name: &str, value: i64) -> AttributeProto {
        AttributeProto { i: Some(value), ..attribute(name, 2) }
    }

    /// A text.
    pub(super) fn text(name: &str, value: &str) -> AttributeProto {
        AttributeProto { s: Some(value.as_bytes().to_vec()), ..attribute(name, 3) }
    }

    /// A tensor without a name.
    pub(super) fn tensor(name: &str, value: &HostTensor) -> AttributeProto {
        let tensor = TensorProto { name: None, ..TensorProto::of("", value) };
        AttributeProto { t: Some(tensor), ..attribute(name, 4) }
    }

    /// Integers.
    pub(super) fn ints(name: &str, values: impl IntoIterator<Item = i64>) -> AttributeProto {
        AttributeProto { ints: values.into_iter().collect(), ..attribute(name, 7) }
    }
}
