//! The safetensors format: one file, a sharded set with an index, read into memory or mapped.
//!
//! Guarantees: names, shapes and offsets are validated against the file's size (`reader`). Files
//! written here carry a checksum (CRC-32) of names, types and contents in their metadata, which is
//! verified when they are read; files of others have none to verify. A tensor of a dtype there is
//! none for here is an error where it is asked for, and no hindrance to the others. Complex numbers
//! (`C64`) are pairs of `f32` in a last axis of size 2, which
//! [`ComplexTensor`](crate::complex::ComplexTensor) takes; the format has none of `f64`.

mod reader;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path};

use bytes::Bytes;
use gt_ir::{DType, HostTensor};
use safetensors::{Dtype, SafeTensorError, View};

use super::{InFile, Refusal, atomic, file_error, mmap};
use crate::error::Result;
use crate::state::{StateDict, data_error};
pub use reader::Reader;

/// Where the checksum stands in the metadata.
const CHECKSUM: &str = "gt.crc32";

/// Reads a file into memory.
///
/// # Errors
/// The file cannot be read, is damaged, or holds a dtype that has no counterpart here.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    from_bytes(&super::read(path)?, path)
}

/// Maps a file into memory: contents are read when they are used, and its tensors share the
/// mapping. The file must not be changed while a tensor of it is in use; replacing it by another is
/// no change. A checksum is not verified, since that would read it all.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn map(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    open(path)?.state()
}

/// Opens a file to read some of its tensors, or those there are dtypes for here: Python's
/// `safe_open`. Maps it as [`map`] does.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let file = io::safetensors::open("model.safetensors")?;
/// let weight = file.get("fc1.weight")?;
/// let state = file.readable()?; // what there is no dtype for is left out
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// The file cannot be read or is damaged.
#[track_caller]
pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
    let path = path.as_ref();
    Reader::new(mmap::map(path)?, path)
}

/// Reads a model whose tensors are spread over several files, by its index
/// (`model.safetensors.index.json`); each file is mapped as [`map`] does. The files lie beside the
/// index.
///
/// # Errors
/// As [`load`]; also when a tensor is not where the index says.
#[track_caller]
pub fn map_sharded(index: impl AsRef<Path>) -> Result<StateDict> {
    let index = index.as_ref();
    let places = places(index)?;
    let folder = index.parent().unwrap_or(Path::new(""));
    let mut state = StateDict::new();
    for file in places.values().collect::<BTreeSet<_>>() {
        let shard = open(folder.join(file))?;
        for (name, _) in places.iter().filter(|(_, place)| *place == file) {
            state.insert(name, shard.get(name)?);
        }
    }
    Ok(state)
}

/// Writes a file, as a whole or not at all.
///
/// # Errors
/// The file cannot be written.
#[track_caller]
pub fn save(path: impl AsRef<Path>, state: &StateDict) -> Result<()> {
    use std::io::Write;
    let path = path.as_ref();
    let bytes = serialized(state, &[]).in_file(path)?;
    atomic::write(path, |file| file.write_all(&bytes))
}

/// [`save`], with the tensors of these names as complex numbers (`C64`): they have pairs, `[.., 2]`
/// of `f32`, as [`ComplexTensor::to_host`](crate::complex::ComplexTensor::to_host) gives them.
///
/// # Errors
/// The file cannot be written, a name is not there, or its tensor has no pairs of `f32`.
#[track_caller]
pub fn save_complex(path: impl AsRef<Path>, state: &StateDict, complex: &[&str]) -> Result<()> {
    use std::io::Write;
    let path = path.as_ref();
    for name in complex {
        are_pairs(state.get(name)).map_err(|refusal| refusal.of(name)).in_file(path)?;
    }
    let bytes = serialized(state, complex).in_file(path)?;
    atomic::write(path, |file| file.write_all(&bytes))
}

/// Whether a tensor of this name can be complex numbers.
fn are_pairs(value: Option<&HostTensor>) -> std::result::Result<(), Refusal> {
    let Some(value) = value else { return Err("there is no such tensor".into()) };
    let ty = value.ty();
    if ty.dtype == DType::F32 && ty.shape.sizes().last() == Some(&2) {
        return Ok(());
    }
    let refusal = Refusal::new(format!("complex numbers are pairs [.., 2] of f32, not {ty}"));
    Err(refusal.hint("the format has complex numbers of f32 only"))
}

/// The bytes of such a file.
///
/// # Errors
/// There are more names than a file can hold.
#[track_caller]
pub fn to_bytes(state: &StateDict) -> Result<Vec<u8>> {
    match serialized(state, &[]) {
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(data_error(error.to_string())),
    }
}

/// The bytes of a file, with the checksum of its contents in the metadata. The tensors of some
/// names are pairs, and written as complex numbers.
fn serialized(
    state: &StateDict,
    complex: &[&str],
) -> std::result::Result<Vec<u8>, SafeTensorError> {
    let metadata = HashMap::from([(CHECKSUM.to_owned(), checksum(state.iter()))]);
    let contents = |(name, value)| (name, Contents { value, is_complex: complex.contains(&name) });
    safetensors::serialize(state.iter().map(contents), Some(metadata))
}

/// Writes files of at most `max_bytes` of contents each (a larger tensor has one of its own) beside
/// an index of that name.
///
/// # Errors
/// A file cannot be written; the index, written last, then is what it was.
#[track_caller]
pub fn save_sharded(index: impl AsRef<Path>, state: &StateDict, max_bytes: usize) -> Result<()> {
    use std::io::Write;
    let index = index.as_ref();
    let mut shards: Vec<(usize, StateDict)> = vec![];
    for (name, value) in state.iter() {
        let size = value.bytes().len();
        match shards.last_mut() {
            Some((held, shard)) if held.saturating_add(size) <= max_bytes => {
                *held += size;
                shard.insert(name, value.clone());
            }
            _ => shards.push((size, StateDict::from_iter([(name.to_owned(), value.clone())]))),
        }
    }
    let stem = index.file_name().and_then(|name| name.to_str()).unwrap_or("model");
    let stem = stem.trim_end_matches(".json").trim_end_matches(".index");
    let stem = stem.trim_end_matches(".safetensors");
    let (n, mut places) = (shards.len(), BTreeMap::new());
    for (i, (_, shard)) in shards.iter().enumerate() {
        let file = format!("{stem}-{:05}-of-{n:05}.safetensors", i + 1);
        save(index.with_file_name(&file), shard)?;
        places.extend(shard.iter().map(|(name, _)| (name, file.clone())));
    }
    let total: usize = shards.iter().map(|(size, _)| size).sum();
    let json = serde_json::json!({ "metadata": { "total_size": total }, "weight_map": places });
    atomic::write(index, |file| file.write_all(json.to_string().as_bytes()))
}

/// Which file each tensor is in.
#[track_caller]
fn places(index: &Path) -> Result<BTreeMap<String, String>> {
    let json: serde_json::Value = serde_json::from_slice(&super::read(index)?).in_file(index)?;
    let map = json.get("weight_map").and_then(|map| map.as_object());
    let map = map
        .ok_or_else(|| {
            Refusal::new("no `weight_map`, so this is no index of sharded tensors").hint(
                "the index is the file `model.safetensors.index.json`; a single file is read by \
                 `load` or `map`",
            )
        })
        .in_file(index)?;
    let mut places = BTreeMap::new();
    for (name, file) in map {
        // A file of this folder: an index cannot name others.
        let plain = file.as_str().filter(|file| {
            let mut parts = Path::new(file).components();
            matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        });
        let bad = || {
            format!("`{name}` is in {file}, which does not name a file in the folder of the index")
        };
        places.insert(name.clone(), plain.ok_or_else(bad).in_file(index)?.to_owned());
    }
    Ok(places)
}

/// The tensors of a file's bytes, which they share; errors name it as `path`.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn from_bytes(bytes: &Bytes, path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    let reader = Reader::new(bytes.clone(), path)?;
    let state = reader.state()?;
    match reader.checksum() {
        Some(written) if written != checksum(state.iter()) => Err(file_error(
            path,
            Refusal::new(
                "the contents do not have the checksum written with them: the file is damaged",
            )
            .hint("copy or save it again"),
        )),
        _ => Ok(state),
    }
}

/// The checksum of names, types and contents.
fn checksum<'a>(tensors: impl Iterator<Item = (&'a str, &'a HostTensor)>) -> String {
    let mut crc = crc32fast::Hasher::new();
    for (name, value) in tensors {
        let ty = value.ty();
        crc.update(format!("{name}={:?}{:?};", ty.dtype, ty.shape.sizes()).as_bytes());
        crc.update(value.bytes());
    }
    format!("{:08x}", crc.finalize())
}

/// A tensor as the format's crate wants to see it.
struct Contents<'a> {
    value: &'a HostTensor,
    /// Whether it has pairs, which are written as complex numbers.
    is_complex: bool,
}

impl View for Contents<'_> {
    fn dtype(&self) -> Dtype {
        match self.value.ty().dtype {
            _ if self.is_complex => Dtype::C64,
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
        let sizes = self.value.ty().shape.sizes();
        &sizes[..sizes.len() - usize::from(self.is_complex)]
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.value.bytes())
    }

    fn data_len(&self) -> usize {
        self.value.bytes().len()
    }
}
