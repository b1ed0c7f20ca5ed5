//! The IDX format, in which MNIST and sets like it are distributed: one array with a short header,
//! as it is or packed by gzip.
//!
//! Guarantees: sizes and the number of bytes agree, and a packed file unpacks to what its header
//! says or is an error. Bytes are `u8`; big-endian `i32`, `f32` and `f64` become the machine's.
//! Elements of 8 bits with a sign and of 16 bits have no counterpart here.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use gt_ir::{DType, Element, HostTensor};

use super::unpack::Unpacking;
use super::{InFile, Refusal, size_of, tensor};
use crate::error::Result;

/// What a file packed by gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The codes of the elements in the third byte.
const DTYPES: [(u8, DType); 4] =
    [(0x08, DType::U8), (0x0c, DType::I32), (0x0d, DType::F32), (0x0e, DType::F64)];

/// Reads an array, packed by gzip or not.
///
/// # Errors
/// The file cannot be read, is damaged, unpacks to more than
/// [`MAX_UNPACKED`](super::MAX_UNPACKED) allows, or has elements with no counterpart here.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<HostTensor> {
    let path = path.as_ref();
    from_bytes(&super::read(path)?, path)
}

/// Reads bytes as `i64`, which losses take as labels.
///
/// # Errors
/// As [`load`]; also when the elements are not bytes.
#[track_caller]
pub fn load_labels(path: impl AsRef<Path>) -> Result<HostTensor> {
    let path = path.as_ref();
    let labels = load(path)?;
    if labels.ty().dtype != DType::U8 {
        return Err(super::file_error(path, format!("{} instead of bytes", labels.ty())));
    }
    let wide = labels.bytes().iter().map(|label| i64::from(*label)).collect();
    tensor(DType::I64, labels.ty().shape.sizes(), i64::into_bytes(wide)).in_file(path)
}

/// The array of a file's bytes; errors name the file as `path`.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn from_bytes(bytes: &Bytes, path: impl AsRef<Path>) -> Result<HostTensor> {
    let path = path.as_ref();
    if bytes.starts_with(&GZIP) {
        let mut left = Unpacking::of(bytes.len())?;
        return unpack(bytes, &mut left).and_then(|bytes| parse(&bytes)).in_file(path);
    }
    parse(bytes).in_file(path)
}

/// The unpacked bytes: as many as the header says, and one more to see that there are more.
fn unpack(bytes: &[u8], left: &mut Unpacking) -> std::result::Result<Bytes, Refusal> {
    let told = |e: std::io::Error| Refusal::new(format!("unpacking: {e}"));
    let mut packed = flate2::read::MultiGzDecoder::new(bytes);
    let mut unpacked = Vec::new();
    packed.by_ref().take(4).read_to_end(&mut unpacked).map_err(told)?;
    let rank = unpacked.get(3).copied().unwrap_or(0);
    packed.by_ref().take(4 * u64::from(rank)).read_to_end(&mut unpacked).map_err(told)?;
    let Header { dtype, sizes, .. } = Header::parse(&unpacked)?;
    let size = size_of(dtype, &sizes).ok_or("the sizes have more elements than fit")? as u64;
    left.take(size)?;
    packed.take(size.saturating_add(1)).read_to_end(&mut unpacked).map_err(told)?;
    Ok(Bytes::from(unpacked))
}

/// What stands before the elements.
struct Header {
    dtype: DType,
    sizes: Vec<usize>,
    /// Its own bytes.
    length: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> std::result::Result<Header, Refusal> {
        let &[0, 0, code, rank] = bytes.first_chunk().ok_or("the header is cut off")? else {
            return Err(Refusal::new("not an IDX file: it does not begin with two zeros").hint(
                "the files of MNIST are called `train-images-idx3-ubyte` or the like, also packed \
                 by gzip",
            ));
        };
        let dtype = DTYPES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype);
        let dtype = dtype.ok_or_else(|| {
            format!("its elements (code {code:#04x}) are not bytes, i32, f32 or f64")
        })?;
        let length = 4 + 4 * usize::from(rank);
        let sizes = bytes.get(4..length).ok_or("the header is cut off")?;
        let size = |be: &[u8; 4]| u32::from_be_bytes(*be) as usize;
        let sizes = sizes.as_chunks::<4>().0.iter().map(size).collect();
        Ok(Header { dtype, sizes, length })
    }
}

fn parse(bytes: &Bytes) -> std::result::Result<HostTensor, Refusal> {
    let Header { dtype, sizes, length } = Header::parse(bytes)?;
    let size = size_of(dtype, &sizes).ok_or("the sizes have more elements than fit")?;
    let found = bytes.len() - length;
    if found != size {
        return Err(format!("sizes {sizes:?} take {size} bytes, but there are {found}").into());
    }
    tensor(dtype, &sizes, native(dtype, bytes.slice(length..)))
}

/// Big-endian elements as the machine's.
fn native(dtype: DType, bytes: Bytes) -> Bytes {
    let width = dtype.size();
    if width == 1 {
        return bytes;
    }
    let mut turned = bytes.to_vec();
    turned.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    Bytes::from(turned)
}
