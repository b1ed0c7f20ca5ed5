//! Writing a file as a whole or not at all. What a killed writer left unfinished is removed a day
//! later, when a file is written into the same folder.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{InFile, file_error};
use crate::error::Result;

/// The beginning and the end of the names of unfinished files.
const MARKS: [&str; 2] = [".gt-", ".part"];
/// The age of the last change from which on an unfinished file belongs to a writer that was killed.
const LEFT: Duration = Duration::from_hours(24);

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
    builder.prefix(MARKS[0]).suffix(MARKS[1]);
    plain_permissions(&mut builder);
    sweep(folder);
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

/// Removes the unfinished files that killed writers left in a folder. An error leaves them there,
/// because the file that is being written does not depend on them.
fn sweep(folder: &Path) {
    let [prefix, suffix] = MARKS;
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let named = name.to_str().is_some_and(|n| n.starts_with(prefix) && n.ends_with(suffix));
        let changed = || entry.metadata().and_then(|found| found.modified()).ok();
        let age = |at: SystemTime| SystemTime::now().duration_since(at).unwrap_or_default();
        if named && changed().is_some_and(|at| age(at) >= LEFT) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Temporary files are private; this one is to become an ordinary file, as the user's mask has it.
#[cfg(unix)]
fn plain_permissions(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn plain_permissions(_: &mut tempfile::Builder<'_, '_>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_writers_left_is_removed_a_day_later() {
        let folder = tempfile::tempdir().unwrap();
        let files = [".gt-old.part", ".gt-new.part", "old.part", ".gt-old"];
        for name in files {
            let file = File::create(folder.path().join(name)).unwrap();
            if name != ".gt-new.part" {
                file.set_modified(SystemTime::now() - LEFT).unwrap();
            }
        }
        write(&folder.path().join("it"), |file| file.write_all(b"whole")).unwrap();
        let there = files.map(|name| folder.path().join(name).exists());
        assert_eq!(there, [false, true, true, true]);
    }
}
