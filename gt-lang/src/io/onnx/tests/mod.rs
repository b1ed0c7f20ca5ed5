//! Files of rows and of whole models, decoded again; and what is refused.
//!
//! `cargo xtask onnx` runs the same files by ONNX's own evaluator.

mod cases;
mod mistakes;
mod models;
mod rows;
mod text;
