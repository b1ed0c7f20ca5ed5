//! What computes, and on what: decided in one place for the embedded system, workers and measurements.
//!
//! Flags come first, then `GT_ENGINE` and `GT_DEVICE`, then what this build and this machine have: a CUDA device where there is one and the
//! build can use it, else the native engine. A name that is known but not usable here gives an error that says what is missing and how to
//! get it. [`decide`] is pure; only [`Here::now`] looks at the machine.

use std::{fmt, str::FromStr};

use gt_compiler::engine::{Engine, EngineError};
use gt_compiler::options::UnknownSwitch;
use gt_compiler::{Device, Native, NativeConfig, Precision};
use gt_ir::backend::{ErrorKind, RunError};

/// The variable that names an engine.
pub const ENGINE: &str = "GT_ENGINE";
/// The variable that names a device, or several.
pub const DEVICE: &str = "GT_DEVICE";

/// The engines there are, in some build or other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Kernels of our own on the processor.
    Native,
    /// libtorch's matrix products on the processor, and everything on CUDA.
    Torch,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: [EngineKind; 2] = [EngineKind::Native, EngineKind::Torch];

    /// The name [`FromStr`] reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Native => "native",
            EngineKind::Torch => "torch",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text names no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine `{0}`\nhint: the engines are native and torch")]
pub struct UnknownEngine(String);

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<EngineKind, UnknownEngine> {
        let named = EngineKind::ALL.into_iter().find(|kind| kind.name() == text.trim());
        named.ok_or_else(|| UnknownEngine(text.into()))
    }
}

/// Devices as a user names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// Every CUDA device of the machine.
    All,
    /// These, at least one.
    List(Vec<Device>),
}

/// Why a text names no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown device `{0}`\nhint: the devices are cpu, cuda (the first), cuda:N, simulated, several of them with commas, or all (every CUDA device)"
)]
pub struct UnknownDevices(String);

impl FromStr for Devices {
    type Err = UnknownDevices;

    fn from_str(text: &str) -> Result<Devices, UnknownDevices> {
        if text.trim() == "all" {
            return Ok(Devices::All);
        }
        let one = |name: &str| name.parse().map_err(|_| UnknownDevices(name.trim().into()));
        text.split(',').map(one).collect::<Result<_, _>>().map(Devices::List)
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Devices::All => f.write_str("all"),
            Devices::List(list) => f.write_str(&listed(list.iter())),
        }
    }
}

/// What somebody asks for; nothing where they leave it open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The engine.
    pub engine: Option<EngineKind>,
    /// The devices.
    pub devices: Option<Devices>,
}

impl Wish {
    /// What the environment asks for.
    ///
    /// # Errors
    /// A variable names nothing known.
    pub fn from_environment() -> Result<Wish, ChoiceError> {
        Ok(Wish { engine: variable(ENGINE)?, devices: variable(DEVICE)? })
    }

    /// This wish, and where it leaves something open the other, unless the two do not go together.
    #[must_use]
    pub fn or(self, other: Wish) -> Wish {
        let both = Wish {
            engine: self.engine.or(other.engine),
            devices: self.devices.clone().or(other.devices),
        };
        if both.engine == Some(EngineKind::Native) && both.wants_a_device() { self } else { both }
    }

    fn wants_a_device(&self) -> bool {
        match &self.devices {
            None => false,
            Some(Devices::All) => true,
            Some(Devices::List(list)) => list.iter().any(|device| *device != Device::Cpu),
        }
    }
}

fn variable<T: FromStr<Err: fmt::Display>>(name: &'static str) -> Result<Option<T>, ChoiceError> {
    let text = std::env::var_os(name).map(|text| text.to_string_lossy().into_owned());
    match text.filter(|text| !text.trim().is_empty()) {
        None => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|why: T::Err| ChoiceError::Variable(name, why.to_string())),
    }
}

/// Why a wish cannot be granted here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// A variable of the environment says something unknown.
    #[error("{0}: {1}")]
    Variable(&'static str, String),
    /// A variable that is to say yes or no says neither.
    #[error(transparent)]
    Switch(#[from] UnknownSwitch),
    /// The build has no libtorch.
    #[error(
        "the engine torch: this program was built without libtorch\nhint: `cargo xtask libtorch`, then `cargo build --features torch`"
    )]
    NoTorch,
    /// The build has no CUDA.
    #[error(
        "{0}: this program was built without CUDA\nhint: `cargo xtask libtorch --cuda`, then `cargo build --features cuda`"
    )]
    NoCuda(String),
    /// The machine has no CUDA device.
    #[error("{0}: {1}\nhint: `gt-cli doctor` says what was found")]
    NoDevice(String, String),
    /// The machine has other CUDA devices.
    #[error("there is no {0} here\nhint: there is {1}")]
    OtherDevices(Device, String),
    /// The native engine knows no GPU.
    #[error(
        "the engine native computes on the cpu, not on {0}\nhint: the engine torch computes on {0}"
    )]
    Native(String),
}

impl From<ChoiceError> for RunError {
    fn from(error: ChoiceError) -> RunError {
        RunError::new(ErrorKind::Resource, error.to_string())
    }
}

/// What there is to choose from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Here {
    /// Whether this build has libtorch.
    pub torch: bool,
    /// Whether this build has CUDA.
    pub cuda: bool,
    /// The CUDA devices of this machine, as people know them; none when the build cannot use them.
    pub gpus: Vec<String>,
    /// Why there are none.
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

/// What computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The engine.
    pub engine: EngineKind,
    /// The devices, at least one.
    pub devices: Vec<Device>,
    /// What a GPU that nobody asked for is: worth saying once.
    pub found: Option<String>,
    /// What may be done for speed.
    pub precision: Precision,
}

impl Choice {
    /// The wish and the environment's, granted on this machine.
    ///
    /// # Errors
    /// They name what is not known, not in this build or not on this machine.
    pub fn make(wish: &Wish) -> Result<Choice, ChoiceError> {
        let wish = wish.clone().or(Wish::from_environment()?);
        let precision = Precision::from_env()?;
        // What the machine has is asked only where it matters: it takes loading a driver.
        let here =
            if wish.engine == Some(EngineKind::Native) { Here::default() } else { Here::now() };
        Ok(Choice { precision, ..decide(&wish, &here)? })
    }

    /// The device of the n-th worker.
    #[must_use]
    pub fn device(&self, n: usize) -> Device {
        self.devices.get(n % self.devices.len().max(1)).copied().unwrap_or_default()
    }

    /// An engine on a device, with these threads and this memory of the host.
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

    /// The engine of the first device, with what to say about it. A GPU that nobody asked for and that cannot be used is done without.
    ///
    /// # Errors
    /// As of [`Choice::engine`], for what was asked for.
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

/// A first engine.
pub struct Begun {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// What is chosen for the others.
    pub choice: Choice,
    /// What a user should be told once.
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

/// Grants a wish from what there is.
///
/// # Errors
/// It names what is not here.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(engine: &str, devices: &str) -> Wish {
        let said = |text: &'static str| (!text.is_empty()).then_some(text);
        let (engine, devices) = (engine.to_owned().leak(), devices.to_owned().leak());
        Wish {
            engine: said(engine).map(|text| text.parse().unwrap()),
            devices: said(devices).map(|text| text.parse().unwrap()),
        }
    }

    fn here(torch: bool, cuda: bool, n_gpus: usize) -> Here {
        Here { torch, cuda, gpus: vec!["H200".into(); n_gpus], why: "no driver".into() }
    }

    /// The decision in a word, or the first line of why there is none.
    fn said(engine: &str, devices: &str, here: &Here) -> String {
        match decide(&wish(engine, devices), here) {
            Ok(choice) => {
                let found = if choice.found.is_some() { " found" } else { "" };
                format!("{} {}{found}", choice.engine, listed(choice.devices.iter()))
            }
            Err(why) => why.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn wishes_are_granted_or_refused_with_what_is_missing() {
        let (plain, torch) = (here(false, false, 0), here(true, false, 0));
        let (idle, two) = (here(true, true, 0), here(true, true, 2));
        for (engine, devices, here, want) in [
            ("", "", &plain, "native cpu"),
            ("", "", &torch, "native cpu"),
            ("", "", &idle, "native cpu"),
            ("", "", &two, "torch cuda:0 found"),
            ("native", "", &two, "native cpu"),
            ("torch", "", &torch, "torch cpu"),
            ("torch", "", &two, "torch cuda:0"),
            ("", "cpu", &two, "native cpu"),
            ("torch", "cpu", &two, "torch cpu"),
            ("", "cuda", &two, "torch cuda:0"),
            ("", "cuda:1,cpu", &two, "torch cuda:1,cpu"),
            ("", "cpu,cpu", &plain, "native cpu,cpu"),
            ("", "simulated", &torch, "torch simulated"),
            ("", "simulated", &plain, "the engine torch: this program was built without libtorch"),
            (
                "native",
                "simulated",
                &torch,
                "the engine native computes on the cpu, not on simulated",
            ),
            ("", "all", &two, "torch cuda:0,cuda:1"),
            ("torch", "", &plain, "the engine torch: this program was built without libtorch"),
            ("", "cuda:1", &torch, "cuda:1: this program was built without CUDA"),
            ("", "all", &plain, "all: this program was built without CUDA"),
            ("", "all", &idle, "all: no driver"),
            ("torch", "cuda", &idle, "cuda:0: no driver"),
            ("", "cuda:2", &two, "there is no cuda:2 here"),
            ("native", "cuda", &two, "the engine native computes on the cpu, not on cuda:0"),
            ("native", "all", &two, "the engine native computes on the cpu, not on all"),
        ] {
            assert_eq!(said(engine, devices, here), want, "{engine} {devices} {here:?}");
        }
    }

    #[test]
    fn a_gpu_that_was_found_and_cannot_be_used_is_done_without() {
        let config = NativeConfig { threads: 1, ..NativeConfig::host() };
        let found = Choice { found: Some("H200".into()), ..Choice::native() };
        let begun = found.begin(config.clone()).unwrap();
        let news = "computing on cpu (H200); GT_ENGINE=native keeps to the processor";
        assert_eq!(begun.news.as_deref(), Some(news));
        // There are not so many.
        let devices = vec![Device::Cuda(9_999)];
        let found = Choice { engine: EngineKind::Torch, devices, ..found };
        let begun = found.begin(config.clone()).unwrap();
        assert_eq!((begun.choice, begun.engine.info().name), (Choice::native(), "native".into()));
        let news = begun.news.unwrap();
        assert!(news.starts_with("cuda:9999 (H200) is not used: "), "{news}");
        assert!(Choice { found: None, ..found }.begin(config).is_err());
    }

    #[test]
    fn flags_come_before_the_environment() {
        let or =
            |flags: (&str, &str), env: (&str, &str)| wish(flags.0, flags.1).or(wish(env.0, env.1));
        assert_eq!(or(("", ""), ("torch", "cuda")), wish("torch", "cuda"));
        assert_eq!(or(("native", ""), ("torch", "cpu")), wish("native", "cpu"));
        assert_eq!(or(("", "cpu"), ("torch", "cuda")), wish("torch", "cpu"));
        // What the environment says of the other half does not go with the flag.
        assert_eq!(or(("native", ""), ("", "cuda:1")), wish("native", ""));
        assert_eq!(or(("", "all"), ("native", "")), wish("", "all"));
    }

    #[test]
    fn names_round_trip_and_unknown_ones_are_told_the_known() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for text in ["all", "cpu", "cuda:0,cuda:3"] {
            assert_eq!(text.parse::<Devices>().unwrap().to_string(), text);
        }
        let error = "jax".parse::<EngineKind>().unwrap_err().to_string();
        assert_eq!(error, "unknown engine `jax`\nhint: the engines are native and torch");
        for text in ["", "gpu", "cuda:0,", "cuda:0,all"] {
            let error = text.parse::<Devices>().unwrap_err().to_string();
            assert!(error.contains("hint: the devices are cpu, cuda"), "{text}: {error}");
        }
    }
}
