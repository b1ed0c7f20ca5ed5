//! CUDA: the devices of this machine, and what an engine needs of one.
//!
//! `driver` asks which devices there are; `gpu` is one of them as the executor sees it. Under it,
//! `load` loads the C++ shim over libtorch, `ffi` calls it, through the `gate` that closes when the
//! process ends, `resources` owns what it lends;
//! `staging` copies between host and device, `product` maps matrix products to cuBLAS and
//! `attention` attention to libtorch's, `loader` makes kernels: `source` writes them as CUDA C++
//! and `nvrtc` compiles them. Nothing here is touched until somebody asks for a CUDA device.

#[cfg(feature = "cuda")]
mod attention;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod ffi;
mod gate;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "cuda")]
mod load;
#[cfg(feature = "cuda")]
mod loader;
#[cfg_attr(
    not(any(test, feature = "cuda")),
    expect(dead_code, reason = "only devices run kernels; tests compile them")
)]
pub(crate) mod nvrtc;
#[cfg(feature = "cuda")]
mod product;
#[cfg(feature = "cuda")]
mod resources;
#[cfg_attr(
    not(any(test, feature = "cuda")),
    expect(dead_code, reason = "only devices run kernels; tests look at their texts")
)]
pub(crate) mod source;
#[cfg(feature = "cuda")]
mod staging;
#[cfg(test)]
#[cfg(feature = "cuda")]
mod tests;

#[cfg(feature = "cuda")]
pub use driver::{DeviceInfo, devices, driver_version};
#[cfg(feature = "cuda")]
pub(crate) use gpu::{CudaGpu, Precision};
