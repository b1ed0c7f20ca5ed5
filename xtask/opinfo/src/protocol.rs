//! Reads cases and writes answers as frames. A frame is a length (32 bits, little-endian), JSON of
//! this length, and the contents of the tensors that the JSON lists, in their order.
//!
//! A case is `{"op", "args": [..], "kwargs": {..}, "tensors": [{"dtype", "shape"}], "leaves": [..],
//! "outer": [..], "inner": [..]}`. The last three lists hold numbers of tensors: the tensors with
//! gradients, the gradients of the results, and the gradients of the leaves' gradients. `arguments`
//! defines the form of arguments. This module does not interpret cases.

use std::io::{Error, Read, Result, Write};

use bytes::Bytes;
use gt::ir::{Shape, Type};
use gt::{DType, HostTensor};
use serde_json::{Map, Value, json};

/// The largest length that a frame may have.
const MAX_HEAD: usize = 1 << 24;

/// One operator of PyTorch with its arguments.
pub(crate) struct Case {
    pub(crate) op: String,
    pub(crate) args: Vec<Value>,
    pub(crate) kwargs: Map<String, Value>,
    pub(crate) tensors: Vec<HostTensor>,
    /// The tensors with gradients.
    pub(crate) leaves: Vec<usize>,
    /// The tensors that are gradients of the results, for each result that has one. Empty if no
    /// gradients are wanted.
    pub(crate) outer: Vec<Option<usize>>,
    /// The tensors that are gradients of the leaves' gradients.
    pub(crate) inner: Vec<Option<usize>>,
}

/// The answer to a case.
pub(crate) enum Answer {
    /// Results, then gradients of the leaves, then second gradients.
    Computed(Computed),
    /// GT does not have the operation, for this reason.
    Absent(String),
    /// GT returned this error.
    Refused(String),
    /// GT panicked.
    Panic(String),
}

/// The results of a case.
#[derive(Default)]
pub(crate) struct Computed {
    pub(crate) values: [Vec<HostTensor>; 3],
    /// The place where the plan gave different bits, or the report that no plan was made.
    pub(crate) plan: Option<String>,
    /// Whether only types are compared, because the values are random.
    pub(crate) random: bool,
}

impl Case {
    /// Reads the next case, or `None` at the end.
    pub(crate) fn read(from: &mut impl Read) -> Result<Option<Case>> {
        let mut length = [0; 4];
        if from.read(&mut length[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut length[1..])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_HEAD {
            return Err(Error::other(format!("a case of {length} bytes")));
        }
        let mut head = vec![0; length];
        from.read_exact(&mut head)?;
        let head: Value = serde_json::from_slice(&head)?;
        let list = |name: &str| head[name].as_array().cloned().unwrap_or_default();
        let numbers = |name: &str| list(name).iter().map(number).collect();
        Ok(Some(Case {
            op: head["op"].as_str().unwrap_or_default().to_owned(),
            args: list("args"),
            kwargs: head["kwargs"].as_object().cloned().unwrap_or_default(),
            tensors: list("tensors").iter().map(|ty| tensor(ty, from)).collect::<Result<_>>()?,
            leaves: list("leaves").iter().filter_map(number).collect(),
            outer: numbers("outer"),
            inner: numbers("inner"),
        }))
    }
}

fn number(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

/// Reads a tensor whose contents come next.
fn tensor(ty: &Value, from: &mut impl Read) -> Result<HostTensor> {
    let dtype: Option<DType> = ty["dtype"].as_str().and_then(|name| name.parse().ok());
    let sizes: Option<Vec<usize>> =
        ty["shape"].as_array().map(|sizes| sizes.iter().filter_map(number).collect());
    let (Some(dtype), Some(sizes)) = (dtype, sizes) else {
        return Err(Error::other(format!("{ty} is no type")));
    };
    let shape = Shape::new(&sizes).map_err(|e| Error::other(e.to_string()))?;
    let ty = Type { dtype, shape };
    let mut contents = vec![0; ty.bytes()];
    from.read_exact(&mut contents)?;
    HostTensor::new(ty, Bytes::from(contents)).map_err(|e| Error::other(e.to_string()))
}

/// Writes a frame.
pub(crate) fn write(to: &mut impl Write, head: &Value, tensors: &[HostTensor]) -> Result<()> {
    let head = head.to_string();
    let length = u32::try_from(head.len()).map_err(Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(head.as_bytes())?;
    for tensor in tensors {
        to.write_all(tensor.bytes())?;
    }
    to.flush()
}

impl Answer {
    pub(crate) fn write(&self, to: &mut impl Write) -> Result<()> {
        let why = |status: &str, why: &str| json!({"status": status, "why": why});
        match self {
            Answer::Absent(reason) => write(to, &why("absent", reason), &[]),
            Answer::Refused(reason) => write(to, &why("refused", reason), &[]),
            Answer::Panic(reason) => write(to, &why("panic", reason), &[]),
            Answer::Computed(computed) => {
                let types = |tensors: &Vec<HostTensor>| {
                    let head = |tensor: &HostTensor| {
                        let ty = tensor.ty();
                        json!({"dtype": ty.dtype.name(), "shape": ty.shape.sizes()})
                    };
                    tensors.iter().map(head).collect::<Vec<_>>()
                };
                let head = json!({
                    "status": "computed",
                    "values": computed.values.iter().map(types).collect::<Vec<_>>(),
                    "plan": computed.plan,
                    "random": computed.random,
                });
                write(to, &head, &computed.values.concat())
            }
        }
    }
}
