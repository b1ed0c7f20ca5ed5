//! The choice of engine and devices, in one place for the embedded system, workers and
//! measurements.
//!
//! Flags come first, then `GT_ENGINE` and `GT_DEVICE`. If both leave the choice open, it is a CUDA
//! device if the machine has one and the build can use it, else the native engine. A name that is
//! known but not usable here is an error that says what is missing and how to get it. The names are
//! in `wish`. [`decide`] is pure; only [`Here::now`] looks at the machine.

#[cfg(test)]
mod tests;
mod wish;

use std::fmt;

pub use wish::{DEVICE, Devices, ENGINE, EngineKind, UnknownDevices, UnknownEngine, Wish};

use gt_compiler::engine::{Engine, EngineError};
use gt_compiler::options::UnknownSwitch;
use gt_compiler::{Device, Native, NativeConfig, Precision};
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::error::Hinted;

/// Why a choice is not possible in this build or on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// A variable names an engine that does not exist.
    Engine(UnknownEngine),
    /// A variable names a device that does not exist.
    Devices(UnknownDevices),
    /// A variable that switches something on or off has another value.
    Switch(#[from] UnknownSwitch),
    /// The build has no libtorch.
    NoTorch,
    /// The build has no CUDA.
    NoCuda(String),
    /// The machine has no CUDA device.
    NoDevice(String, String),
    /// The machine has other CUDA devices.
    OtherDevices(Device, String),
    /// The native engine does not compute on GPUs.
    Native(String),
}

impl Hinted for ChoiceError {
    fn message(&self) -> String {
        match self {
            ChoiceError::Engine(why) => format!("{ENGINE}: {}", why.message()),
            ChoiceError::Devices(why) => format!("{DEVICE}: {}", why.message()),
            ChoiceError::Switch(why) => why.message(),
            ChoiceError::NoTorch => {
                "the engine torch: this program was built without libtorch".into()
            }
            ChoiceError::NoCuda(asked) => format!("{asked}: this program was built without CUDA"),
            ChoiceError::NoDevice(asked, why) => format!("{asked}: {why}"),
            ChoiceError::OtherDevices(device, _) => format!("there is no {device} here"),
            ChoiceError::Native(asked) => {
                format!("the engine native computes on the cpu, not on {asked}")
            }
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            ChoiceError::Engine(why) => return why.hint(),
            ChoiceError::Devices(why) => return why.hint(),
            ChoiceError::Switch(why) => return why.hint(),
            ChoiceError::NoTorch => {
                "`cargo xtask libtorch`, then `cargo build --features torch`".into()
            }
            ChoiceError::NoCuda(_) => {
                "`cargo xtask libtorch --cuda`, then `cargo build --features cuda`".into()
            }
            ChoiceError::NoDevice(..) => "`gt-cli doctor` shows which devices were found".into(),
            ChoiceError::OtherDevices(_, there) => format!("there is {there}"),
            ChoiceError::Native(asked) => format!("the engine torch computes on {asked}"),
        })
    }
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

impl From<ChoiceError> for RunError {
    fn from(error: ChoiceError) -> RunError {
        RunError::of(ErrorKind::Resource, &error)
    }
}

/// The engines and devices of this build and this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Here {
    /// Whether this build has libtorch.
    pub torch: bool,
    /// Whether this build has CUDA.
    pub cuda: bool,
    /// The names of the machine's CUDA devices. Empty if the build cannot use them.
    pub gpus: Vec<String>,
    /// Why there are no CUDA devices.
    pub why: String,
}

impl Here {
    /// This build and this machine.
    #[must_use]
    pub fn now() -> Here {
        let (gpus, why) = match gpus() {
            Ok(gpus) => (gpus, String::new()),
            Err(why) => (Vec::new(), why),
        };
        Here { torch: cfg!(feature = "torch"), cuda: cfg!(feature = "cuda"), gpus, why }
    }
}

#[cfg(feature = "cuda")]
fn gpus() -> Result<Vec<String>, String> {
    let devices = gt_compiler::cuda::devices().map_err(|why| why.to_string())?;
    Ok(devices.into_iter().map(|device| device.name).collect())
}

#[cfg(not(feature = "cuda"))]
fn gpus() -> Result<Vec<String>, String> {
    Ok(Vec::new())
}

/// A choice of engine and devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The engine.
    pub engine: EngineKind,
    /// The devices, at least one.
    pub devices: Vec<Device>,
    /// The name of a GPU that was chosen without a wish. Users are told about it once.
    pub found: Option<String>,
    /// The precision of fast modes, such as TF32.
    pub precision: Precision,
}

impl Choice {
    /// Chooses for the wish, completed by the environment, on this machine.
    ///
    /// # Errors
    /// They name an engine or a device that is unknown, or not available in this build or on this
    /// machine.
    pub fn make(wish: &Wish) -> Result<Choice, ChoiceError> {
        let wish = wish.clone().or(Wish::from_environment()?);
        let precision = Precision::from_env()?;
        // The machine's devices are looked up only if they matter, because this loads a driver.
        let here =
            if wish.engine == Some(EngineKind::Native) { Here::default() } else { Here::now() };
        Ok(Choice { precision, ..decide(&wish, &here)? })
    }

    /// The device of the n-th worker.
    #[must_use]
    pub fn device(&self, n: usize) -> Device {
        self.devices.get(n % self.devices.len().max(1)).copied().unwrap_or_default()
    }

    /// Makes an engine on a device, with this configuration of the host's threads and memory.
    ///
    /// # Errors
    /// The device cannot be used, or the code generator does not know this processor.
    pub fn engine(
        &self,
        device: Device,
        host: NativeConfig,
    ) -> Result<Box<dyn Engine>, EngineError> {
        match self.engine {
            EngineKind::Native => Ok(Box::new(Native::new(host)?)),
            EngineKind::Torch => torch(device, host, self.precision),
        }
    }

    /// Makes the engine of the first device. If a GPU that was chosen without a wish fails, the
    /// native engine takes its place.
    ///
    /// # Errors
    /// As [`Choice::engine`], except for a GPU chosen without a wish.
    pub fn begin(&self, host: NativeConfig) -> Result<Begun, EngineError> {
        let device = self.device(0);
        let made = self.engine(device, host.clone());
        let Some(found) = &self.found else {
            return Ok(Begun { engine: made?, choice: self.clone(), news: None });
        };
        match made {
            Ok(engine) => {
                let off = format!("{ENGINE}=native keeps to the processor");
                let news = Some(format!("computing on {device} ({found}); {off}"));
                Ok(Begun { engine, choice: self.clone(), news })
            }
            Err(why) => {
                let news = Some(format!("{device} ({found}) is not used: {why}"));
                let choice = Choice { precision: self.precision, ..Choice::native() };
                Ok(Begun { engine: choice.engine(Device::Cpu, host)?, choice, news })
            }
        }
    }

    fn native() -> Choice {
        Choice {
            engine: EngineKind::Native,
            devices: vec![Device::Cpu],
            found: None,
            precision: Precision::default(),
        }
    }
}

/// The first engine of a choice.
pub struct Begun {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// The choice for further engines.
    pub choice: Choice,
    /// A line that users see once.
    pub news: Option<String>,
}

#[cfg(feature = "torch")]
fn torch(
    device: Device,
    host: NativeConfig,
    precision: Precision,
) -> Result<Box<dyn Engine>, EngineError> {
    let Precision { tf32, deterministic } = precision;
    let config = gt_compiler::torch::TorchConfig::host(device);
    gt_compiler::torch::engine(&gt_compiler::torch::TorchConfig {
        host,
        tf32,
        deterministic,
        ..config
    })
}

#[cfg(not(feature = "torch"))]
fn torch(_: Device, _: NativeConfig, _: Precision) -> Result<Box<dyn Engine>, EngineError> {
    Err(EngineError::Call(ChoiceError::NoTorch.to_string()))
}

/// Chooses for a wish among the engines and devices of `here`.
///
/// # Errors
/// The wish names an engine or a device that is not available.
pub fn decide(wish: &Wish, here: &Here) -> Result<Choice, ChoiceError> {
    let plain = |engine, devices| Choice { engine, devices, ..Choice::native() };
    let cpu = || vec![Device::Cpu];
    match (wish.engine, &wish.devices) {
        (Some(EngineKind::Native), Some(devices)) if wish.wants_a_device() => {
            Err(ChoiceError::Native(devices.to_string()))
        }
        (Some(EngineKind::Torch), _) if !here.torch => Err(ChoiceError::NoTorch),
        (engine, Some(devices)) => {
            let devices = granted(devices, here)?;
            let usual = if wish.wants_a_device() { EngineKind::Torch } else { EngineKind::Native };
            Ok(plain(engine.unwrap_or(usual), devices))
        }
        (None | Some(EngineKind::Torch), None) if !here.gpus.is_empty() => Ok(Choice {
            found: here.gpus.first().cloned().filter(|_| wish.engine.is_none()),
            ..plain(EngineKind::Torch, vec![Device::Cuda(0)])
        }),
        (engine, None) => Ok(plain(engine.unwrap_or(EngineKind::Native), cpu())),
    }
}

fn granted(devices: &Devices, here: &Here) -> Result<Vec<Device>, ChoiceError> {
    let cuda = || (0..here.gpus.len()).map(Device::Cuda);
    let wanted = match devices {
        Devices::All => cuda().collect(),
        Devices::List(list) => list.clone(),
    };
    if wanted.contains(&Device::Simulated) && !here.torch {
        return Err(ChoiceError::NoTorch);
    }
    let gpus = wanted.iter().filter(|device| matches!(device, Device::Cuda(_)));
    if *devices == Devices::All || gpus.clone().next().is_some() {
        let asked = || devices.to_string();
        if !here.cuda {
            return Err(ChoiceError::NoCuda(asked()));
        }
        if here.gpus.is_empty() {
            return Err(ChoiceError::NoDevice(asked(), here.why.clone()));
        }
    }
    match gpus.clone().find(|gpu| !cuda().any(|there| there == **gpu)) {
        Some(missing) => Err(ChoiceError::OtherDevices(*missing, listed(cuda()))),
        None => Ok(wanted),
    }
}

fn listed(devices: impl Iterator<Item = impl fmt::Display>) -> String {
    devices.map(|device| device.to_string()).collect::<Vec<_>>().join(",")
}
