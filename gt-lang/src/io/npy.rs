//! NumPy's formats: `.npy`, one array, and `.npz`, a zip archive of named ones.
//!
//! Guarantees: arrays in row-major or column-major order, headers of versions 1 to 3. Little-endian
//! numbers of the dtypes there are here; anything else (objects, strings, structures, big-endian
//! numbers) is an error that names it. Complex numbers (`<c8`, `<c16`) are pairs of `f32` or `f64`
//! in a last axis of size 2, which [`ComplexTensor`](crate::complex::ComplexTensor) takes.

use std::io::{Cursor, Write};
use std::path::Path;

use bytes::Bytes;
use gt_ir::{DType, HostTensor};
use zip::write::SimpleFileOptions;

use super::unpack::Unpacking;
use super::{InFile, Refusal, atomic, size_of, tensor};
use crate::error::Result;
use crate::state::StateDict;

const MAGIC: &[u8] = b"\x93NUMPY";

/// What to do about arrays of other dtypes.
const CAST: &str =
    "as numbers, with `x.astype(\"<f4\")` (or `<f8`, `<f2`, `<i8`, `<i4`, `|u1`, `|b1`)";

/// Names of dtypes in headers. NumPy has no `bf16`.
const DTYPES: [(&str, DType); 7] = [
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("<f2", DType::F16),
    ("<i8", DType::I64),
    ("<i4", DType::I32),
    ("|u1", DType::U8),
    ("|b1", DType::Bool),
];

/// Names of the dtypes of complex numbers, with those of their parts.
const COMPLEX: [(&str, DType); 2] = [("<c8", DType::F32), ("<c16", DType::F64)];

/// Reads an `.npy` file.
///
/// # Errors
/// The file cannot be read, is damaged, or its dtype has no counterpart here.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<HostTensor> {
    let path = path.as_ref();
    from_bytes(&super::read(path)?, path)
}

/// The array of a file's bytes, which it shares where they lie in row-major order; errors name the
/// file as `path`.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn from_bytes(bytes: &Bytes, path: impl AsRef<Path>) -> Result<HostTensor> {
    parse(bytes).in_file(path.as_ref())
}

/// Writes an `.npy` file, as a whole or not at all.
///
/// # Errors
/// The file cannot be written, or the dtype is `bf16`, which NumPy has not.
#[track_caller]
pub fn save(path: impl AsRef<Path>, value: &HostTensor) -> Result<()> {
    let path = path.as_ref();
    let head = header(value).in_file(path)?;
    atomic::write(path, |file| file.write_all(&head).and_then(|()| file.write_all(value.bytes())))
}

/// Writes an `.npy` file of complex numbers, `complex64` or `complex128` in NumPy, as a whole or
/// not at all. The value has their pairs, `[.., 2]` of `f32` or `f64`, as
/// [`ComplexTensor::to_host`](crate::complex::ComplexTensor::to_host) gives them.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let z = ComplexTensor::randn([3], ComplexDType::C64);
/// io::npy::save_complex("z.npy", &z.to_host()?)?;
/// let back = ComplexTensor::from_pairs(&DynTensor::from_host(io::npy::load("z.npy")?));
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// The file cannot be written, or the value has no pairs.
#[track_caller]
pub fn save_complex(path: impl AsRef<Path>, pairs: &HostTensor) -> Result<()> {
    let path = path.as_ref();
    let head = complex_header(pairs).in_file(path)?;
    atomic::write(path, |file| file.write_all(&head).and_then(|()| file.write_all(pairs.bytes())))
}

/// The bytes of an `.npy` file.
///
/// # Errors
/// The dtype is `bf16`, which NumPy has not.
#[track_caller]
pub fn to_bytes(value: &HostTensor) -> Result<Vec<u8>> {
    match header(value) {
        Ok(head) => Ok([&head, &value.bytes()[..]].concat()),
        Err(refusal) => Err(refusal.into_error()),
    }
}

/// The bytes of an `.npy` file of complex numbers; see [`save_complex`].
///
/// # Errors
/// The value has no pairs.
#[track_caller]
pub fn complex_to_bytes(pairs: &HostTensor) -> Result<Vec<u8>> {
    match complex_header(pairs) {
        Ok(head) => Ok([&head, &pairs.bytes()[..]].concat()),
        Err(refusal) => Err(refusal.into_error()),
    }
}

/// Reads all arrays of an `.npz` archive, packed or not.
///
/// # Errors
/// As [`load`]; also when an array's checksum is wrong, or the file unpacks to more than
/// [`MAX_UNPACKED`](super::MAX_UNPACKED) allows.
#[track_caller]
pub fn load_npz(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    let bytes = super::read(path)?;
    let mut left = Unpacking::of(bytes.len())?;
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).in_file(path)?;
    let mut state = StateDict::new();
    for i in 0..archive.len() {
        let (file, bytes) = left.entry(&mut archive, i, u64::MAX).in_file(path)?;
        let name = file.strip_suffix(".npy").unwrap_or(&file);
        let value = parse(&bytes).map_err(|refusal| refusal.of(&file)).in_file(path)?;
        state.insert(name, value);
    }
    Ok(state)
}

/// Writes an `.npz` archive as `np.savez` does, unpacked, as a whole or not at all.
///
/// # Errors
/// As [`save`].
#[track_caller]
pub fn save_npz(path: impl AsRef<Path>, state: &StateDict) -> Result<()> {
    let path = path.as_ref();
    let plain = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .large_file(true);
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, value) in state.iter() {
        let head = header(value).map_err(|refusal| refusal.of(name)).in_file(path)?;
        archive.start_file(format!("{name}.npy"), plain).in_file(path)?;
        archive.write_all(&head).and_then(|()| archive.write_all(value.bytes())).in_file(path)?;
    }
    let bytes = archive.finish().in_file(path)?.into_inner();
    atomic::write(path, |file| file.write_all(&bytes))
}

/// The array of an `.npy` file.
pub(super) fn parse(bytes: &Bytes) -> Result<HostTensor, Refusal> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not an npy file")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or("the header is cut off")?;
    let (length, at) = match version[0] {
        1 => rest.first_chunk::<2>().map(|n| (usize::from(u16::from_le_bytes(*n)), 10)),
        2 | 3 => rest.first_chunk::<4>().map(|n| (u32::from_le_bytes(*n) as usize, 12)),
        other => return Err(format!("version {other} of the format is not known").into()),
    }
    .ok_or("the header is cut off")?;
    let end = at + length;
    let text = bytes.get(at..end).ok_or("the header is cut off")?;
    let head = Header::parse(std::str::from_utf8(text)?)?;
    let pair = if head.is_complex { 2 } else { 1 };
    let size = size_of(head.dtype, &head.sizes).and_then(|size| size.checked_mul(pair));
    let size = size.ok_or("the shape has more elements than fit")?;
    if bytes.len() - end != size {
        let found = bytes.len() - end;
        let message = format!("shape {:?} takes {size} bytes, but there are {found}", head.sizes);
        return Err(message.into());
    }
    let data = bytes.slice(end..);
    let width = head.dtype.size() * pair;
    let data = if head.columns_first { row_major(&data, &head.sizes, width) } else { data };
    let mut sizes = head.sizes;
    if head.is_complex {
        sizes.push(pair);
    }
    tensor(head.dtype, &sizes, data)
}

/// The dictionary at the beginning of an array.
struct Header {
    /// Of the numbers, or of the parts of complex ones.
    dtype: DType,
    is_complex: bool,
    columns_first: bool,
    sizes: Vec<usize>,
}

impl Header {
    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
    fn parse(text: &str) -> Result<Header, Refusal> {
        let field = |name: &str| {
            let found = text.split_once(&format!("'{name}':")).map(|(_, rest)| rest.trim_start());
            found.ok_or_else(|| format!("the header has no `{name}`"))
        };
        let descr = field("descr")?.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        let descr = descr.map(|(name, _)| name).ok_or_else(|| {
            Refusal::new("the array is not one of plain numbers")
                .hint(format!("save each field by itself, {CAST}"))
        })?;
        let found = DTYPES.iter().chain(&COMPLEX).find(|(name, _)| *name == descr);
        let is_complex = COMPLEX.iter().any(|(name, _)| *name == descr);
        let dtype = found.map(|(_, dtype)| *dtype).ok_or_else(|| {
            Refusal::new(format!("its dtype `{descr}` has no counterpart here"))
                .hint(format!("save it {CAST}"))
        })?;
        let columns_first = match field("fortran_order")? {
            order if order.starts_with("True") => true,
            order if order.starts_with("False") => false,
            _ => return Err("`fortran_order` is neither True nor False".into()),
        };
        let shape = field("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (shape, _) = shape.ok_or("the shape is not a tuple")?;
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        let sizes: Result<Vec<usize>, _> = sizes.map(str::parse).collect();
        let sizes = sizes.map_err(|e| format!("the shape ({shape}): {e}"))?;
        Ok(Header { dtype, is_complex, columns_first, sizes })
    }
}

/// Elements in column-major order, put into row-major order.
pub(super) fn row_major(data: &[u8], sizes: &[usize], width: usize) -> Bytes {
    let mut strides = vec![0; sizes.len()];
    let mut step = 1;
    for (stride, size) in strides.iter_mut().zip(sizes) {
        *stride = step;
        step *= size;
    }
    gathered(data, sizes, &strides, width).unwrap_or_default()
}

/// Elements of these sizes and strides (in elements), in row-major order; `None` where one lies
/// outside.
pub(super) fn gathered(
    data: &[u8],
    sizes: &[usize],
    strides: &[usize],
    width: usize,
) -> Option<Bytes> {
    let n: usize = sizes.iter().product();
    let mut out = Vec::with_capacity(n * width);
    let mut at = vec![0_usize; sizes.len()];
    for _ in 0..n {
        let offset: usize = at.iter().zip(strides).map(|(i, stride)| i * stride).sum();
        out.extend_from_slice(data.get(offset * width..(offset + 1) * width)?);
        for axis in (0..sizes.len()).rev() {
            at[axis] += 1;
            if at[axis] < sizes[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
    Some(Bytes::from(out))
}

/// The header of an array, padded so that the contents are aligned.
fn header(value: &HostTensor) -> Result<Vec<u8>, Refusal> {
    let dtype = value.ty().dtype;
    let descr = DTYPES.iter().find(|(_, ours)| *ours == dtype).map(|(name, _)| *name);
    let descr = descr.ok_or_else(|| {
        Refusal::new(format!("NumPy has no {dtype}"))
            .hint("save it as f32, with `to_dtype(DType::F32)`")
    })?;
    Ok(header_of(descr, value.ty().shape.sizes()))
}

/// The header of an array of complex numbers.
fn complex_header(pairs: &HostTensor) -> Result<Vec<u8>, Refusal> {
    let ty = pairs.ty();
    let descr = COMPLEX.iter().find(|(_, part)| *part == ty.dtype).map(|(name, _)| *name);
    match (descr, ty.shape.sizes()) {
        (Some(descr), [sizes @ .., 2]) => Ok(header_of(descr, sizes)),
        _ => {
            Err(Refusal::new(format!("complex numbers are pairs [.., 2] of f32 or f64, not {ty}"))
                .hint("`ComplexTensor::to_host` gives pairs; `save` writes real numbers"))
        }
    }
}

/// The header of an array of this dtype.
fn header_of(descr: &str, sizes: &[usize]) -> Vec<u8> {
    let rank = sizes.len();
    let sizes: String = sizes.iter().map(|size| format!("{size}, ")).collect();
    let sizes = if rank == 1 { sizes.trim_end() } else { sizes.trim_end_matches(", ") };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let padded = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    // Eight sizes of twenty digits at most: far below 65,536.
    out.extend((padded as u16).to_le_bytes());
    out.extend(text.bytes());
    out.resize(MAGIC.len() + 4 + padded - 1, b' ');
    out.push(b'\n');
    out
}
