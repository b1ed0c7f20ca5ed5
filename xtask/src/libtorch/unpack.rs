//! Unpacks wheels into a folder with the layout of libtorch, for `tch` and the linker.
//!
//! The files are written into a temporary folder, which is renamed when it is complete. A list in
//! the folder names its wheels and the size of each file. Later runs compare the list with the pins
//! and the files, and make the folder again if they differ.

use super::wheels::{Part, TORCH, Take};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use zip::ZipArchive;

/// The list of a folder's wheels and files.
const LIST: &str = "made-from";

/// Whether the folder was made from these parts and is complete.
pub(super) fn is_whole(place: &Path, parts: &[Part]) -> bool {
    let Ok(list) = fs::read_to_string(place.join(LIST)) else { return false };
    let Some(files) = list.strip_prefix(&recipe(parts)) else { return false };
    files.lines().all(|line| {
        line.split_once(' ').is_some_and(|(size, name)| {
            fs::metadata(place.join(name)).is_ok_and(|file| Ok(file.len()) == size.parse())
        })
    })
}

/// Makes the folder from the wheels of its parts.
pub(super) fn unpack(parts: &[Part], wheels: &[PathBuf], place: &Path) -> Result<()> {
    let beside = place.with_extension("partial");
    remove(&beside)?;
    let mut sizes = BTreeMap::new();
    for (part, wheel) in parts.iter().zip(wheels) {
        println!("unpacking {} {}", part.wheel.project, part.wheel.version);
        let unpacking = || format!("cannot unpack {}", wheel.display());
        take(part, wheel, &beside, &mut sizes).with_context(unpacking)?;
    }
    complete(&beside, &mut sizes)?;
    let mut list = recipe(parts);
    for (name, size) in &sizes {
        let _ = writeln!(list, "{size} {name}");
    }
    fs::write(beside.join(LIST), list)
        .with_context(|| format!("cannot write to {}", beside.display()))?;
    replace(place, &beside)
}

/// Replaces the old folder by the new one, with two renames.
fn replace(place: &Path, beside: &Path) -> Result<()> {
    let old = place.with_extension("old");
    remove(&old)?;
    if place.exists() {
        fs::rename(place, &old).with_context(|| format!("cannot move {}", place.display()))?;
    }
    fs::rename(beside, place).with_context(|| format!("cannot make {}", place.display()))?;
    remove(&old)
}

/// The head of a folder's list: its pins, and the files taken from each wheel.
fn recipe(parts: &[Part]) -> String {
    let mut text = String::new();
    for Part { wheel, takes } in parts {
        let _ = writeln!(text, "{} {} {}", wheel.project, wheel.version, wheel.sha256);
        for Take { from, to } in takes {
            let _ = writeln!(text, "  {from} {to}");
        }
    }
    text + "\n"
}

/// Writes the files that a part takes from its wheel, and records their sizes.
fn take(part: &Part, wheel: &Path, into: &Path, sizes: &mut BTreeMap<String, u64>) -> Result<()> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(wheel)?))?;
    let mut unused: Vec<&Take> = part.takes.iter().collect();
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i)?;
        let name = entry.name()?.into_owned();
        let Some((take, to)) = part.takes.iter().find_map(|t| Some((t, destination(t, &name)?)))
        else {
            continue;
        };
        unused.retain(|other| !std::ptr::eq(*other, take));
        if take.is_left_out() {
            continue;
        }
        ensure!(entry.enclosed_name().is_some(), "{name} points out of the wheel");
        let size = write(&into.join(&to), &mut entry)?;
        sizes.insert(to, size);
    }
    let absent: Vec<&str> = unused.iter().map(|take| take.from.as_str()).collect();
    ensure!(absent.is_empty(), "the wheel has no {}", absent.join(", "));
    Ok(())
}

/// The destination of an entry. From a folder of libraries only shared libraries are taken, from
/// other folders all files.
fn destination(take: &Take, name: &str) -> Option<String> {
    let rest = name.strip_prefix(&take.from)?;
    match take.from.ends_with('/') {
        _ if take.is_left_out() => Some(String::new()),
        false => rest.is_empty().then(|| take.to.clone()),
        true if rest.is_empty() || rest.ends_with('/') => None,
        true if take.to == "lib/" && !rest.contains(".so") => None,
        true => Some(format!("{}{rest}", take.to)),
    }
}

/// Writes the files that no wheel has: the version, where `tch` looks for it, and linker scripts
/// under the names to link by. The wheel's own `libtorch.so` only names the parts of libtorch,
/// including CUDA's, so the CPU build needs another one.
fn complete(folder: &Path, sizes: &mut BTreeMap<String, u64>) -> Result<()> {
    if !sizes.keys().any(|name| name.starts_with("lib/")) {
        return Ok(()); // No libraries to link.
    }
    let texts = [
        ("build-version", format!("{TORCH}\n")),
        ("lib/libtorch.so", "INPUT(libtorch_cpu.so)\n".into()),
        ("lib/libcudart.so", "INPUT(libcudart.so.13)\n".into()),
    ];
    for (name, text) in texts {
        if !sizes.contains_key(name) {
            sizes.insert(name.into(), write(&folder.join(name), &mut text.as_bytes())?);
        }
    }
    Ok(())
}

fn write(path: &Path, from: &mut impl std::io::Read) -> Result<u64> {
    let writing = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(writing)?;
    }
    let mut file = BufWriter::new(File::create(path).with_context(writing)?);
    let size = std::io::copy(from, &mut file).with_context(writing)?;
    file.flush().with_context(writing)?;
    Ok(size)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(from: &str, to: &str) -> Take {
        Take { from: from.into(), to: to.into() }
    }

    #[test]
    fn a_folder_goes_below_its_place_and_a_file_to_its_own() {
        let headers = take("torch/include/", "include/");
        assert_eq!(destination(&headers, "torch/include/a/b.h").unwrap(), "include/a/b.h");
        assert_eq!(destination(&headers, "torch/include/a/"), None);
        assert_eq!(destination(&headers, "torch/lib/b.so"), None);
        let library = take("torch/lib/b.so", "lib/b.so");
        assert_eq!(destination(&library, "torch/lib/b.so").unwrap(), "lib/b.so");
        assert_eq!(destination(&library, "torch/lib/b.so.1"), None);
        let libraries = take("nvidia/nccl/lib/", "lib/");
        assert_eq!(
            destination(&libraries, "nvidia/nccl/lib/libnccl.so.2").unwrap(),
            "lib/libnccl.so.2"
        );
        assert_eq!(destination(&libraries, "nvidia/nccl/lib/libnccl_static.a"), None);
        let out = Take::leave_out("torch/include/");
        assert!(destination(&out, "torch/include/a.h").is_some() && out.is_left_out());
        assert_eq!(destination(&out, "torch/functional.py"), None);
    }

    #[test]
    fn a_folder_with_a_file_of_another_size_is_not_whole() {
        let place = std::env::temp_dir().join(format!("gt-xtask-unpack-{}", std::process::id()));
        let list = format!("{}3 include/a.h\n", recipe(&[]));
        write(&place.join(LIST), &mut list.as_bytes()).unwrap();
        assert!(!is_whole(&place, &[]));
        write(&place.join("include/a.h"), &mut &b"abc"[..]).unwrap();
        assert!(is_whole(&place, &[]));
        write(&place.join("include/a.h"), &mut &b"ab"[..]).unwrap();
        assert!(!is_whole(&place, &[]));
        remove(&place).unwrap();
    }
}
