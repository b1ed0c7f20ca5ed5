//! CUDA: the devices of this machine, and what an engine needs of one.
//!
//! `driver` asks which devices there are. `load` loads the C++ shim over libtorch, `ffi` calls it, `resources` owns what it lends; `staging` copies
//! between host and device, `product` maps matrix products to cuBLAS. Nothing here is touched until somebody asks for a CUDA device.

mod driver;
#[expect(dead_code, reason = "the device over it comes with the kernels' compiler")]
mod ffi;
mod load;
#[expect(dead_code, reason = "as above")]
mod product;
#[expect(dead_code, reason = "as above")]
mod resources;
#[expect(dead_code, reason = "as above")]
mod staging;

pub use driver::{DeviceInfo, devices, driver_version};
