//! How the examples of a batch become its tensors: PyTorch's `collate_fn`.

use gt_ir::{DType, Dim, HostTensor, Shape, Type};

use super::unplaced;
use crate::error::Result;

/// An example of a batch.
#[derive(Clone, Debug)]
pub struct Example {
    /// Its number in the dataset, or in the epoch of a stream.
    pub index: usize,
    /// Its tensors.
    pub tensors: Vec<HostTensor>,
}

/// Makes the tensors of a batch of its examples, of which there is at least one. Functions do.
pub trait Collate: Send + Sync + 'static {
    /// The tensors of the batch.
    ///
    /// # Errors
    /// The examples do not fit together; the loader hands the error on.
    fn collate(&self, examples: &[Example]) -> Result<Vec<HostTensor>>;
}

impl<F: Fn(&[Example]) -> Result<Vec<HostTensor>> + Send + Sync + 'static> Collate for F {
    fn collate(&self, examples: &[Example]) -> Result<Vec<HostTensor>> {
        self(examples)
    }
}

/// Stacks the tensors along a new first axis. They must have equal types and shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack;

impl Collate for Stack {
    fn collate(&self, examples: &[Example]) -> Result<Vec<HostTensor>> {
        (0..width(examples)?).map(|part| stacked(examples, part)).collect()
    }
}

/// Stacks tensors whose first axes differ, made equally long by padding behind them: PyTorch's
/// `pad_sequence`. Other tensors of the examples are stacked as they are.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::{Pad, PadMarks};
/// # fn f(sentences: impl Dataset) -> Result<()> {
/// // Tokens and labels of sentences; the loss leaves out what is -100.
/// let pad = Pad::new([(0, 0.0), (1, -100.0)]).multiple_of(32).marks(PadMarks::Mask);
/// let config = LoaderConfig { batch_size: 16, ..Default::default() };
/// let mut loader = DataLoader::new(sentences, config)?.with_collate(pad);
/// let batch = loader.epoch().next().unwrap()?;
/// let (tokens, labels, mask) = (&batch[0], &batch[1], &batch[2]); // [16, longest] each
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    parts: Vec<(usize, f64)>,
    multiple_of: usize,
    marks: PadMarks,
}

/// What a batch says of its padding, in tensors behind the others: one for each part that is
/// padded, in the order in which [`Pad::new`] lists them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PadMarks {
    /// Nothing.
    #[default]
    None,
    /// `bool[batch, longest]`: true where there is data.
    Mask,
    /// `i64[batch]`: the lengths before padding.
    Lengths,
}

impl Pad {
    /// Pads these tensors of the examples, each with the number beside it.
    pub fn new(parts: impl IntoIterator<Item = (usize, f64)>) -> Pad {
        let parts = parts.into_iter().collect();
        Pad { parts, multiple_of: 1, marks: PadMarks::None }
    }

    /// Rounds lengths up to a multiple. Each length is another program to compile, so that few
    /// different ones are faster than short ones.
    #[must_use]
    pub fn multiple_of(self, n: usize) -> Pad {
        Pad { multiple_of: n.max(1), ..self }
    }

    /// Says what the batch tells of its padding.
    #[must_use]
    pub fn marks(self, marks: PadMarks) -> Pad {
        Pad { marks, ..self }
    }

    /// What the batch says of the padding of tensors of these lengths.
    fn mark(&self, lengths: &[usize], longest: usize) -> Option<Result<HostTensor>> {
        let n = lengths.len();
        let rows = |data: Vec<bool>| host(DType::Bool, &[n, longest], bytes_of(data));
        match self.marks {
            PadMarks::None => None,
            PadMarks::Mask => {
                let row = |&length: &usize| (0..longest).map(move |i| i < length);
                Some(rows(lengths.iter().flat_map(row).collect()))
            }
            PadMarks::Lengths => {
                let data = lengths.iter().map(|n| *n as i64).collect();
                Some(host(DType::I64, &[n], bytes_of::<i64>(data)))
            }
        }
    }
}

impl Collate for Pad {
    fn collate(&self, examples: &[Example]) -> Result<Vec<HostTensor>> {
        let width = width(examples)?;
        if let Some((part, _)) = self.parts.iter().find(|(part, _)| *part >= width) {
            let what = format!("pad: examples have {width} tensors, and no number {part}");
            return Err(unplaced(what).hint("`Pad::new` takes numbers of tensors, from 0"));
        }
        let (mut tensors, mut marks) = (vec![None; width], Vec::new());
        for &(part, value) in &self.parts {
            let lengths = lengths(examples, part)?;
            let longest = lengths.iter().max().copied().unwrap_or(0);
            let longest = longest.next_multiple_of(self.multiple_of);
            tensors[part] = Some(padded(examples, part, longest, value)?);
            marks.extend(self.mark(&lengths, longest).transpose()?);
        }
        let rest = tensors.into_iter().enumerate();
        let all = rest.map(|(part, made)| made.map_or_else(|| stacked(examples, part), Ok));
        all.chain(marks.into_iter().map(Ok)).collect()
    }
}

/// The number of tensors of each example.
fn width(examples: &[Example]) -> Result<usize> {
    let n = examples.first().map_or(0, |example| example.tensors.len());
    match examples.iter().find(|example| example.tensors.len() != n) {
        None => Ok(n),
        Some(Example { index, tensors }) => {
            let odd = tensors.len();
            let what = format!("data loader: example {index} has {odd} tensors, others {n}");
            Err(unplaced(what).hint("a dataset gives as many for each example"))
        }
    }
}

/// One tensor of each example, along a new first axis.
fn stacked(examples: &[Example], part: usize) -> Result<HostTensor> {
    let ty = *examples[0].tensors[part].ty();
    let mut bytes = Vec::with_capacity(ty.bytes() * examples.len());
    for Example { index, tensors } in examples {
        let value = &tensors[part];
        if value.ty().dtype != ty.dtype || !value.ty().shape.same_sizes(&ty.shape) {
            let odd = value.ty();
            let what = format!("data loader: example {index} is {odd}, others are {ty}");
            let hint = "examples of a batch have one shape: pad them by \
                        `with_collate(Pad::new(..))`, or take batches of 1";
            return Err(unplaced(what).hint(hint));
        }
        bytes.extend_from_slice(value.bytes());
    }
    let dims: Vec<Dim> = [Dim::new(examples.len())].into_iter().chain(ty.shape.dims()).collect();
    of_dims(ty.dtype, &dims, bytes)
}

/// The sizes of one tensor of each example along its first axis; all else about them is equal.
fn lengths(examples: &[Example], part: usize) -> Result<Vec<usize>> {
    let first = *examples[0].tensors[part].ty();
    let behind = |ty: &Type| ty.shape.sizes().get(1..).map(<[usize]>::to_vec);
    let length = |Example { index, tensors }: &Example| {
        let ty = tensors[part].ty();
        match ty.shape.sizes().first() {
            Some(n) if ty.dtype == first.dtype && behind(ty) == behind(&first) => Ok(*n),
            Some(_) => {
                let what = format!("pad: tensor {part} of example {index} is {ty}, others {first}");
                Err(unplaced(what).hint("only the first axes of padded tensors may differ"))
            }
            None => {
                let what =
                    format!("pad: tensor {part} of example {index} is {ty}, without an axis");
                Err(unplaced(what).hint("leave it out of `Pad::new`: it is stacked as it is"))
            }
        }
    };
    examples.iter().map(length).collect()
}

/// One tensor of each example, with padding up to a length.
fn padded(examples: &[Example], part: usize, longest: usize, value: f64) -> Result<HostTensor> {
    let ty = *examples[0].tensors[part].ty();
    let mut dims: Vec<Dim> =
        [Dim::new(examples.len())].into_iter().chain(ty.shape.dims()).collect();
    dims[1] = Dim::new(longest);
    let row: usize = dims[1..].iter().map(|dim| dim.size).product::<usize>() * ty.dtype.size();
    let value = number(ty.dtype, value);
    let mut bytes = Vec::with_capacity(row * examples.len());
    for (i, example) in examples.iter().enumerate() {
        bytes.extend_from_slice(example.tensors[part].bytes());
        let missing = ((i + 1) * row - bytes.len()) / ty.dtype.size();
        bytes.extend(std::iter::repeat_n(&value[..], missing).flatten());
    }
    of_dims(ty.dtype, &dims, bytes)
}

/// The bytes of a number in a dtype.
fn number(dtype: DType, value: f64) -> bytes::Bytes {
    match dtype {
        DType::F32 => bytes_of(vec![value as f32]),
        DType::F64 => bytes_of(vec![value]),
        DType::Bf16 => bytes_of(vec![half::bf16::from_f64(value)]),
        DType::F16 => bytes_of(vec![half::f16::from_f64(value)]),
        DType::I64 => bytes_of(vec![value as i64]),
        DType::I32 => bytes_of(vec![value as i32]),
        DType::U8 => bytes_of(vec![value as u8]),
        DType::Bool => bytes_of(vec![value != 0.0]),
    }
}

fn bytes_of<T: gt_ir::Element>(data: Vec<T>) -> bytes::Bytes {
    T::into_bytes(data)
}

fn host(dtype: DType, sizes: &[usize], bytes: bytes::Bytes) -> Result<HostTensor> {
    let dims: Vec<Dim> = sizes.iter().map(|n| Dim::new(*n)).collect();
    of_dims(dtype, &dims, bytes)
}

fn of_dims(dtype: DType, dims: &[Dim], bytes: impl Into<bytes::Bytes>) -> Result<HostTensor> {
    let told = |e: gt_ir::OpError| unplaced(format!("data loader: {}", e.message));
    let shape = Shape::from_dims(dims).map_err(told)?;
    HostTensor::new(Type { dtype, shape }, bytes.into()).map_err(told)
}
