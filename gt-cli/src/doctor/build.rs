//! The build, and the engines of it that start on this machine.

use super::cuda::Gpus;
use super::report::{Finding, Section};
use gt_compiler::{Engine, EngineError, Native, NativeConfig};
use gt_runtime::choice::{Choice, Wish};
use serde_json::json;

pub(super) fn section() -> Section {
    let mut section = Section::new("build");
    section.say("version", env!("CARGO_PKG_VERSION"));
    let features: Vec<&str> =
        [("torch", cfg!(feature = "torch")), ("cuda", cfg!(feature = "cuda"))]
            .into_iter()
            .filter_map(|(name, there)| there.then_some(name))
            .collect();
    let shown = if features.is_empty() { "none".into() } else { features.join(", ") };
    section.line("features", shown, json!(features), None);
    let kind = if cfg!(debug_assertions) { "debug" } else { "release" };
    let slow = cfg!(debug_assertions).then(|| {
        Finding::advice("this is a debug build, which is slow", "cargo build --release -p gt-cli")
    });
    section.line("profile", kind, json!(kind), slow);
    section
}

/// Starts each engine and device once.
pub(super) fn engines(gpus: &Gpus) -> Section {
    let mut section = Section::new("engines");
    started(&mut section, "native", native());
    torch(&mut section, gpus);
    chosen(&mut section);
    section
}

/// The engine and devices of a program that names none.
fn chosen(section: &mut Section) {
    match Choice::make(&Wish::default()) {
        Ok(choice) => {
            let devices: Vec<String> = choice.devices.iter().map(ToString::to_string).collect();
            let text = format!("{} on {}", choice.engine, devices.join(", "));
            let value = json!({ "engine": choice.engine.name(), "devices": devices });
            section.line("chosen", text, value, None);
        }
        Err(error) => {
            section.line("chosen", "none", json!(null), Some(Finding::of("requested", &error)));
        }
    }
}

fn native() -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(Native::new(NativeConfig::host())?))
}

fn started(section: &mut Section, name: &str, engine: Result<Box<dyn Engine>, EngineError>) {
    match engine {
        Ok(engine) => {
            let info = engine.info();
            let text = format!("{} threads, {}", info.threads, info.simd);
            let value = json!({
                "works": true,
                "device": info.device,
                "threads": info.threads,
                "simd": info.simd,
            });
            section.line(name, text, value, None);
        }
        Err(error) => {
            let value = json!({ "works": false, "error": error.to_string() });
            section.line(name, "does not start", value, Some(Finding::of(name, &error)));
        }
    }
}

#[cfg(not(feature = "torch"))]
fn torch(section: &mut Section, _: &Gpus) {
    section.line("torch", "not in this build", json!({ "works": false }), None);
}

#[cfg(feature = "torch")]
fn torch(section: &mut Section, gpus: &Gpus) {
    use gt_compiler::torch::{TorchConfig, engine};
    let devices = [gt_compiler::Device::Cpu].into_iter().chain(usable(gpus));
    for device in devices {
        started(section, &format!("torch {device}"), engine(&TorchConfig::host(device)));
    }
    libtorch(section);
}

/// The GPUs that a program may use. If the driver answers, these are the GPUs that
/// `CUDA_VISIBLE_DEVICES` allows. Otherwise they are all GPUs, and their engines report the error.
#[cfg(feature = "cuda")]
fn usable(gpus: &Gpus) -> impl Iterator<Item = gt_compiler::Device> {
    let n_devices =
        gt_compiler::cuda::devices().map_or(gpus.devices.len(), |devices| devices.len());
    (0..n_devices).map(gt_compiler::Device::Cuda)
}

#[cfg(all(feature = "torch", not(feature = "cuda")))]
fn usable(_: &Gpus) -> impl Iterator<Item = gt_compiler::Device> {
    std::iter::empty()
}

/// The libtorch of this process.
#[cfg(feature = "torch")]
fn libtorch(section: &mut Section) {
    let Some(path) = super::cuda::loaded("libtorch_cpu.so") else {
        return section.line("libtorch", "not loaded", json!(null), None);
    };
    let folder = path.parent().and_then(|lib| lib.parent());
    let version =
        folder.and_then(|folder| std::fs::read_to_string(folder.join("build-version")).ok());
    let version = version.map_or("unknown version".to_string(), |text| text.trim().into());
    let value = json!({ "version": version, "path": path });
    section.line("libtorch", format!("{version}, {}", path.display()), value, None);
}
