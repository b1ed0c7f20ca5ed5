//! Compiled programs on disk, so that the second start of a program compiles nothing.
//!
//! Content-addressed: a file is named by a hash of what the program was made from and for, and
//! holds that key, which is compared. Files appear whole (written beside, then renamed), so any
//! number of processes may share the folder; one that is damaged is removed with a warning.
//! Bounded: when the folder holds more than about [`LIMIT`] bytes or [`MOST`] files, the files used
//! least recently go, and what killed writers left unfinished goes after an hour.
//! Nothing here fails a compilation. Only a folder that belongs to this user and that nobody else
//! may write is used, since its files are run.

use std::{
    fs,
    hash::Hasher,
    io::Write as _,
    path::{Path, PathBuf},
    sync::mpsc::{SyncSender, sync_channel},
    time::{Duration, SystemTime},
};

use gt_ir::{Graph, NodeId, NodeKind};
use serde::Serialize;

use super::{
    artifact::{Artifact, Target},
    cache::Mixer,
};
use crate::error::ArtifactError;

/// Bytes the folder may hold.
const LIMIT: u64 = 256 << 20;
/// Files the folder may hold: to look at them takes a thread some 5 us each.
const MOST: usize = 8 << 10;
/// The file whose age says when the folder was last pruned.
const PRUNED: &str = "pruned";
/// How long processes that begin leave a folder that was pruned alone.
const UNTOUCHED: Duration = Duration::from_hours(1);
/// The most programs that wait to be written.
const MAX_UNWRITTEN: usize = 1 << 10;
/// The environment variable that names the folder; `off` for none.
const VARIABLE: &str = "GT_CACHE";

/// A folder of compiled programs.
pub(super) struct Store {
    folder: PathBuf,
    target: Target,
    /// Takes programs to be written: a thread writes them, so that nobody waits for a disk.
    writer: SyncSender<(PathBuf, Vec<u8>)>,
}

/// The folder programs are kept in unless told otherwise: `GT_CACHE`, else `gt` in the user's
/// folder for caches.
pub(super) fn default_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    match gt_settings::var_os(VARIABLE) {
        Some(off) if off == "off" => None,
        Some(folder) => Some(folder.into()),
        None => {
            let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
            let caches = caches.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
            Some(caches.join("gt"))
        }
    }
}

impl Store {
    /// The store in a folder, which is made if it is not there; `None` where it cannot be used,
    /// with a warning if it was asked for.
    pub(super) fn open(folder: &Path, target: Target) -> Option<Store> {
        let folder = match prepare(folder) {
            Ok(folder) => folder,
            Err(why) => {
                // A home that cannot be written to is nobody's mistake; a folder asked for by name
                // is to be there.
                if gt_settings::var_os(VARIABLE).is_some() {
                    warn(&format!("compiled programs are not kept: {}: {why}", folder.display()));
                }
                return None;
            }
        };
        let (writer, jobs) = sync_channel::<(PathBuf, Vec<u8>)>(MAX_UNWRITTEN);
        let own = folder.clone();
        let write = move || {
            let mut unpruned = if is_due(&own) { u64::MAX } else { 0 };
            for (path, bytes) in jobs {
                if write_whole(&path, &bytes).is_err() {
                    continue;
                }
                unpruned = unpruned.saturating_add(bytes.len() as u64);
                if unpruned >= LIMIT / 8 {
                    let _ = fs::write(own.join(PRUNED), []); // without it, the next process prunes
                    prune(&own);
                    unpruned = 0;
                }
            }
        };
        std::thread::Builder::new().name("gt-store".into()).spawn(write).ok()?;
        Some(Store { folder, target, writer })
    }

    /// The program made from this key, if there is one.
    pub(super) fn find(&self, key: &[u8]) -> Option<Artifact> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        match Artifact::from_bytes(&bytes, &self.target) {
            Ok(artifact) if artifact.key == key => {
                touch(&path);
                Some(artifact)
            }
            Ok(_) | Err(ArtifactError::Build { .. } | ArtifactError::Processor { .. }) => None,
            Err(why) => {
                warn(&format!("{}: {why}; it is ignored", path.display()));
                let _ = fs::remove_file(&path); // another process may have removed it
                None
            }
        }
    }

    /// Keeps a program, some time soon, unless the disk is too slow for as many as there are.
    pub(super) fn keep(&self, artifact: &Artifact) {
        if let Some(bytes) = artifact.to_bytes() {
            // Nothing is kept once the thread of the writer is gone.
            let _ = self.writer.try_send((self.path(&artifact.key), bytes));
        }
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        let threads = self.target.threads.to_le_bytes();
        let (build, processor) = (self.target.build.as_bytes(), self.target.processor.as_bytes());
        self.folder.join(format!("{}.gtc", name(&[build, processor, &threads, key])))
    }
}

/// Keeps a small file of another part of GT in a folder of programs, which is made if it is not
/// there. The file appears whole. It goes as programs do: one that is not read for long is removed.
///
/// # Errors
/// The folder cannot be used, or the file cannot be written.
pub fn keep_file(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    write_whole(&prepare(folder)?.join(name), bytes)
}

/// A file that was kept with [`keep_file`].
#[must_use]
pub fn kept_file(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let path = folder.join(name);
    let bytes = fs::read(&path).ok()?;
    touch(&path);
    Some(bytes)
}

/// A file's name by what its contents are made from.
pub(crate) fn name(parts: &[&[u8]]) -> String {
    let half = |salt: usize| {
        let mut mixer = Mixer::default();
        mixer.write_usize(salt);
        parts.iter().for_each(|part| mixer.write(part));
        mixer.finish()
    };
    format!("{:016x}{:016x}", half(1), half(2))
}

/// The sources of a program as bytes. Equal graphs have equal bytes, whatever the values of their
/// scalars and wherever they were written.
pub(super) fn key(graph: &Graph, donated: &[bool], options: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 * graph.len());
    append(&mut bytes, &(graph.stage() as u8, donated, options));
    for id in graph.ids() {
        let node = graph.node(id);
        match node.kind {
            NodeKind::Input(k) => append(&mut bytes, &(0u8, k)),
            NodeKind::Scalar(k) => append(&mut bytes, &(1u8, k)),
            NodeKind::Const(s) => append(&mut bytes, &(2u8, s)),
            NodeKind::Op(op) => append(&mut bytes, &(3u8, op)),
        }
        append(&mut bytes, &(node.ty, numbers(&graph.operands(id))));
    }
    append(&mut bytes, &numbers(graph.outputs()));
    bytes
}

fn numbers(ids: &[NodeId]) -> Vec<u32> {
    ids.iter().map(|id| id.index() as u32).collect()
}

fn append(bytes: &mut Vec<u8>, value: &impl Serialize) {
    // Plain data always has bytes.
    bytes.extend(postcard::to_stdvec(value).unwrap_or_default());
}

pub(crate) fn prepare(folder: &Path) -> std::io::Result<PathBuf> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let is = fs::metadata(folder)?;
        let mine = fs::metadata("/proc/self").map_or(is.uid(), |me| me.uid());
        if is.uid() != mine || is.permissions().mode() & 0o022 != 0 {
            return Err(std::io::Error::other("others may write into it"));
        }
    }
    folder.canonicalize()
}

/// Writes a file beside and renames it, so that readers see all of it or nothing.
///
/// # Errors
/// The folder takes no file, or the name is that of a folder.
pub fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&beside, bytes)?;
    fs::rename(&beside, path).inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Marks a file as used just now.
pub(crate) fn touch(path: &Path) {
    if let Ok(file) = fs::File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now()); // only the order of pruning depends on it
    }
}

/// The age from which on a file that a writer left unfinished is removed.
const UNFINISHED: Duration = Duration::from_hours(1);

/// Whether a folder has not been pruned for a while.
fn is_due(folder: &Path) -> bool {
    let pruned = fs::metadata(folder.join(PRUNED)).and_then(|is| is.modified());
    let age = |time| SystemTime::now().duration_since(time).unwrap_or_default();
    pruned.map_or(true, |time| age(time) >= UNTOUCHED)
}

/// Removes the files that killed writers left unfinished, and the files used least recently until
/// the folder is within three quarters of its limits.
pub(crate) fn prune(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, PathBuf, u64)> = entries
        .flatten()
        .filter_map(|e| {
            let is = e.metadata().ok()?;
            Some((is.modified().ok()?, e.path(), is.len()))
        })
        .collect();
    files.retain(|(changed, path, _)| {
        let age = SystemTime::now().duration_since(*changed).unwrap_or_default();
        let left = path.extension().is_some_and(|kind| kind == "tmp") && age >= UNFINISHED;
        !left || fs::remove_file(path).is_err()
    });
    let (mut total, mut n): (u64, _) = (files.iter().map(|f| f.2).sum(), files.len());
    if total <= LIMIT && n <= MOST {
        return;
    }
    files.sort();
    for (_, path, len) in files {
        if total <= LIMIT / 4 * 3 && n <= MOST / 4 * 3 {
            return;
        }
        if fs::remove_file(path).is_ok() {
            (total, n) = (total - len, n - 1);
        }
    }
}

/// Tells the program's user, since there is nobody to give an error to: the compilation goes on.
fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {text}");
}
