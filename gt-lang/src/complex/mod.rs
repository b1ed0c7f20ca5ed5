//! Tensors of complex numbers: [`ComplexTensor`], as PyTorch's tensors of `complex64` and
//! `complex128` are used.
//!
//! A complex tensor is a [`DynTensor`](crate::DynTensor) of pairs, the real and the imaginary part
//! in a last axis of size 2, which does not count: axes and sizes are those of the complex numbers.
//! [`ComplexTensor::view_as_real`] and [`ComplexTensor::from_pairs`] go between the two without
//! computing.
//!
//! Guarantees: a method never fails, never waits and never panics on bad input; mistakes are raised
//! by the next read, as those of any tensor are. The parts are `f32` or `f64`. Gradients of every
//! order go through all functions, and [`vmap`](crate::autograd::vmap),
//! [`jvp`](crate::autograd::jvp) and [`autocast`](crate::autocast()) treat complex tensors as their
//! pairs. The gradient of a real number L is `dL/dre + i dL/dim`, as it is PyTorch's.
//!
//! Does not: have complex dtypes in the instructions that are recorded, decompose complex matrices,
//! or have complex layers.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! use gt::prelude::*;
//!
//! let z = ComplexTensor::from([Complex::new(1.0, 2.0), Complex::new(3.5, -1.0)]);
//! assert_eq!(z.to_string(), "tensor([1.0000+2.j, 3.5000-1.j], dtype=c128)");
//! let w = (2.0 * &z + Complex::new(0.0, 1.0)) / z.conj();
//! let z = z.requires_grad();
//! (z.exp() * &w).abs().sum(..).backward()?; // a real number
//! let slope = z.grad(); // complex numbers again
//! # Ok::<(), gt::Error>(())
//! ```

mod arg;
mod arithmetic;
mod assign;
mod axes;
mod create;
mod data;
mod exponential;
mod matrix;
mod movement;
mod operators;
mod parts;
mod powers;
mod print;
mod reduce;
mod tensor;
#[cfg(test)]
mod tests;
mod transforms;
mod truth;

pub use arg::ComplexArg;
pub use data::ComplexPart;
pub use num_complex::Complex;
pub use tensor::{ComplexDType, ComplexTensor};
