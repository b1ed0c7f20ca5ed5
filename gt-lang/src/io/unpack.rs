//! How much an archive may grow when it is unpacked: a small file can promise any size.
//!
//! Guarantees: memory is taken as bytes come, and no more of it than is left; what goes beyond is
//! an error that names the limit and how to raise it. Does not: limit archives that are not packed,
//! whose contents are as large as the file.

use std::io::{Read, Seek};

use bytes::Bytes;
use gt_ir::units;

use super::Refusal;
use crate::error::Result;
use crate::state::data_error;

/// The variable that says how many bytes a file may unpack to.
pub const MAX_UNPACKED: &str = "GT_MAX_UNPACKED";
/// What any file may unpack to.
const LEAST: u64 = 1 << 30;
/// How many times its size a larger file may unpack to.
const TIMES: u64 = 16;

/// What may still be unpacked of a file.
#[derive(Clone)]
pub(super) struct Unpacking {
    limit: u64,
    left: u64,
}

impl Unpacking {
    /// The limit of a file of this size.
    #[track_caller]
    pub(super) fn of(file: usize) -> Result<Unpacking> {
        let named = gt_settings::var(MAX_UNPACKED);
        match named.as_deref().map(parse_limit) {
            None => Ok(Unpacking::within(LEAST.max(TIMES.saturating_mul(file as u64)))),
            Some(Ok(limit)) => Ok(Unpacking::within(limit)),
            Some(Err(bad)) => Err(data_error(bad)),
        }
    }

    /// A limit that is given.
    fn within(limit: u64) -> Unpacking {
        Unpacking { limit, left: limit }
    }

    /// What is left.
    #[cfg(feature = "images")]
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Counts bytes that are about to be taken.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| self.refusal())?;
        Ok(())
    }

    /// One entry of an archive, unpacked: its name and at most so many bytes.
    pub(super) fn entry<R: Read + Seek>(
        &mut self,
        archive: &mut zip::ZipArchive<R>,
        i: usize,
        most: u64,
    ) -> Result<(String, Bytes), Refusal> {
        let file = archive.by_index(i)?;
        let name = file.name()?.into_owned();
        let promised = file.size();
        if promised > most {
            let (promised, most) = (units::bytes(promised), units::bytes(most));
            return Err(format!("{name}: {promised}, but at most {most} of it are read").into());
        }
        self.take(promised).map_err(|refusal| refusal.of(&name))?;
        let mut bytes = Vec::new();
        file.take(promised.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| format!("{name}: {e}"))?;
        if bytes.len() as u64 != promised {
            return Err(format!("{name}: {} bytes instead of {promised}", bytes.len()).into());
        }
        Ok((name, Bytes::from(bytes)))
    }

    /// The error of a file that unpacks to more than the limit.
    fn refusal(&self) -> Refusal {
        let (limit, more) = (units::bytes(self.limit), self.limit.saturating_mul(8));
        Refusal::new(format!(
            "the file unpacks to more than {limit}, as one made to fill the memory does"
        ))
        .hint(format!(
            "if you trust it, set {MAX_UNPACKED} to more bytes, as in {MAX_UNPACKED}={more}"
        ))
    }
}

/// A limit as the variable says it.
///
/// # Errors
/// The text is not a number of bytes.
fn parse_limit(text: &str) -> Result<u64, String> {
    let bad = || format!("{MAX_UNPACKED}={text} is not a number of bytes");
    text.trim().parse().map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    fn packed(n: usize) -> zip::ZipArchive<Cursor<Vec<u8>>> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file("x.npy", zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&vec![0; n]).unwrap();
        zip::ZipArchive::new(writer.finish().unwrap()).unwrap()
    }

    #[test]
    fn what_grows_beyond_the_limit_is_refused_and_the_cure_named() {
        for (n, limit) in [(1000, 1000), (1 << 20, 1 << 20), (0, 0)] {
            let mut left = Unpacking::within(limit);
            assert_eq!(left.entry(&mut packed(n), 0, u64::MAX).unwrap().1.len(), n);
            let error = left.entry(&mut packed(1), 0, u64::MAX).unwrap_err();
            let start = "x.npy: the file unpacks to more than";
            assert!(error.message.starts_with(start), "{error:?}");
            assert!(error.hint.unwrap().starts_with("if you trust it, set GT_MAX_UNPACKED"));
        }
        let mut left = Unpacking::within(u64::MAX);
        assert!(left.entry(&mut packed(100), 0, 99).unwrap_err().message.contains("at most 99"));
    }

    #[test]
    fn limits_grow_with_the_file_and_are_numbers() {
        let limit = |file: usize| Unpacking::of(file).unwrap().limit;
        assert_eq!((limit(0), limit(4 << 20), limit(1 << 30)), (LEAST, LEAST, 16 << 30));
        assert_eq!((parse_limit(" 12 "), parse_limit("1e9").is_err()), (Ok(12), true));
    }
}
