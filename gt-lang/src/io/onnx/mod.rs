//! Functions and models as ONNX files, which other programs run: PyTorch's `torch.onnx.export`.
//! Feature `onnx`.
//!
//! Guarantees: the file computes what the function computes, in the same dtypes, within the
//! roundings of those who run it. The function runs once, on stand-ins of its inputs: its
//! instructions become the nodes of the graph, and the tensors that it holds become initializers
//! with their present values. The file has version 20 of ONNX's operators, and no others. An
//! instruction that cannot be written is an error at its line, and no file is written then.
//!
//! Does not: read ONNX files; leave sizes open, so a graph is for the sizes of the inputs that it
//! was made with; write gradients of a training step or optimizers; write files of more than 2 GiB,
//! for which ONNX needs several. Loops of [`control`](crate::control) are written as all of their
//! rounds.

mod emit;
mod graph;
mod proto;
mod rows;
mod signature;
mod trace;

use std::io::Write as _;
use std::path::Path;

use prost::Message as _;

use super::{InFile, Refusal, atomic};
use crate::core::DynTensor;
use crate::error::Result;
pub use signature::{Inputs, Outputs};

/// The names in an ONNX file.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let net: Linear<N<3>, N<2>> = Linear::new();
/// let names = io::onnx::OnnxConfig {
///     input_names: vec!["image".into()],
///     output_names: vec!["logits".into()],
///     tensors: net.named_tensors(), // `weight`, `bias`
/// };
/// ```
#[derive(Clone, Default)]
pub struct OnnxConfig {
    /// The names of the inputs: `input_0`, `input_1`, .. for those without.
    pub input_names: Vec<String>,
    /// The names of the results: `output_0`, `output_1`, .. for those without.
    pub output_names: Vec<String>,
    /// The names of tensors that the function holds, such as
    /// [`named_tensors`](crate::nn::Module::named_tensors) of a model: `tensor_0`, .. for others.
    pub tensors: Vec<(String, DynTensor)>,
}

/// Writes what `f` computes of these inputs as an ONNX file (feature `onnx`). PyTorch's
/// `torch.onnx.export`.
///
/// The inputs are a tuple of references, or a slice. Their dtypes and sizes count, and their values
/// do not. `f` gets tensors like them, and gives a tensor, a tuple or a vector of them, or a
/// `Result` with these. Layers belong into evaluation.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let mut net: Linear<N<3>, N<2>> = Linear::new();
/// net.eval();
/// let x: T![8, 3] = Tensor::zeros();
/// io::onnx::export("net.onnx", (&x,), |(x,)| net.forward(&x))?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// That of `f`, an instruction that ONNX has no operator for, such as random numbers and
/// decompositions of matrices, an `f` that reads a value or changes what outlives it, or a file
/// that cannot be written.
#[track_caller]
pub fn export<I: Inputs, O: Outputs>(
    path: impl AsRef<Path>,
    inputs: I,
    f: impl FnOnce(I::Given) -> O,
) -> Result<()> {
    export_with(path, inputs, f, &OnnxConfig::default())
}

/// As [`export`], with names.
///
/// # Errors
/// As [`export`]; also more names than there are inputs or results.
#[track_caller]
pub fn export_with<I: Inputs, O: Outputs>(
    path: impl AsRef<Path>,
    inputs: I,
    f: impl FnOnce(I::Given) -> O,
    config: &OnnxConfig,
) -> Result<()> {
    let path = path.as_ref();
    let bytes = to_bytes(inputs, f, config)?;
    atomic::write(path, |file| file.write_all(&bytes))
}

/// The contents of the file that [`export_with`] writes.
///
/// # Errors
/// As [`export_with`].
#[track_caller]
pub fn to_bytes<I: Inputs, O: Outputs>(
    inputs: I,
    f: impl FnOnce(I::Given) -> O,
    config: &OnnxConfig,
) -> Result<Vec<u8>> {
    let model = trace::model(&inputs, f, config)?;
    let size = model.encoded_len();
    if i32::try_from(size).is_err() {
        let refusal = Refusal::new(format!("{size} bytes are more than an ONNX file can have"));
        let refusal = refusal.hint("export parts of the model, or cast its parameters to `f16`");
        return Err(refusal).in_file(Path::new("onnx"));
    }
    Ok(model.encode_to_vec())
}

#[cfg(test)]
mod tests;
