//! The header of a GGUF file: values about the model, and where the tensors are.

use std::collections::BTreeMap;
use std::ops::Range;

use gt_ir::DType;

use super::Value;
use super::blocks::Quant;
use crate::io::{Refusal, size_of};

type Parsed<T> = std::result::Result<T, Refusal>;

/// Where the data begins is a multiple of this, unless the file says otherwise.
const ALIGNMENT: u64 = 32;
/// The most dimensions of a tensor: those of `ggml`.
const MAX_RANK: u32 = 4;
/// How deep lists may be in lists.
const MAX_DEPTH: u32 = 4;

/// What stands before the data.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) values: BTreeMap<String, Value>,
    pub(super) tensors: BTreeMap<String, Entry>,
}

/// A tensor as the header describes it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// Outermost first.
    pub(super) sizes: Vec<usize>,
    /// The bytes, from the beginning of the data; of an unknown kind, where they begin.
    pub(super) place: Range<usize>,
}

/// What the numbers of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain(DType),
    Blocks(Quant),
    Unknown(u32),
}

/// `ggml`'s numbers of the kinds there are here.
const KINDS: [(u32, Kind); 10] = [
    (0, Kind::Plain(DType::F32)),
    (1, Kind::Plain(DType::F16)),
    (2, Kind::Blocks(Quant::Q4_0)),
    (8, Kind::Blocks(Quant::Q8_0)),
    (12, Kind::Blocks(Quant::Q4K)),
    (14, Kind::Blocks(Quant::Q6K)),
    (26, Kind::Plain(DType::I32)),
    (27, Kind::Plain(DType::I64)),
    (28, Kind::Plain(DType::F64)),
    (30, Kind::Plain(DType::Bf16)),
];

/// `ggml`'s names of other kinds, for errors.
const OTHERS: [(u32, &str); 11] = [
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (13, "Q5_K"),
    (15, "Q8_K"),
    (20, "IQ4_NL"),
    (23, "IQ4_XS"),
    (24, "I8"),
];

impl Kind {
    fn of(number: u32) -> Kind {
        let known = KINDS.iter().find(|(known, _)| *known == number);
        known.map_or(Kind::Unknown(number), |(_, kind)| *kind)
    }

    /// The bytes of a tensor, if its sizes go with the kind.
    fn bytes(self, sizes: &[usize]) -> Parsed<usize> {
        let too_large = || Refusal::new(format!("sizes {sizes:?} have more elements than fit"));
        match self {
            Kind::Plain(dtype) => size_of(dtype, sizes).ok_or_else(too_large),
            Kind::Unknown(_) => Ok(0),
            Kind::Blocks(quant) => {
                let (numbers, bytes) = quant.block();
                let row = sizes.last().copied().unwrap_or(1);
                if !row.is_multiple_of(numbers) {
                    let what = format!("rows of {row} are not blocks of {numbers} numbers");
                    return Err(Refusal::new(what));
                }
                let all = size_of(DType::U8, sizes).ok_or_else(too_large)?;
                (all / numbers).checked_mul(bytes).ok_or_else(too_large)
            }
        }
    }

    /// The error of a tensor of an unknown kind.
    pub(super) fn refusal(self) -> Refusal {
        let number = if let Kind::Unknown(number) = self { number } else { 0 };
        let name = OTHERS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
        let name = name.map_or(format!("of kind {number}"), str::to_owned);
        Refusal::new(format!("its numbers are {name}, which is not known here")).hint(
            "quantize it as Q8_0, Q4_0, Q4_K or Q6_K, or convert it to F16 or BF16, with the tools \
             of llama.cpp",
        )
    }
}

impl Header {
    /// The header of a file, and where its data begins.
    pub(super) fn parse(bytes: &[u8]) -> Parsed<(Header, usize)> {
        let mut cursor = Cursor { bytes, at: 0 };
        if cursor.take(4)? != b"GGUF" {
            return Err("it does not begin with `GGUF`".into());
        }
        let version = cursor.u32()?;
        if !matches!(version, 2 | 3) {
            return Err(format!("version {version} of the format is not known").into());
        }
        let (n_tensors, n_values) = (cursor.u64()?, cursor.u64()?);
        let (mut values, mut tensors) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..n_values {
            let name = cursor.text()?;
            let kind = cursor.u32()?;
            values.insert(name, cursor.value(kind, 0)?);
        }
        for _ in 0..n_tensors {
            let name = cursor.text()?;
            let entry = cursor.entry().map_err(|why| why.of(&name))?;
            if tensors.insert(name.clone(), entry).is_some() {
                return Err(format!("two tensors are called `{name}`").into());
            }
        }
        let alignment = match values.get("general.alignment") {
            None => ALIGNMENT,
            Some(Value::Unsigned(n)) if *n > 0 => *n,
            Some(other) => return Err(format!("the alignment is {other:?}").into()),
        };
        let start = (cursor.at as u64).checked_next_multiple_of(alignment);
        let start = start.and_then(|at| usize::try_from(at).ok());
        let start = start.ok_or("the alignment is larger than the machine's memory")?;
        Ok((Header { values, tensors }, start))
    }

    /// Looks whether all tensors lie in so many bytes of data, and none in another.
    pub(super) fn check(&self, data: usize) -> Parsed<()> {
        let mut places = Vec::new();
        for (name, Entry { place, .. }) in &self.tensors {
            if place.end > data {
                let what = format!("`{name}` is in bytes {place:?} of the data");
                return Err(format!("{what}, of which there are {data}").into());
            }
            if !place.is_empty() {
                places.push((place.start, place.end, name));
            }
        }
        places.sort_unstable();
        match places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            None => Ok(()),
            Some(pair) => Err(format!("`{}` and `{}` overlap", pair[0].2, pair[1].2).into()),
        }
    }
}

/// What is left to read.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Parsed<&'a [u8]> {
        let end = self.at.checked_add(n);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or("the header is cut off")?;
        self.at += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        Ok(*self.take(N)?.first_chunk().ok_or("the header is cut off")?)
    }

    fn u32(&mut self) -> Parsed<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Parsed<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of things, which fits the machine.
    fn count(&mut self) -> Parsed<usize> {
        let n = self.u64()?;
        Ok(usize::try_from(n).map_err(|_| format!("a count of {n}"))?)
    }

    fn text(&mut self) -> Parsed<String> {
        let n = self.count()?;
        let text = std::str::from_utf8(self.take(n)?);
        Ok(text.map_err(|e| format!("a text is not UTF-8: {e}"))?.to_owned())
    }

    fn value(&mut self, kind: u32, depth: u32) -> Parsed<Value> {
        Ok(match kind {
            0 => Value::Unsigned(self.array::<1>()?[0].into()),
            1 => Value::Signed(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Unsigned(self.u32()?.into()),
            5 => Value::Signed(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Bool(self.array::<1>()?[0] != 0),
            8 => Value::Text(self.text()?),
            9 => self.list(depth)?,
            10 => Value::Unsigned(self.u64()?),
            11 => Value::Signed(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(format!("a value is of kind {other}, which is not known").into()),
        })
    }

    /// Each element has a byte at least, so the file ends before a list is too long.
    fn list(&mut self, depth: u32) -> Parsed<Value> {
        if depth == MAX_DEPTH {
            return Err(format!("a list is {MAX_DEPTH} lists deep in others").into());
        }
        let (kind, n) = (self.u32()?, self.count()?);
        let mut values = Vec::new();
        for _ in 0..n {
            values.push(self.value(kind, depth + 1)?);
        }
        Ok(Value::List(values))
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let rank = self.u32()?;
        if rank > MAX_RANK {
            return Err(format!("{rank} dimensions, more than {MAX_RANK}").into());
        }
        let sizes: Parsed<Vec<usize>> = (0..rank).map(|_| self.count()).collect();
        let mut sizes = sizes?;
        // The file has the innermost first.
        sizes.reverse();
        let kind = Kind::of(self.u32()?);
        let (start, bytes) = (self.count()?, kind.bytes(&sizes)?);
        let end = start.checked_add(bytes).ok_or("it ends beyond the machine's memory")?;
        Ok(Entry { kind, sizes, place: start..end })
    }
}
