//! Engines on libtorch.
//!
//! On the CPU it is the native engine, with the same plans and the same kernels on the same memory, whose matrix products are libtorch's.
//! What it computes agrees with the native engine except in the rounding of products, which libtorch decides by the layout of operands too: so
//! here a replayed segment equals its instructions to the rounding of its products, where the native engine gives equal bits.

pub mod ops;
mod products;

use std::sync::Arc;

pub use crate::place::{Device, UnknownDevice};
#[cfg(feature = "cuda")]
use crate::{
    cuda::{CudaGpu, Precision},
    device::{DeviceConfig, DeviceEngine, Gpu as _},
};
use crate::{
    device::{Simulation, SimulationConfig},
    engine::{Engine, EngineError},
    native::{Native, NativeConfig},
};

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
        Device::Cuda(n) => cuda(n, config),
        Device::Simulated => {
            let memory = config.host.memory_limit / 2;
            let simulated = SimulationConfig {
                memory,
                graph_memory: memory / 2,
                ..SimulationConfig::default()
            };
            Simulation::new(simulated).engine()
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda(n: usize, config: &TorchConfig) -> Result<Box<dyn Engine>, EngineError> {
    let precision = Precision { tf32: config.tf32, deterministic: config.deterministic };
    let gpu = CudaGpu::open(n, precision, config.host.store.clone())?;
    let memory_limit = config.host.memory_limit.min(gpu.memory().total);
    let config = DeviceConfig {
        name: "torch",
        memory_limit,
        graph_limit: memory_limit / 2,
        graphs: true,
        cache_capacity: config.host.cache_capacity,
    };
    Ok(Box::new(DeviceEngine::new(gpu, config)))
}

#[cfg(not(feature = "cuda"))]
fn cuda(n: usize, _: &TorchConfig) -> Result<Box<dyn Engine>, EngineError> {
    Err(EngineError::Call(format!(
        "cuda:{n}: this build has no CUDA\nhint: `cargo xtask libtorch --cuda`, then build with `--features cuda`"
    )))
}
