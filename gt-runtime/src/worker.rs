//! Workers: a pure core that orders work, an executor that computes.

pub mod core;
pub mod executor;

pub use self::core::{Core, Job};
pub use executor::Executor;
