//! Files mapped into memory: the only unsafe code of reading and writing files.
//!
//! Guarantees: the mapping lives as long as bytes of it are used. It cannot guarantee that nobody
//! changes the file meanwhile; see below.

#![expect(unsafe_code, reason = "mapping a file is unsafe, since others may change it")]

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

use super::InFile;
use crate::error::Result;

/// A file's bytes, mapped: pages are read when they are looked at.
///
/// As with every mapping, the file must not be changed or cut off while it is in use, by this
/// process or another: contents would change under the reader, or reading would end the process.
/// Files that are replaced as a whole, as this crate writes them, are safe.
#[track_caller]
pub(super) fn map(path: &Path) -> Result<Bytes> {
    let file = File::open(path).in_file(path)?;
    if file.metadata().in_file(path)?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is read-only and private to its owner below; that nobody changes the file
    // is the caller's part of the contract, which no program can check. Everything read from it is
    // validated as untrusted data.
    let mapped = unsafe { Mmap::map(&file) }.in_file(path)?;
    Ok(Bytes::from_owner(mapped))
}
