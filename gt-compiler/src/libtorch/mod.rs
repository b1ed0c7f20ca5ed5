//! The calls of libtorch that engines use: matrix products, attention, and the op table; and lanes
//! between processes.
//!
//! Each works on memory that the caller owns, or on tensors of its own. Nothing here chooses a
//! device or runs a plan.

pub(crate) mod attention;
#[cfg(target_os = "linux")]
pub mod lane;
pub mod ops;
pub(crate) mod products;
