//! `cargo xtask libtorch`: installs the libtorch that this project is built against into a cache
//! folder of the checkout.
//!
//! The files come from wheels that are pinned by hash (`wheels`) and fetched by the user's `pip`
//! (`pip`). They are unpacked into a temporary folder, which is then renamed (`unpack`), so an
//! installation is either complete or absent. Complete files are not fetched again. Python is
//! needed for fetching only, not to build or to run.

mod pip;
mod stubs;
mod unpack;
mod wheels;

use crate::shell::{self, Step, root};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use wheels::{PYTHON, Part};

/// The folder of everything fetched, relative to the root and ignored by git.
const CACHE: &str = ".libtorch";
/// The bytes of disk needed to fetch libtorch for CUDA and to build with it.
const ROOM: u64 = 8 << 30;

#[derive(Args, Default)]
pub(crate) struct LibtorchArgs {
    /// Fetch the build for CUDA 13 instead of the CPU parts, with the headers that feature `cuda`
    /// is compiled against
    #[arg(long)]
    cuda: bool,
    /// Also fetch the libraries that CUDA programs need to run, several gigabytes: for machines
    /// with a GPU but without PyTorch
    #[arg(long, requires = "cuda")]
    run: bool,
    /// Keep the wheels in `.libtorch/wheels`, so that another kind does not fetch them again
    #[arg(long)]
    keep: bool,
}

/// Fetches the missing files and prints how to build with them.
pub(crate) fn libtorch(args: &LibtorchArgs) -> Result<()> {
    let kind = Kind::of(args);
    let place = fetched(kind, Wheels::after(args.keep))?;
    println!("libtorch {} is in {}", wheels::TORCH, shown(&place));
    println!("build with it: {}", kind.build_line());
    Ok(())
}

/// The feature and the libtorch that tests are built with.
pub(crate) struct ForTests {
    /// The feature: `cuda` if libtorch is built for CUDA.
    pub(crate) feature: &'static str,
    /// The folder for `LIBTORCH`, or `None` for the PyTorch of the environment.
    folder: Option<PathBuf>,
}

impl ForTests {
    /// A step that builds with it.
    pub(crate) fn given_to(&self, step: Step) -> Step {
        match &self.folder {
            Some(folder) => step.env("LIBTORCH", &folder.to_string_lossy()),
            None => step,
        }
    }
}

/// The libtorch that tests are built with: the libtorch named by the environment, else a fetched
/// one. The fetched libtorch is built for CUDA, which serves both features and needs no GPU for
/// building, unless the disk has too little space.
pub(crate) fn for_tests() -> Result<ForTests> {
    if std::env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        println!("with the libtorch of the environment's PyTorch");
        return Ok(ForTests { feature: "torch", folder: None });
    }
    // If LIBTORCH is not set, .cargo/config.toml sets it to the folder of the CPU build.
    let ours = root().join(CACHE).join(Kind::Cpu.folder());
    let named = std::env::var_os("LIBTORCH").map(PathBuf::from).filter(|folder| *folder != ours);
    // A later step needs PyTorch, which is in the same wheel.
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

/// The folder of libtorch for CUDA, which is fetched if it is missing.
pub(crate) fn for_cuda() -> Result<PathBuf> {
    fetched(Kind::Cuda, Wheels::Delete)
}

/// The folder of libtorch for the CPU, which is fetched if it is missing.
pub(crate) fn for_programs() -> Result<PathBuf> {
    match std::env::var_os("LIBTORCH") {
        Some(folder) if Path::new(&folder).join("lib").exists() => Ok(folder.into()),
        _ => fetched(Kind::Cpu, Wheels::Delete),
    }
}

/// The folder of Python packages with PyTorch, for the version [`PYTHON`] of Python. It is fetched
/// if it is missing.
pub(crate) fn for_python() -> Result<PathBuf> {
    let folder = fetched(Kind::Python, Wheels::Delete)?;
    stubs::make(&folder.join("torch/lib"))?;
    Ok(folder)
}

/// Why the system's Python cannot import `what`, which is fetched for one version of it. None if it
/// can.
pub(crate) fn unfit_python(what: &str) -> Result<Option<String>> {
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let found = Step::new("python3", &["-c", version]).read().context("`python3` is needed")?;
    let found = found.trim();
    let why = || format!("{what} is fetched for Python {PYTHON}, but `python3` is {found}");
    Ok((found != PYTHON).then(why))
}

/// The folder of Python packages with ONNX and ONNX Runtime, for the version [`PYTHON`] of Python.
/// It is fetched if it is missing. Wheels for other steps stay.
pub(crate) fn for_onnx() -> Result<PathBuf> {
    fetched(Kind::Onnx, Wheels::Keep)
}

/// A kind of installation. Each kind has its own folder, except that `CudaRun` extends the folder
/// of `Cuda`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Cpu,
    Cuda,
    CudaRun,
    /// PyTorch itself for the CPU, with the packages that its tests import.
    Python,
    /// ONNX and ONNX Runtime, with the packages that they import.
    Onnx,
}

/// Whether the wheels are kept after unpacking.
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
    const ALL: [Kind; 5] = [Kind::Cpu, Kind::Cuda, Kind::CudaRun, Kind::Python, Kind::Onnx];

    fn of(args: &LibtorchArgs) -> Kind {
        match (args.cuda, args.run) {
            (false, _) => Kind::Cpu,
            (true, false) => Kind::Cuda,
            (true, true) => Kind::CudaRun,
        }
    }

    /// The name of the folder in the cache.
    fn folder(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Cuda | Kind::CudaRun => "cuda",
            Kind::Python => "python",
            Kind::Onnx => "onnx",
        }
    }

    /// The kinds whose folder also serves for this kind.
    fn served_by(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |other| *other == self || (self == Kind::Cuda && *other == Kind::CudaRun))
    }

    fn build_line(self) -> String {
        match self {
            Kind::Cpu | Kind::Python | Kind::Onnx => "cargo build --features torch".into(),
            Kind::Cuda | Kind::CudaRun => format!(
                "LIBTORCH={} cargo build --features cuda",
                root().join(CACHE).join(self.folder()).display()
            ),
        }
    }
}

/// The folder of a kind, installed.
fn fetched(kind: Kind, wheels: Wheels) -> Result<PathBuf> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "the pinned libtorch is for Linux on x86-64\nhint: set LIBTORCH to your own libtorch \
         {}",
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

/// Locks the cache while it is read or changed. A second run waits for the first, and then finds
/// the installation complete.
fn locked(cache: &Path) -> Result<File> {
    let path = cache.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// A path relative to the root, if it is below the root.
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
