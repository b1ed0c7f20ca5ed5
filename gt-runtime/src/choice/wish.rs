//! Wishes for engines and devices: their names, and how flags and the environment combine.

use std::{fmt, str::FromStr};

use gt_compiler::Device;
use gt_ir::backend::{Demand, ErrorKind, RunError};
use gt_ir::error::Hinted;

use super::{ChoiceError, listed};

/// The variable that names an engine.
pub const ENGINE: &str = "GT_ENGINE";
/// The variable that names one or several devices.
pub const DEVICE: &str = "GT_DEVICE";

/// The engines. A build may lack some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// GT's own kernels on the processor.
    Native,
    /// libtorch: for matrix products on the processor, and for devices.
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

/// A text that names no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownEngine(String);

impl Hinted for UnknownEngine {
    fn message(&self) -> String {
        format!("unknown engine `{}`", self.0)
    }

    fn hint(&self) -> Option<String> {
        Some("the engines are native and torch".into())
    }
}

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<EngineKind, UnknownEngine> {
        let named =
            EngineKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text.trim()));
        named.ok_or_else(|| UnknownEngine(text.into()))
    }
}

/// Devices by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// Every CUDA device of the machine.
    All,
    /// These devices, at least one.
    List(Vec<Device>),
}

/// A text that names no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownDevices(String);

impl Hinted for UnknownDevices {
    fn message(&self) -> String {
        format!("unknown device `{}`", self.0)
    }

    fn hint(&self) -> Option<String> {
        let hint = "the devices are cpu, cuda (the first), cuda:N, simulated, several of them with \
                    commas, or all (every CUDA device)";
        Some(hint.into())
    }
}

impl fmt::Display for UnknownDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

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

/// A wish for an engine and devices. None leaves the choice open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The engine.
    pub engine: Option<EngineKind>,
    /// The devices.
    pub devices: Option<Devices>,
}

impl Wish {
    /// The wish of the environment.
    ///
    /// # Errors
    /// A variable has an unknown value.
    pub fn from_environment() -> Result<Wish, ChoiceError> {
        let engine = variable(ENGINE, ChoiceError::Engine)?;
        Ok(Wish { engine, devices: variable(DEVICE, ChoiceError::Devices)? })
    }

    /// The wish of a program.
    ///
    /// # Errors
    /// The program names an unknown engine or device.
    pub fn of(demand: &Demand) -> Result<Wish, RunError> {
        let engine = demand.engine.as_deref().map(str::parse).transpose();
        let devices = demand.device.as_deref().map(str::parse).transpose();
        Ok(Wish {
            engine: engine.map_err(|why: UnknownEngine| RunError::of(ErrorKind::Resource, &why))?,
            devices: devices
                .map_err(|why: UnknownDevices| RunError::of(ErrorKind::Resource, &why))?,
        })
    }

    /// This wish, with its open choices filled in from the other wish, unless the two contradict
    /// each other.
    #[must_use]
    pub fn or(self, other: Wish) -> Wish {
        let both = Wish {
            engine: self.engine.or(other.engine),
            devices: self.devices.clone().or(other.devices),
        };
        if both.engine == Some(EngineKind::Native) && both.wants_a_device() { self } else { both }
    }

    pub(super) fn wants_a_device(&self) -> bool {
        match &self.devices {
            None => false,
            Some(Devices::All) => true,
            Some(Devices::List(list)) => list.iter().any(|device| *device != Device::Cpu),
        }
    }
}

fn variable<T: FromStr>(
    name: &'static str,
    unknown: fn(T::Err) -> ChoiceError,
) -> Result<Option<T>, ChoiceError> {
    let text = gt_settings::var(name).filter(|text| !text.trim().is_empty());
    text.map(|text| text.parse().map_err(unknown)).transpose()
}
