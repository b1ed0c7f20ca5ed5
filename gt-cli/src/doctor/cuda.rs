//! NVIDIA's GPUs and their driver, found without loading a library of CUDA.
//!
//! `nvidia-smi`, which comes with every driver, lists them. Without it, `/proc` shows the driver.

use super::report::{Finding, Section};
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The first driver that runs CUDA 13.
const DRIVER: u32 = 580;
/// The major version of CUDA that the pinned libtorch is built for.
const CUDA: &str = "13";
const BUILD: &str = "cargo xtask libtorch --cuda, then LIBTORCH=$PWD/.libtorch/cuda cargo build \
                     --release -p gt-cli --features cuda";

/// The driver of this machine's GPUs, and the GPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gpus {
    driver: Option<String>,
    /// A line for each GPU, with name, memory and compute capability.
    pub(super) devices: Vec<String>,
    /// Why the driver did not list the GPUs.
    fault: Option<String>,
}

/// Finds the GPUs.
pub(super) fn gpus() -> Gpus {
    asked().unwrap_or_else(|| in_proc(Path::new("/proc/driver/nvidia")))
}

pub(super) fn section(gpus: &Gpus) -> Section {
    let mut section = Section::new("CUDA");
    let driver = gpus.driver.clone().unwrap_or_else(|| "none".into());
    section.line("driver", driver, json!(gpus.driver), outdated(gpus));
    let shown = if gpus.devices.is_empty() { "none".into() } else { gpus.devices.join("; ") };
    let unknown = gpus.fault.as_ref().map(|fault| {
        Finding::advice(
            format!("the driver does not answer: {fault}"),
            "run nvidia-smi for details",
        )
    });
    section.line("devices", shown, json!(gpus.devices), unknown.or_else(|| unused(gpus)));
    if cfg!(feature = "torch") {
        library(&mut section, "runtime", "libcudart.so.13", None);
        let fix = "cargo xtask libtorch fetches it; or put its folder into LD_LIBRARY_PATH";
        let absent = Finding::advice("NVRTC, which compiles kernels for GPUs, is not found", fix);
        library(
            &mut section,
            "NVRTC",
            "libnvrtc.so.13",
            (!gpus.devices.is_empty()).then_some(absent),
        );
    }
    section
}

fn outdated(gpus: &Gpus) -> Option<Finding> {
    let version = gpus.driver.as_ref()?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    let what = format!("driver {version} does not run CUDA {CUDA}");
    (major < DRIVER).then(|| Finding::advice(what, format!("install driver {DRIVER} or later")))
}

fn unused(gpus: &Gpus) -> Option<Finding> {
    let idle = !gpus.devices.is_empty() && !cfg!(feature = "cuda");
    idle.then(|| Finding::advice("this machine has a GPU, but this build has no CUDA", BUILD))
}

fn library(section: &mut Section, name: &str, file: &str, absent: Option<Finding>) {
    match find(file) {
        Some(path) => section.say(name, path.display().to_string()),
        None => section.line(name, format!("{file} is not found"), Value::Null, absent),
    }
}

/// The path of a library: as this process has loaded it, or beside libtorch, or in a folder of the
/// loader.
pub(super) fn find(file: &str) -> Option<PathBuf> {
    if let Some(path) = loaded(file) {
        return Some(path);
    }
    let beside = loaded("libtorch_cpu.so").and_then(|path| Some(path.parent()?.to_path_buf()));
    let packaged = beside.as_ref().map(|folder| folder.join("../../nvidia/cu13/lib"));
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(packaged).chain(std::env::split_paths(&named));
    let system = ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"];
    let mut all = folders.chain(system.map(PathBuf::from)).map(|folder| folder.join(file));
    all.find(|path| path.exists())
}

/// The path of a library that this process has loaded.
pub(super) fn loaded(file: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    paths.find(|path| path.ends_with(&format!("/{file}"))).map(PathBuf::from)
}

/// The GPUs that `nvidia-smi` lists. None if there is no `nvidia-smi`.
fn asked() -> Option<Gpus> {
    let query = "--query-gpu=index,name,memory.total,compute_cap,driver_version";
    let mut child = Command::new("nvidia-smi")
        .args([query, "--format=csv,noheader"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // The time is limited, because a driver that hangs would block this program.
    for _ in 0..500 {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            _ => break,
        }
    }
    let ended = child.try_wait().ok().flatten();
    let _ = child.kill();
    let mut text = String::new();
    let _ = child.stdout.take()?.read_to_string(&mut text);
    let _ = child.wait();
    match ended {
        Some(status) if status.success() => Some(listed(&text)),
        Some(_) => Some(Gpus {
            fault: Some(text.trim().into()),
            ..in_proc(Path::new("/proc/driver/nvidia"))
        }),
        None => Some(Gpus { fault: Some("nvidia-smi hangs".into()), ..Gpus::default() }),
    }
}

/// Parses the lines of `nvidia-smi`: index, name, memory, compute capability, driver.
fn listed(text: &str) -> Gpus {
    let mut gpus = Gpus::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let [index, name, memory, capability, driver] = words[..] else { continue };
        gpus.driver = Some(driver.into());
        gpus.devices
            .push(format!("cuda:{index} {name}, {memory}, compute capability {capability}"));
    }
    gpus
}

/// The driver and GPUs in the folder of the kernel module.
fn in_proc(folder: &Path) -> Gpus {
    let text = std::fs::read_to_string(folder.join("version")).unwrap_or_default();
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let driver = text.lines().next().and_then(|line| line.split_whitespace().find(is_version));
    let entries = std::fs::read_dir(folder.join("gpus")).into_iter().flatten().flatten();
    let mut devices: Vec<String> = entries
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("information")).ok())
        .filter_map(|text| Some(text.lines().find_map(|l| l.strip_prefix("Model:"))?.trim().into()))
        .collect();
    devices.sort();
    Gpus { driver: driver.map(str::to_string), devices, fault: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_says_is_read() {
        let gpus = listed(
            "0, NVIDIA H200, 143771 MiB, 9.0, 580.95.05\n1, NVIDIA H200, 143771 MiB, 9.0, \
             580.95.05\n",
        );
        assert_eq!((gpus.devices.len(), gpus.driver.as_deref()), (2, Some("580.95.05")));
        assert_eq!(gpus.devices[1], "cuda:1 NVIDIA H200, 143771 MiB, compute capability 9.0");
        assert_eq!(outdated(&gpus), None);
        let old = Gpus { driver: Some("535.183.01".into()), ..Gpus::default() };
        assert!(outdated(&old).is_some());
        assert_eq!(listed(""), Gpus::default());
    }

    #[test]
    fn a_machine_without_a_driver_has_no_devices() {
        assert_eq!(in_proc(Path::new("/nowhere")), Gpus::default());
    }

    #[test]
    fn libraries_that_are_loaded_are_found() {
        assert!(loaded("libc.so.6").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("libnowhere.so.7"), None);
    }
}
