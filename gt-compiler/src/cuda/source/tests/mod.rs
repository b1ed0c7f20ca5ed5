//! Kernel texts, read by reviewers, compiled by NVRTC, and run on the host against the interpreter.

mod edges;
pub(crate) mod host;
mod machine;
mod order;
mod random;
mod samples;
mod shapes;
