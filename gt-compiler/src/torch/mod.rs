//! Engines on libtorch.
//!
//! On the CPU it is the native engine, with the same plans and the same kernels on the same memory, whose matrix products are libtorch's.
//! What it computes agrees with the native engine except in the rounding of products, which libtorch decides by the layout of operands too: so
//! here a replayed segment equals its instructions to the rounding of its products, where the native engine gives equal bits.

mod products;

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    engine::{Engine, EngineError},
    native::{Native, NativeConfig},
};

/// Where an engine computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// The n-th CUDA device.
    Cuda(usize),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(n) => write!(f, "cuda:{n}"),
        }
    }
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no device\nhint: cpu, cuda (the first) or cuda:N")]
pub struct UnknownDevice(String);

impl FromStr for Device {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Device, UnknownDevice> {
        let number = |n: &str| n.parse().ok().map(Device::Cuda);
        let device = match text.trim().split_once(':') {
            None if text.trim() == "cpu" => Some(Device::Cpu),
            None if text.trim() == "cuda" => Some(Device::Cuda(0)),
            Some(("cuda", n)) => number(n),
            _ => None,
        };
        device.ok_or_else(|| UnknownDevice(text.into()))
    }
}

/// How an engine on libtorch is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorchConfig {
    /// Where it computes.
    pub device: Device,
    /// Threads, memory and caches on the host; on a GPU the memory limit is that of the device if it is smaller.
    pub host: NativeConfig,
    /// Whether products of `f32` on a GPU may round their operands to 10 bits of mantissa, which is several times faster.
    pub tf32: bool,
    /// Whether every run gives the same bits. Without it a few calls on a GPU are faster.
    pub deterministic: bool,
}

impl TorchConfig {
    /// A device with this host's threads and memory, full precision and equal bits.
    pub fn host(device: Device) -> TorchConfig {
        TorchConfig { device, host: NativeConfig::host(), tf32: false, deterministic: true }
    }
}

/// The engine of a device.
///
/// # Errors
/// There is no such device, this build has no support for it, or the code generator does not know this processor.
pub fn engine(config: &TorchConfig) -> Result<Box<dyn Engine>, EngineError> {
    match config.device {
        Device::Cpu => {
            let threads = i32::try_from(config.host.threads).unwrap_or(1);
            tch::set_num_threads(threads.max(1));
            let products = Arc::new(products::LibtorchProducts);
            Ok(Box::new(Native::with_products(config.host.clone(), Some(products))?))
        }
        Device::Cuda(n) => Err(EngineError::Call(format!(
            "cuda:{n}: this build has no CUDA\nhint: `cargo xtask libtorch --cuda`, then build with `--features cuda`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        for (text, device) in
            [("cpu", Device::Cpu), ("cuda", Device::Cuda(0)), (" cuda:3 ", Device::Cuda(3))]
        {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cpu:0"] {
            assert_eq!(text.parse::<Device>(), Err(UnknownDevice(text.into())));
        }
    }
}
