//! CUDA: the devices of this machine, and what an engine needs of one.
//!
//! `driver` asks which devices there are. `load` loads the C++ shim over libtorch, `ffi` calls it, `resources` owns what it lends; `staging` copies
//! between host and device, `product` maps matrix products to cuBLAS; `source` writes
//! kernels as CUDA C++ and `nvrtc` compiles them. Nothing here is touched until somebody asks for a CUDA device.

#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
#[expect(dead_code, reason = "the device over it comes with the kernels' compiler")]
mod ffi;
#[cfg(feature = "cuda")]
mod load;
#[cfg_attr(not(test), expect(dead_code, reason = "the devices that run kernels need it"))]
pub(crate) mod nvrtc;
#[cfg(feature = "cuda")]
#[expect(dead_code, reason = "as above")]
mod product;
#[cfg(feature = "cuda")]
#[expect(dead_code, reason = "as above")]
mod resources;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the devices that run kernels come with their compiler")
)]
pub(crate) mod source;
#[cfg(feature = "cuda")]
#[expect(dead_code, reason = "as above")]
mod staging;

#[cfg(feature = "cuda")]
pub use driver::{DeviceInfo, devices, driver_version};
