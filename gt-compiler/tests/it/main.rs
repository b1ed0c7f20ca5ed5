//! The native engine against the reference interpreter.

mod limits;
mod math;
mod ops;
mod random;
