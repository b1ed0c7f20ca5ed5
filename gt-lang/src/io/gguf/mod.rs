//! The GGUF format of `llama.cpp`: tensors, also quantized ones, and values about the model. Mapped
//! into memory.
//!
//! Guarantees: names, sizes and places are validated against the file's size, and tensors do not
//! overlap. Tensors of `F32`, `F16`, `BF16`, `F64`, `I32` and `I64` share the mapping; those of
//! `Q8_0`, `Q4_0`, `Q4_K` and `Q6_K` become floats when they are asked for, by the formulas of
//! `ggml`, or stay integers ([`Reader::quantized`]). A tensor of another kind is an error where it
//! is asked for, and no hindrance to the others.
//!
//! Does not: know models, or write files.

mod blocks;
mod header;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use gt_ir::{DType, Element, HostTensor};

use super::{InFile, Refusal, file_error, mmap, tensor};
use crate::core::DynTensor;
use crate::error::Result;
use crate::quantized::{Quantized, ZERO};
use crate::state::StateDict;
use blocks::Groups;
use header::{Entry, Header, Kind};

/// A value about the model, such as its number of layers or its tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer that is not negative.
    Unsigned(u64),
    /// An integer.
    Signed(i64),
    /// A float.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(String),
    /// Several, of one kind.
    List(Vec<Value>),
}

/// An open file.
#[derive(Clone, Debug)]
pub struct Reader {
    path: PathBuf,
    header: Header,
    /// What stands behind the header.
    data: Bytes,
}

/// Opens a file and maps it as [`safetensors::map`](super::safetensors::map) does.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let file = io::gguf::open("model.gguf")?;
/// let layers = file.value("llama.block_count");
/// let weight = file.get_as("blk.0.attn_q.weight", DType::Bf16)?; // also of quantized numbers
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// The file cannot be read or is damaged.
#[track_caller]
pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
    let path = path.as_ref();
    from_bytes(&mmap::map(path)?, path)
}

/// Reads all tensors, quantized ones as `f32`. Names are those of the file; `renamed` of a
/// [`StateDict`] makes a model's names of them.
///
/// # Errors
/// As [`open`]; also when a tensor is of a kind that is not known here.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    open(path)?.state()
}

/// The file of these bytes, which its tensors share; errors name it as `path`.
///
/// # Errors
/// The file is damaged.
#[track_caller]
pub fn from_bytes(bytes: &Bytes, path: impl AsRef<Path>) -> Result<Reader> {
    let path = path.as_ref();
    let told = |why: Refusal| why.of("not a GGUF file, or a damaged one");
    let (header, start) = Header::parse(bytes).map_err(told).in_file(path)?;
    let data = bytes.slice(start.min(bytes.len())..);
    header.check(data.len()).map_err(told).in_file(path)?;
    Ok(Reader { path: path.to_owned(), header, data })
}

impl Reader {
    /// The names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.header.tensors.keys().map(String::as_str)
    }

    /// The values about the model, in the order of their names.
    pub fn values(&self) -> &BTreeMap<String, Value> {
        &self.header.values
    }

    /// The value of this name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.header.values.get(name)
    }

    /// The tensor of this name, outermost size first as everywhere here. Quantized numbers become
    /// `f32`.
    ///
    /// # Errors
    /// No tensor has this name, or its kind is not known here.
    #[track_caller]
    pub fn get(&self, name: &str) -> Result<HostTensor> {
        let entry = self.entry(name)?;
        let told = |why: Refusal| why.of(name);
        match entry.kind {
            Kind::Plain(dtype) => tensor(dtype, &entry.sizes, self.data.slice(entry.place.clone())),
            Kind::Blocks(_) => floats(&entry.sizes, self.numbers(entry), DType::F32),
            Kind::Unknown(_) => Err(entry.kind.refusal()),
        }
        .map_err(told)
        .in_file(&self.path)
    }

    /// The tensor of this name as `f32`, `bf16`, `f16` or `f64`, rounded from its numbers.
    ///
    /// # Errors
    /// As [`Reader::get`]; also when another dtype is asked for, or the tensor is of integers.
    #[track_caller]
    pub fn get_as(&self, name: &str, dtype: DType) -> Result<HostTensor> {
        let entry = self.entry(name)?;
        let numbers = match entry.kind {
            Kind::Blocks(_) => self.numbers(entry),
            Kind::Plain(own) if own == dtype => return self.get(name),
            Kind::Plain(own) if own.is_float() => {
                let value = self.get(name)?;
                value.to_f64()
            }
            Kind::Plain(_) | Kind::Unknown(_) => {
                let value = self.get(name)?;
                let what = format!("{name}: is {}, not of floats", value.ty());
                return Err(file_error(&self.path, what).hint("read it with `get`"));
            }
        };
        floats(&entry.sizes, numbers, dtype).map_err(|why| why.of(name)).in_file(&self.path)
    }

    /// The quantized matrix of this name as it is, for products that read its integers.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let file = io::gguf::open("model.gguf")?;
    /// let weight = file.quantized("blk.0.ffn_up.weight")?;
    /// let layer: QuantizedLinear = QuantizedLinear::from_parts(weight, None);
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// # Errors
    /// No tensor has this name, it is not quantized, or no matrix.
    #[track_caller]
    pub fn quantized(&self, name: &str) -> Result<Quantized> {
        let entry = self.entry(name)?;
        let (Kind::Blocks(quant), &[rows, columns]) = (entry.kind, &entry.sizes[..]) else {
            let message = format!("{name}: is no quantized matrix");
            return Err(file_error(&self.path, message).hint("read it with `get`"));
        };
        let Groups { mut numbers, scales, minima } = quant.unpack(&self.data[entry.place.clone()]);
        let n_groups = columns / quant.group();
        let is_packed = quant.has_four_bits() && n_groups.is_multiple_of(2);
        if !is_packed {
            numbers.iter_mut().for_each(|q| *q += ZERO - quant.zero());
        }
        let of_groups = |x: Vec<f32>| DynTensor::from_vec(x, [rows, n_groups]);
        let quantized = Quantized {
            numbers: DynTensor::from_vec(numbers, [rows, n_groups, quant.group()]),
            scales: of_groups(scales),
            minima: (!minima.is_empty()).then(|| of_groups(minima)),
            is_packed: false,
        };
        let quantized = if is_packed { quantized.packed() } else { quantized };
        let error = quantized.tensors().find_map(DynTensor::error);
        error.map_or(Ok(quantized), Err)
    }

    /// All tensors, quantized ones as `f32`.
    ///
    /// # Errors
    /// A tensor is of a kind that is not known here.
    #[track_caller]
    pub fn state(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        for name in self.header.tensors.keys() {
            state.insert(name, self.get(name)?);
        }
        Ok(state)
    }

    #[track_caller]
    fn entry(&self, name: &str) -> Result<&Entry> {
        match self.header.tensors.get(name) {
            Some(entry) => Ok(entry),
            None => Err(file_error(&self.path, format!("there is no tensor `{name}`"))),
        }
    }

    /// The numbers of a quantized tensor, which are `f32`.
    fn numbers(&self, entry: &Entry) -> Vec<f64> {
        match entry.kind {
            Kind::Blocks(quant) => {
                let numbers = quant.dequantize(&self.data[entry.place.clone()]);
                numbers.map(f64::from).collect()
            }
            Kind::Plain(_) | Kind::Unknown(_) => Vec::new(),
        }
    }
}

/// Floats of a dtype.
fn floats(
    sizes: &[usize],
    numbers: Vec<f64>,
    dtype: DType,
) -> std::result::Result<HostTensor, Refusal> {
    let bytes = match dtype {
        DType::F64 => f64::into_bytes(numbers),
        DType::F32 => f32::into_bytes(numbers.into_iter().map(|n| n as f32).collect()),
        DType::Bf16 => {
            half::bf16::into_bytes(numbers.into_iter().map(half::bf16::from_f64).collect())
        }
        DType::F16 => half::f16::into_bytes(numbers.into_iter().map(half::f16::from_f64).collect()),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            let refusal = Refusal::new(format!("{dtype} is no dtype of floats"));
            return Err(refusal.hint("ask for f32, bf16, f16 or f64"));
        }
    };
    tensor(dtype, sizes, bytes)
}
