//! The names of what an engine may compute on. Every build knows all of them, so that it can say
//! what it lacks.

use std::{fmt, str::FromStr};

use gt_ir::error::Hinted;

/// Where an engine computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// The n-th CUDA device.
    Cuda(usize),
    /// A device with memory and graphs of its own that the processor plays: it checks programs
    /// where there is no GPU.
    Simulated,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(n) => write!(f, "cuda:{n}"),
            Device::Simulated => f.write_str("simulated"),
        }
    }
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownDevice(String);

impl Hinted for UnknownDevice {
    fn message(&self) -> String {
        format!("`{}` is no device", self.0)
    }

    fn hint(&self) -> Option<String> {
        Some("cpu, cuda (the first), cuda:N or simulated".into())
    }
}

impl fmt::Display for UnknownDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

impl FromStr for Device {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Device, UnknownDevice> {
        let number = |n: &str| n.parse().ok().map(Device::Cuda);
        let device = match text.trim().split_once(':') {
            None if text.trim() == "cpu" => Some(Device::Cpu),
            None if text.trim() == "cuda" => Some(Device::Cuda(0)),
            None if text.trim() == "simulated" => Some(Device::Simulated),
            Some(("cuda", n)) => number(n),
            _ => None,
        };
        device.ok_or_else(|| UnknownDevice(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        for (text, device) in [
            ("cpu", Device::Cpu),
            ("cuda", Device::Cuda(0)),
            (" cuda:3 ", Device::Cuda(3)),
            ("simulated", Device::Simulated),
        ] {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cpu:0"] {
            assert_eq!(text.parse::<Device>(), Err(UnknownDevice(text.into())));
        }
    }
}
