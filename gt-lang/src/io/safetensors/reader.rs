//! A safetensors file opened: its tensors by name, some of them or all.
//!
//! Guarantees: each tensor's bytes lie in the file, one behind the other without holes, and are as
//! many as its dtype and shape say. Dtypes are names until a tensor is asked for: a file of dtypes
//! that are not known here can be read in part.
//!
//! Does not: verify checksums, which would read all of the file; `load` does.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use gt_ir::{DType, HostTensor};
use serde_json::Value;

use super::CHECKSUM;
use crate::error::Result;
use crate::io::{InFile, file_error, size_of, tensor};
use crate::state::StateDict;

/// The longest header: the format's own limit.
const MAX_HEADER: usize = 100_000_000;
/// The most names an error lists.
const MAX_LISTED: usize = 5;
/// Complex numbers, whose parts are `f32`.
const COMPLEX: &str = "C64";
/// The format's names of the dtypes there are here, or of which there are the parts.
const DTYPES: [(&str, DType); 9] = [
    ("F32", DType::F32),
    ("F64", DType::F64),
    ("BF16", DType::Bf16),
    ("F16", DType::F16),
    ("I64", DType::I64),
    ("I32", DType::I32),
    ("U8", DType::U8),
    ("BOOL", DType::Bool),
    (COMPLEX, DType::F32),
];

/// An open file; see [`open`](super::open).
#[derive(Clone, Debug)]
pub struct Reader {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
    checksum: Option<String>,
    /// What stands behind the header.
    data: Bytes,
}

/// A tensor as the header describes it.
#[derive(Clone, Debug)]
struct Entry {
    dtype: String,
    /// Of complex numbers with a last size of 2, of their parts.
    sizes: Vec<usize>,
    place: Range<usize>,
}

impl Reader {
    /// The file of these bytes.
    #[track_caller]
    pub(super) fn new(bytes: Bytes, path: &Path) -> Result<Reader> {
        let told = |error: String| format!("not a safetensors file, or a damaged one: {error}");
        let (entries, checksum, data) = parse(&bytes).map_err(told).in_file(path)?;
        Ok(Reader { path: path.to_owned(), entries, checksum, data })
    }

    /// The names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// No tensor has this name, or its dtype has no counterpart here.
    #[track_caller]
    pub fn get(&self, name: &str) -> Result<HostTensor> {
        match self.entries.get(name) {
            Some(entry) => self.value(name, entry),
            None => Err(file_error(&self.path, format!("there is no tensor `{name}`"))),
        }
    }

    /// All tensors.
    ///
    /// # Errors
    /// The dtype of one has no counterpart here; all such are named.
    #[track_caller]
    pub fn state(&self) -> Result<StateDict> {
        let mut foreign = self.entries.iter().filter(|(_, entry)| entry.dtype().is_none());
        let listed: Vec<String> = foreign
            .by_ref()
            .take(MAX_LISTED)
            .map(|(name, entry)| format!("`{name}` is {}", entry.dtype))
            .collect();
        if listed.is_empty() {
            return self.readable();
        }
        let more = match foreign.count() {
            0 => String::new(),
            n => format!(" and {n} more are like that"),
        };
        Err(self.foreign(format!("{}{more}", listed.join(", "))))
    }

    /// The tensors of those dtypes that there are here; the others are left out.
    ///
    /// # Errors
    /// The contents of a tensor are not of its dtype.
    #[track_caller]
    pub fn readable(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (name, entry) in self.entries.iter().filter(|(_, entry)| entry.dtype().is_some()) {
            state.insert(name, self.value(name, entry)?);
        }
        Ok(state)
    }

    /// The checksum written with the tensors.
    pub(super) fn checksum(&self) -> Option<&str> {
        self.checksum.as_deref()
    }

    /// The tensor of an entry.
    #[track_caller]
    fn value(&self, name: &str, entry: &Entry) -> Result<HostTensor> {
        let Some(dtype) = entry.dtype() else {
            return Err(self.foreign(format!("`{name}` is {}", entry.dtype)));
        };
        let contents = self.data.slice(entry.place.clone());
        tensor(dtype, &entry.sizes, contents)
            .map_err(|refusal| refusal.of(name))
            .in_file(&self.path)
    }

    /// The error of a dtype that has no counterpart here.
    #[track_caller]
    fn foreign(&self, which: String) -> crate::error::Error {
        let ours: Vec<&str> = DTYPES.iter().map(|(name, _)| *name).collect();
        let ours = ours.join(", ");
        file_error(&self.path, format!("{which}, a dtype without a counterpart here ({ours})"))
            .hint(
                "save such tensors as one of these, with `tensor.to(..)` in PyTorch, or read the \
             others: `safetensors::open(path)?.readable()?`",
            )
    }
}

impl Entry {
    fn dtype(&self) -> Option<DType> {
        DTYPES.iter().find(|(name, _)| *name == self.dtype).map(|(_, dtype)| *dtype)
    }

    /// `{"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}`.
    fn parse(value: &Value) -> Option<Entry> {
        let numbers = |field: &str| -> Option<Vec<usize>> {
            let whole = |number: &Value| usize::try_from(number.as_u64()?).ok();
            value.get(field)?.as_array()?.iter().map(whole).collect()
        };
        let dtype = value.get("dtype")?.as_str()?.to_owned();
        let mut sizes = numbers("shape")?;
        sizes.extend((dtype == COMPLEX).then_some(2));
        match numbers("data_offsets")?[..] {
            [from, to] => Some(Entry { dtype, sizes, place: from..to }),
            _ => None,
        }
    }

    /// Whether the bytes are as many as dtype and shape say; of a dtype that is not known nobody
    /// can tell.
    fn fits(&self) -> bool {
        let size = self.dtype().map(|dtype| size_of(dtype, &self.sizes));
        size.is_none_or(|size| size == Some(self.place.len()))
    }
}

/// Entries by name, the checksum, and the contents.
type Parts = (BTreeMap<String, Entry>, Option<String>, Bytes);

/// The entries, the checksum and the contents of a file.
fn parse(bytes: &Bytes) -> Result<Parts, String> {
    let length = bytes.first_chunk::<8>().ok_or("the header is cut off")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_HEADER {
        return Err(format!("a header of {length} bytes is longer than {MAX_HEADER}"));
    }
    let header = bytes.get(8..8 + length).ok_or("the header is cut off")?;
    let header: serde_json::Map<String, Value> =
        serde_json::from_slice(header).map_err(|e| format!("the header: {e}"))?;
    let checksum = header.get("__metadata__").and_then(|all| all.get(CHECKSUM));
    let checksum = checksum.and_then(Value::as_str).map(str::to_owned);
    let mut entries = BTreeMap::new();
    for (name, value) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let entry = Entry::parse(&value).filter(Entry::fits);
        let bad = || format!("`{name}` has no dtype, shape and place that fit each other");
        let entry = entry.ok_or_else(bad)?;
        entries.insert(name, entry);
    }
    let data = bytes.slice(8 + length..);
    gapless(&entries, data.len())?;
    Ok((entries, checksum, data))
}

/// Contents stand one behind the other, and nothing else does.
fn gapless(entries: &BTreeMap<String, Entry>, total: usize) -> Result<(), String> {
    let mut places: Vec<(&Range<usize>, &str)> =
        entries.iter().map(|(name, entry)| (&entry.place, name.as_str())).collect();
    places.sort_by_key(|(place, _)| (place.start, place.end));
    let mut end = 0;
    for (place, name) in places {
        if place.start != end || place.end < end {
            return Err(format!("the contents of `{name}` do not begin where the others end"));
        }
        end = place.end;
    }
    if end != total {
        return Err(format!("the tensors have {end} bytes, the file {total}"));
    }
    Ok(())
}
