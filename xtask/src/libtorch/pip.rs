//! A wheel in the store: a file with the pinned hash, which `pip` fetches if it is missing.
//!
//! `pip` fetches exactly one file, by version and hash, from the index of its configuration. It
//! writes into a temporary folder and renames, so an interruption leaves no partial file. Complete
//! files are kept. Nothing is installed.

use super::wheels::{PYTHON, Wheel};
use crate::shell::Step;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The number of attempts to fetch a wheel. `pip` retries single connections itself.
const ATTEMPTS: usize = 3;

/// The file of a wheel in `store`.
pub(super) fn wheel(wheel: &Wheel, store: &Path) -> Result<PathBuf> {
    if let Some(path) = at_hand(wheel, store)? {
        println!("already fetched: {}", path.display());
        return Ok(path);
    }
    let mut outcome = Ok(());
    for attempt in 1..=ATTEMPTS {
        outcome = download(wheel, store);
        match &outcome {
            Ok(()) => break,
            Err(error) => println!("attempt {attempt} of {ATTEMPTS}: {error:#}"),
        }
    }
    outcome.with_context(|| hint(wheel, store))?;
    at_hand(wheel, store)?
        .with_context(|| format!("pip did not write {} into {}", wheel, store.display()))
}

/// The file in the store with the pinned hash. A file with another hash is removed, because it is
/// in the way of the right one.
fn at_hand(wheel: &Wheel, store: &Path) -> Result<Option<PathBuf>> {
    let start = format!("{}-{}-", wheel.project.replace('-', "_"), wheel.version);
    let entries =
        fs::read_dir(store).with_context(|| format!("cannot read {}", store.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(&start) || !name.ends_with(".whl") {
            continue;
        }
        if sha256(&entry.path())? == wheel.sha256 {
            return Ok(Some(entry.path()));
        }
        println!("{name} does not have the pinned hash and is fetched again");
        fs::remove_file(entry.path())?;
    }
    Ok(None)
}

fn sha256(path: &Path) -> Result<String> {
    let reading = || format!("cannot read {}", path.display());
    let mut file = File::open(path).with_context(reading)?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut file, &mut hasher).with_context(reading)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Fetches the file by `pip`. The temporary files of `pip` are in the store as well, where there is
/// room for large files and they can be renamed.
fn download(wheel: &Wheel, store: &Path) -> Result<()> {
    let incoming = store.join("incoming");
    fs::create_dir_all(&incoming).with_context(|| format!("cannot make {}", incoming.display()))?;
    let requirements = incoming.join("requirements.txt");
    let line = format!("{}=={} --hash=sha256:{}\n", wheel.project, wheel.version, wheel.sha256);
    fs::write(&requirements, line)
        .with_context(|| format!("cannot write {}", requirements.display()))?;
    let done = Step::new("python3", &["-m", "pip", "download", "--require-hashes", "--no-deps"])
        .args(&["--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"])
        .args(&["--python-version", PYTHON, "--implementation", "cp"])
        .args(&["--abi", &format!("cp{}", PYTHON.replace('.', "")), "--abi", "abi3"])
        .args(&["--platform", wheel.platform, "--dest", &store.to_string_lossy()])
        .args(&["--requirement", &requirements.to_string_lossy()])
        .env("TMPDIR", &incoming.to_string_lossy())
        .run();
    let _ = fs::remove_dir_all(&incoming);
    done
}

fn hint(wheel: &Wheel, store: &Path) -> String {
    let without = Step::new("python3", &["-m", "pip", "--version"]).read().is_err();
    let cure = if without {
        "fetching needs `python3` with `pip` (on Debian, install `python3-pip`)".into()
    } else {
        format!("you can also put the wheel into {}", store.display())
    };
    format!("cannot fetch {wheel}\nhint: {cure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Wheel = Wheel {
        project: "a-b",
        version: "1.0",
        platform: "any",
        megabytes: 0,
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    };

    #[test]
    fn only_the_pinned_bytes_serve() {
        let store = std::env::temp_dir().join(format!("gt-xtask-wheels-{}", std::process::id()));
        fs::create_dir_all(&store).unwrap();
        assert_eq!(at_hand(&EMPTY, &store).unwrap(), None);
        let path = store.join("a_b-1.0-py3-none-any.whl");
        fs::write(&path, "half of it").unwrap();
        assert_eq!(at_hand(&EMPTY, &store).unwrap(), None);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        assert_eq!(at_hand(&EMPTY, &store).unwrap(), Some(path));
        fs::remove_dir_all(&store).unwrap();
    }
}
