//! Engines on libtorch.
//!
//! On the CPU it is the native engine, with the same plans and the same kernels on the same memory;
//! larger matrix products of the dtypes that libtorch multiplies faster on the processor at hand
//! are libtorch's, by the rule in `libtorch::products`. Results agree with those of the native
//! engine except in the rounding of these products, which libtorch decides by the layout of
//! operands too: a replayed segment equals its instructions to the rounding of its products, where
//! the native engine gives equal bits.

use std::sync::Arc;

#[cfg(target_os = "linux")]
pub use crate::libtorch::lane;
pub use crate::libtorch::ops;
pub use crate::place::{Device, UnknownDevice};
#[cfg(feature = "cuda")]
use crate::{
    cuda::{CudaGpu, Precision},
    device::{DeviceConfig, DeviceEngine, Gpu as _, SLICE},
};
use crate::{
    engine::Engine,
    error::EngineError,
    libtorch,
    native::{Native, NativeConfig, Team},
    simulated::{Simulation, SimulationConfig},
};

/// How an engine on libtorch is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorchConfig {
    /// Where it computes.
    pub device: Device,
    /// Threads, memory and caches on the host.
    pub host: NativeConfig,
    /// Bytes that values and graphs may take on a device with memory of its own; `None`, and at
    /// most, nine tenths of what it has.
    pub memory_limit: Option<usize>,
    /// Whether products of `f32` on a GPU may round their operands to 10 bits of mantissa, which is
    /// several times faster.
    pub tf32: bool,
    /// Whether every run gives the same bits. Without it a few calls on a GPU are faster.
    pub deterministic: bool,
}

impl TorchConfig {
    /// A device with this host's threads and memory, full precision and equal bits.
    pub fn host(device: Device) -> TorchConfig {
        TorchConfig {
            device,
            host: NativeConfig::host(),
            memory_limit: None,
            tf32: false,
            deterministic: true,
        }
    }
}

/// The engine of a device.
///
/// # Errors
/// There is no such device, this build has no support for it, or the code generator does not know
/// this processor.
pub fn engine(config: &TorchConfig) -> Result<Box<dyn Engine>, EngineError> {
    let n_engines = config.host.team.as_ref().map_or(1, Team::n_engines);
    match config.device {
        Device::Cpu => {
            let threads = i32::try_from(config.host.threads / n_engines).unwrap_or(1);
            tch::set_num_threads(threads.max(1));
            let products = Arc::new(libtorch::products::LibtorchProducts::here());
            Ok(Box::new(Native::with_products(config.host.clone(), Some(products))?))
        }
        Device::Cuda(n) => cuda(n, config),
        Device::Simulated => {
            let memory = config.host.memory_limit / n_engines / 2;
            let memory = config.memory_limit.map_or(memory, |limit| limit.min(memory));
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
    let memory_limit = config.memory_limit.unwrap_or(usize::MAX).min(gpu.memory().total);
    let config = DeviceConfig {
        name: "torch",
        memory_limit,
        graph_limit: memory_limit / 2,
        graphs: true,
        cache_capacity: config.host.cache_capacity,
        slice: SLICE,
    };
    Ok(Box::new(DeviceEngine::new(gpu, config)))
}

#[cfg(not(feature = "cuda"))]
fn cuda(n: usize, _: &TorchConfig) -> Result<Box<dyn Engine>, EngineError> {
    Err(EngineError::Missing {
        what: format!("cuda:{n}: this build has no CUDA"),
        hint: "`cargo xtask libtorch --cuda`, then build with `--features cuda`",
    })
}

#[cfg(test)]
mod tests {
    use gt_ir::{Op, Scalar, Shape, Type};

    use super::*;
    use crate::engine::Arg;

    /// A device is limited by what it was told, not by the host; beyond is an error, and the engine
    /// works on.
    #[test]
    fn a_device_takes_no_more_memory_than_it_may() {
        let limit = 1 << 20;
        let host = NativeConfig { store: None, ..NativeConfig::host() };
        let all = TorchConfig { host, ..TorchConfig::host(Device::Simulated) };
        let config = TorchConfig { memory_limit: Some(limit), ..all };
        let mut engine = engine(&config).unwrap();
        assert!(engine.info().memory_limit <= limit);
        let mut filled = |numel: usize| {
            let ty = Type::new(gt_ir::DType::F32, Shape::new(&[numel]).unwrap());
            engine.execute(&Op::Full(ty), &[Arg::Scalar(Scalar::F64(1.0))])
        };
        assert!(matches!(filled(limit / 4), Err(EngineError::OutOfMemory { .. })));
        assert!(filled(limit / 16).is_ok());
    }
}
