//! The dynamic tensor: dtype and shape known at run time, every operation a method that records one
//! instruction.
//!
//! Guarantees: a method never fails, never waits and never panics on bad input. A mistake is kept
//! in the tensor it would have made, goes along into everything derived from it, and is raised by
//! the next read (`to_vec`, `item`, `backward`, ...) with the op, the shapes and the user's line.
//!
//! Does not: compute anything (a worker does), decide when work is sent (`session` does).

mod arg;
mod arrange;
mod assign;
pub(crate) mod capture;
mod create;
mod data;
mod index;
mod movement;
mod nested;
pub(crate) mod operators;
mod order;
mod pick;
mod pointwise;
pub(crate) mod print;
mod products;
mod random;
mod ranking;
mod reading;
pub(crate) mod record;
mod reduce;
mod saved;
mod select;
pub(crate) mod tensor;
#[cfg(test)]
mod tests;
mod triangle;

pub(crate) use arg::resolve_axis;
pub use arg::{Arg, Axes, Size, Sizes, keepdim};
pub use gt_ir::attr::Keep;
pub use index::{Index, IndexList, range, step};
pub use nested::Nested;
pub use operators::Number;
pub use ranking::Unique;
pub use reading::Reading;
pub use tensor::DynTensor;
