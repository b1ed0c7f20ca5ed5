//! Writing a file as a whole or not at all.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::path::Path;

use super::{InFile, file_error};
use crate::error::Result;

/// Writes a file beside the old one, brings it to disk and only then puts it in the old one's
/// place. After an error, or a loss of power at any moment, the old file is there as it was.
#[track_caller]
pub(crate) fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let error = file_error(path, format!("there is no folder {}", folder.display()));
        return Err(error.hint("make it first, with `std::fs::create_dir_all`"));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gt-").suffix(".part");
    plain_permissions(&mut builder);
    let temporary = builder.tempfile_in(folder).in_file(path)?;
    let mut writer = BufWriter::with_capacity(1 << 20, temporary.as_file());
    fill(&mut writer).in_file(path)?;
    writer.flush().in_file(path)?;
    drop(writer);
    temporary.as_file().sync_all().in_file(path)?;
    temporary.persist(path).in_file(path)?;
    // The new name is on disk when its folder is.
    File::open(folder).and_then(|folder| folder.sync_all()).in_file(path)
}

/// Temporary files are private; this one is to become an ordinary file, as the user's mask has it.
#[cfg(unix)]
fn plain_permissions(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn plain_permissions(_: &mut tempfile::Builder<'_, '_>) {}
