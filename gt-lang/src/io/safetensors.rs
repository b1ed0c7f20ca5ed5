//! The safetensors format: one file, a sharded set with an index, read into memory or mapped.
//!
//! Guarantees: names, shapes and offsets are validated against the file's size. Files written here carry a checksum (CRC-32) of names,
//! types and contents in their metadata, which is verified when they are read; files of others have none to verify.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path};

use bytes::Bytes;
use gt_ir::{DType, HostTensor};
use safetensors::{Dtype, SafeTensorError, SafeTensors, View};

use super::{InFile, atomic, file_error, mmap, tensor};
use crate::error::Result;
use crate::state::{StateDict, data_error};

/// Where the checksum stands in the metadata.
const CHECKSUM: &str = "gt.crc32";

/// Reads a file into memory.
///
/// # Errors
/// The file cannot be read, is damaged, or holds a dtype there is none for here.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    from_bytes(&super::read(path)?, path)
}

/// Maps a file into memory: contents are read when they are used, and its tensors share the mapping. The file must not be changed while
/// a tensor of it is in use; replacing it by another is no change. A checksum is not verified, since that would read it all.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn map(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    Ok(StateDict::from_iter(tensors(&mmap::map(path)?, path)?))
}

/// Reads a model whose tensors are spread over several files, by its index (`model.safetensors.index.json`); each file is mapped
/// as [`map`] does. The files lie beside the index.
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
        let mut shard: BTreeMap<String, HostTensor> =
            tensors(&mmap::map(&folder.join(file))?, &folder.join(file))?.into_iter().collect();
        for (name, _) in places.iter().filter(|(_, place)| *place == file) {
            let missing = || format!("`{name}` is not in {file}");
            state.insert(name, shard.remove(name).ok_or_else(missing).in_file(index)?);
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
    let bytes = serialized(state).in_file(path)?;
    atomic::write(path, |file| file.write_all(&bytes).in_file(path))
}

/// The bytes of such a file.
///
/// # Errors
/// There are more names than a file can hold.
#[track_caller]
pub fn to_bytes(state: &StateDict) -> Result<Vec<u8>> {
    serialized(state).map_err(|error| data_error(error.to_string()))
}

fn serialized(state: &StateDict) -> std::result::Result<Vec<u8>, SafeTensorError> {
    let metadata = HashMap::from([(CHECKSUM.to_owned(), checksum(state.iter()))]);
    let views = state.iter().map(|(name, value)| (name, Contents(value)));
    safetensors::serialize(views, Some(metadata))
}

/// Writes files of at most `max_bytes` of contents each (a larger tensor has one of its own) beside an index of that name.
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
    atomic::write(index, |file| file.write_all(json.to_string().as_bytes()).in_file(index))
}

/// Which file each tensor is in.
#[track_caller]
fn places(index: &Path) -> Result<BTreeMap<String, String>> {
    let json: serde_json::Value = serde_json::from_slice(&super::read(index)?).in_file(index)?;
    let map = json.get("weight_map").and_then(|map| map.as_object());
    let map = map.ok_or("no `weight_map`: not an index").in_file(index)?;
    let mut places = BTreeMap::new();
    for (name, file) in map {
        // A file of this folder: an index cannot name others.
        let plain = file.as_str().filter(|file| {
            let mut parts = Path::new(file).components();
            matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        });
        let bad = || format!("`{name}` is in {file}, which is no file's name");
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
    let state = StateDict::from_iter(tensors(bytes, path)?);
    let (_, header) = SafeTensors::read_metadata(bytes).in_file(path)?;
    match header.metadata().as_ref().and_then(|metadata| metadata.get(CHECKSUM)) {
        Some(written) if *written != checksum(state.iter()) => Err(file_error(
            path,
            "the contents do not have the checksum written with them: the file is damaged",
        )),
        _ => Ok(state),
    }
}

/// The tensors of a file, sharing its bytes.
#[track_caller]
fn tensors(bytes: &Bytes, path: &Path) -> Result<Vec<(String, HostTensor)>> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|error| format!("not a safetensors file: {error}"))
        .in_file(path)?;
    let mut out = Vec::with_capacity(file.len());
    for (name, view) in file.tensors() {
        let unknown = || format!("{name}: there is no dtype {:?} here", view.dtype());
        let dtype = dtype(view.dtype()).ok_or_else(unknown).in_file(path)?;
        let contents = bytes.slice_ref(view.data());
        let value = tensor(dtype, view.shape(), contents);
        out.push((name.clone(), value.map_err(|e| format!("{name}: {e}")).in_file(path)?));
    }
    Ok(out)
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
struct Contents<'a>(&'a HostTensor);

impl View for Contents<'_> {
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

fn dtype(dtype: Dtype) -> Option<DType> {
    let all = [
        (Dtype::F32, DType::F32),
        (Dtype::F64, DType::F64),
        (Dtype::BF16, DType::Bf16),
        (Dtype::F16, DType::F16),
        (Dtype::I64, DType::I64),
        (Dtype::I32, DType::I32),
        (Dtype::U8, DType::U8),
        (Dtype::BOOL, DType::Bool),
    ];
    all.into_iter().find(|(theirs, _)| *theirs == dtype).map(|(_, ours)| ours)
}
