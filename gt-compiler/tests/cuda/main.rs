//! The engine on a CUDA device against the reference interpreter, and what only a device has:
//! graphs, memory that runs out, a copy engine, neighbors. Where there is no device every test says
//! so and passes; where there is one, CUDA's libraries have to be there too.
#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

#[path = "../sweeps/execute.rs"]
mod execute;
mod limits;
mod ops;
mod precision;
mod random;
mod replay;
#[path = "../sweeps/mod.rs"]
mod sweeps;
mod together;

use std::{
    ops::{Deref, DerefMut},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use gt_compiler::{
    Engine, NativeConfig, cuda,
    torch::{Device, TorchConfig, engine},
};
use gt_ir::{DType, HostTensor, Op, Shape, interp};

/// How the engines of the tests are set up. Kernels are kept, so that a memory checker that runs
/// the tests again need not wait for the compiler.
fn config() -> TorchConfig {
    let store = std::env::temp_dir().join("gt-cuda-tests");
    let host = NativeConfig { store: Some(store), ..NativeConfig::host() };
    TorchConfig { host, ..TorchConfig::host(Device::Cuda(0)) }
}

/// Tests run side by side; one that measures the memory of the process runs alone.
static OTHERS: RwLock<()> = RwLock::new(());

/// An engine for the time that a lock is held.
struct Lent<L>(Box<dyn Engine>, L);

impl<L> Deref for Lent<L> {
    type Target = Box<dyn Engine>;

    fn deref(&self) -> &Box<dyn Engine> {
        &self.0
    }
}

impl<L> DerefMut for Lent<L> {
    fn deref_mut(&mut self) -> &mut Box<dyn Engine> {
        &mut self.0
    }
}

/// An engine on the first device, or `None` and a line that says why the test has nothing to do.
fn device(config: &TorchConfig) -> Option<Lent<RwLockReadGuard<'static, ()>>> {
    let beside = OTHERS.read().unwrap_or_else(PoisonError::into_inner);
    Some(Lent(open(config)?, beside))
}

/// The same, with no other engine in the process.
fn device_alone(config: &TorchConfig) -> Option<Lent<RwLockWriteGuard<'static, ()>>> {
    let alone = OTHERS.write().unwrap_or_else(PoisonError::into_inner);
    Some(Lent(open(config)?, alone))
}

fn open(config: &TorchConfig) -> Option<Box<dyn Engine>> {
    match cuda::devices() {
        Ok(_) => Some(engine(config).unwrap()),
        Err(why) => {
            assert!(engine(config).is_err());
            println!("skipped: {why}");
            None
        }
    }
}

/// Numbers between -1.25 and 1.5, all of them eighths, so that sums of many are exact in every
/// order.
fn ramp(dtype: DType, sizes: &[usize], salt: usize) -> HostTensor {
    let shape = Shape::new(sizes).unwrap();
    let values = (0..shape.numel()).map(|i| ((i * 37 + salt * 5 + 11) % 23) as f64 / 8.0 - 1.25);
    let wide = HostTensor::from_vec(values.collect(), shape).unwrap();
    interp::eval(&Op::Cast(dtype), &[interp::Arg::Tensor(&wide)]).unwrap()
}
