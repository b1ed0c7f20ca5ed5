//! Typed tensors: [`Tensor<S, K>`](Tensor) is a [`DynTensor`](crate::DynTensor) with its shape and
//! kind in the type.
//!
//! A shape is a tuple of dimensions: static `N<784>`, named `Batch` (from [`dims!`](crate::dims)),
//! run-time [`Dyn`], and [`One`], which broadcasts. [`T!`](crate::T) spells them: `T![Batch, 784]`,
//! `T![?, 10]`, `T![Batch; Int]`. What the types know is checked by the compiler, the rest when an
//! operation is recorded; both name the two shapes.
//!
//! Guarantees: typed code records exactly what the same dynamic code would; generic code needs no
//! bound but [`Dim`]. Known limits: ranks go up to 6; two different generic dimensions never unify;
//! `N<1>` made by `{expr}` does not broadcast, `One` does; the numbers of elements of two static
//! shapes in `reshape` are compared when code is generated (`cargo build`, not `cargo check`) and
//! again when recorded.

mod any;
mod bits;
mod control;
mod create;
mod dim;
mod features;
mod indexing;
mod kind;
mod loss;
mod movement;
mod operand;
mod operators;
mod pointwise;
mod recompute;
mod reduce;
mod relation;
mod shape;
mod tensor;
mod tree;
mod window;

pub use any::AnyTensor;
pub(crate) use any::sealed::{Inner, Sealed};
pub use bits::Bits;
pub use control::{cond, fori_loop, scan, scan_reverse, while_loop};
pub use create::{Create, ElementOf, Random};
pub use dim::{BcastDim, Dim, DimSpec, Dyn, N, One, SameDim, StaticDim};
pub use features::{
    Bags, Features, Floats, Images, Indices, Lines, Resizes, ResizesVolumes, Sequences, Volumes,
};
pub use kind::{Bool, Float, Int, Kind, Promote};
pub use movement::{cat, stack};
pub use operand::Operand;
pub use relation::{
    Append, Axis, Broadcast, HasLast, InsertAxis, MatMul, Project, SetAxis, SwapAxes, SwapLast,
};
pub use shape::{Shape, StaticShape};
pub use tensor::Tensor;
pub(crate) use tensor::spell;
pub use tree::{Slices, Stacks, Tree};
