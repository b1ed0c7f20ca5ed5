//! PyTorch's `.pth` (`.pt`, `.bin`) files: the zip archives that `torch.save` writes since PyTorch
//! 1.6.
//!
//! Guarantees: nothing is executed. The pickle inside is read by a machine that knows the
//! instructions, and the few names, that states of models and optimizers use (`pickle`); any other
//! name is an error that tells it, the tensor and what to save instead (`foreign`). No value is
//! left out or changed on the way without an error. Depth, number and size of what is read are
//! limited, whatever the file says. Complex numbers come as pairs in a last axis of size 2, which
//! [`ComplexTensor`](crate::complex::ComplexTensor) takes.

mod foreign;
mod pickle;
mod stack;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use bytes::Bytes;
use gt_ir::{DType, HostTensor};

use super::npy::gathered;
use super::unpack::Unpacking;
use super::{InFile, Refusal, file_error, size_of, tensor};
use crate::error::Result;
use crate::state::StateDict;
use pickle::{Machine, TensorRef};
use stack::{Kind, Value};

/// The deepest nesting of dictionaries and lists.
const MAX_DEPTH: usize = 32;
/// The most values of all dictionaries and lists together.
const MAX_VALUES: usize = 1 << 22;
/// The longest name.
const MAX_NAME: usize = 1 << 10;
/// The most bytes of pickle.
const MAX_PICKLE: u64 = 1 << 28;

/// Reads the tensors and numbers of a file by their names. Nested dictionaries and lists are joined
/// by dots: what was saved as `{"model": model.state_dict(), "epoch": 3}` has `model.fc1.weight`
/// and `epoch`; [`StateDict::part`] takes it apart. Texts and `None` are left out.
///
/// # Errors
/// The file cannot be read, is damaged, or holds more than states do.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    from_bytes(&super::read(path)?, path)
}

/// The tensors and numbers of a file's bytes, as [`load`] gives them; errors name the file as
/// `path`.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn from_bytes(bytes: &Bytes, path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    let left = Unpacking::of(bytes.len())?;
    if !bytes.starts_with(b"PK") {
        let error = file_error(path, "not a zip archive, as torch.save writes them");
        return Err(
            error.hint("files of PyTorch before 1.6: load and save them again with a newer one")
        );
    }
    let archive = zip::ZipArchive::new(Cursor::new(bytes.clone())).in_file(path)?;
    let mut file = File { archive, prefix: String::new(), left, storages: BTreeMap::new() };
    file.state().in_file(path)
}

/// An archive being read.
struct File {
    archive: zip::ZipArchive<Cursor<Bytes>>,
    /// The folder all entries are in.
    prefix: String,
    left: Unpacking,
    storages: BTreeMap<String, Bytes>,
}

impl File {
    /// All tensors and numbers, by their dotted names.
    fn state(&mut self) -> Result<StateDict, Refusal> {
        let names = self.archive.file_names().filter_map(std::result::Result::ok);
        let names: Vec<String> = names.map(|name| name.into_owned()).collect();
        let found = names.iter().find_map(|name| name.strip_suffix("data.pkl"));
        self.prefix =
            found.ok_or("the archive has no data.pkl, which torch.save writes")?.to_owned();
        if names.iter().any(|name| *name == format!("{}byteorder", self.prefix))
            && &self.unpack("byteorder")?[..] != b"little"
        {
            let cure =
                "save it again on a machine whose numbers are little-endian, as nearly all are";
            return Err(Refusal::new("its numbers are big-endian").hint(cure));
        }
        let pickle = self.unpack("data.pkl")?;
        let mut machine = Machine::default();
        let root = machine.run(&pickle)?;
        if !matches!(root, Value::Dict(_)) {
            let message =
                format!("what was saved is {}, not a dictionary as a state_dict is", kind(root));
            let cure = "save `model.state_dict()`, or a dictionary `{\"x\": tensor}`";
            return Err(Refusal::new(message).hint(cure));
        }
        let mut flat = Flat { machine: &machine, visits: 0, leaves: Vec::new() };
        flat.walk(root, String::new(), 0)?;
        let mut state = StateDict::new();
        for (name, leaf) in flat.leaves {
            let value = self.leaf(&machine, leaf).map_err(|refusal| refusal.of(&name))?;
            let Some(value) = value else { continue };
            if state.get(&name).is_some() {
                let refusal = Refusal::new(format!("two values are called `{name}`"));
                return Err(refusal.hint("rename one of them"));
            }
            state.insert(name, value);
        }
        Ok(state)
    }

    /// The bytes of an entry; an archive without it is no state.
    fn unpack(&mut self, name: &str) -> Result<Bytes, Refusal> {
        let full = format!("{}{name}", self.prefix);
        let at = self.archive.index_for_name(&full);
        let at = at.ok_or_else(|| format!("the archive has no {full}"))?;
        let most = if name == "data.pkl" { MAX_PICKLE } else { u64::MAX };
        self.left.entry(&mut self.archive, at, most).map(|(_, bytes)| bytes)
    }

    /// A tensor or number; `None` for a text or nothing.
    fn leaf(&mut self, machine: &Machine, leaf: Value) -> Result<Option<HostTensor>, Refusal> {
        Ok(match leaf {
            Value::Bool(value) => Some(HostTensor::scalar(value)),
            Value::Int(value) => Some(HostTensor::scalar(value)),
            Value::Float(value) => Some(HostTensor::scalar(value)),
            Value::Tensor(at) => {
                let tensor = machine.tensor(at).ok_or("a tensor that is not there")?;
                Some(self.tensor(tensor)?)
            }
            Value::Text(_) | Value::None => None,
            other => {
                let message = format!("{} is neither a tensor nor a number", kind(other));
                return Err(Refusal::new(message).hint("leave it out of what is saved"));
            }
        })
    }

    /// The elements that a tensor's offset, sizes and strides pick from its storage, in row-major
    /// order.
    fn tensor(&mut self, t: &TensorRef) -> Result<HostTensor, Refusal> {
        let storage = self.storage(t)?;
        let (dtype, width) = (t.kind.dtype, t.kind.width());
        let outside = || format!("elements outside of storage {}", t.key);
        let mut sizes = t.sizes.clone();
        sizes.extend(t.kind.is_complex.then_some(2));
        let size = size_of(dtype, &sizes).ok_or_else(outside)?;
        if size == 0 {
            return tensor(dtype, &sizes, Bytes::new());
        }
        let last = last_element(t).ok_or_else(outside)?;
        if last >= storage.len() / width {
            return Err(outside().into());
        }
        let data = storage.slice(t.offset * width..);
        let data = if is_contiguous(t) {
            data.slice(..size)
        } else {
            self.left.take(size as u64)?;
            gathered(&data, &t.sizes, &t.strides, width).ok_or_else(outside)?
        };
        let data = if t.lazy.is_negated { negated(&data, dtype.size()) } else { data };
        let data = if t.lazy.is_conjugated { negated(&data, width) } else { data };
        tensor(dtype, &sizes, data)
    }

    /// A storage's bytes, which are as many as the pickle says.
    fn storage(&mut self, t: &TensorRef) -> Result<Bytes, Refusal> {
        let storage = match self.storages.get(&t.key) {
            Some(known) => known.clone(),
            None => {
                let bytes = self.unpack(&format!("data/{}", t.key))?;
                self.storages.insert(t.key.clone(), bytes.clone());
                bytes
            }
        };
        match t.stored.checked_mul(t.kind.width()) {
            Some(size) if size == storage.len() => Ok(storage),
            _ => Err(format!(
                "storage {} has {} bytes, not {} elements of {}",
                t.key,
                storage.len(),
                t.stored,
                t.kind
            )
            .into()),
        }
    }
}

/// Floats of this width, little-endian, with the other sign: the last byte's highest bit. Of
/// complex numbers of this width that is the sign of the imaginary part.
fn negated(data: &[u8], width: usize) -> Bytes {
    let mut data = data.to_vec();
    data.iter_mut().skip(width - 1).step_by(width).for_each(|byte| *byte ^= 0x80);
    Bytes::from(data)
}

/// What a value is, in words.
fn kind(value: Value) -> &'static str {
    match value {
        Value::Tensor(_) => "a tensor",
        Value::List(_) | Value::Tuple(_) => "a list",
        Value::Storage(_) => "a bare storage",
        Value::Global(_) => "a class or function",
        Value::Dict(_) => "a dictionary",
        Value::Text(_) => "a text",
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => "a number",
        Value::None | Value::Mark => "nothing",
    }
}

/// The element of the storage that lies furthest back, if that is a number.
fn last_element(t: &TensorRef) -> Option<usize> {
    let reach = |last: usize, (size, stride): (&usize, &usize)| {
        last.checked_add(size.checked_sub(1)?.checked_mul(*stride)?)
    };
    t.sizes.iter().zip(&t.strides).try_fold(t.offset, reach)
}

/// Whether the elements lie in row-major order, one behind the other.
fn is_contiguous(t: &TensorRef) -> bool {
    let mut step = 1;
    t.sizes.iter().zip(&t.strides).rev().all(|(size, stride)| {
        let fits = *size == 1 || *stride == step;
        step *= size;
        fits
    })
}

/// The values in dictionaries and lists, by their dotted names.
struct Flat<'a> {
    machine: &'a Machine,
    /// How many values were looked at: what is shared is looked at each time, so that a small file
    /// could hold a large tree.
    visits: usize,
    leaves: Vec<(String, Value)>,
}

impl Flat<'_> {
    /// Collects the leaves below a value, depth first.
    fn walk(&mut self, value: Value, name: String, depth: usize) -> Result<(), Refusal> {
        self.visits += 1;
        if depth > MAX_DEPTH || self.visits > MAX_VALUES || name.len() > MAX_NAME {
            return Err("dictionaries are nested too deep, or hold too much".into());
        }
        let inner = |key: &str| match name.as_str() {
            "" => key.to_owned(),
            outer => format!("{outer}.{key}"),
        };
        match value {
            Value::Dict(_) => {
                for (key, value) in self.machine.entries(value) {
                    let key = self.machine.key(*key, MAX_NAME);
                    let key = key.ok_or("a key is neither a short text nor a number")?;
                    self.walk(*value, inner(&key), depth + 1)?;
                }
            }
            Value::List(_) | Value::Tuple(_) => {
                for (i, value) in self.machine.items(value).iter().enumerate() {
                    self.walk(*value, inner(&i.to_string()), depth + 1)?;
                }
            }
            leaf => self.leaves.push((name, leaf)),
        }
        Ok(())
    }
}

/// What the elements of a class of storages are.
fn storage_kind(class: &str) -> Option<Kind> {
    let (dtype, is_complex) = match class {
        "FloatStorage" => (DType::F32, false),
        "DoubleStorage" => (DType::F64, false),
        "HalfStorage" => (DType::F16, false),
        "BFloat16Storage" => (DType::Bf16, false),
        "LongStorage" => (DType::I64, false),
        "IntStorage" => (DType::I32, false),
        "ByteStorage" => (DType::U8, false),
        "BoolStorage" => (DType::Bool, false),
        "ComplexFloatStorage" => (DType::F32, true),
        "ComplexDoubleStorage" => (DType::F64, true),
        _ => return None,
    };
    Some(Kind { dtype, is_complex })
}
