//! Kernel texts, read by reviewers, compiled by NVRTC, and run on the host against the interpreter.

mod host;
mod machine;
mod random;
mod samples;
