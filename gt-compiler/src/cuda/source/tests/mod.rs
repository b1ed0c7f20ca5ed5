//! Kernel texts, run on the host against the interpreter.

mod host;
mod machine;
mod random;
