//! Programs on a device with memory of its own: lists of launches over device addresses, captured and replayed as graphs.
//!
//! [`gpu`] is what such a device must be able to do; everything else here is written over it and knows no driver.

#[allow(dead_code, reason = "devices and the engine over them are built against it")]
mod gpu;

#[allow(unused_imports, reason = "as above")]
pub(crate) use gpu::{DeviceMemory, Gpu, Loader, Work};
