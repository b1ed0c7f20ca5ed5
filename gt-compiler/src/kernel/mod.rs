//! Kernels: loop nests over affine accesses, from their description to machine code.
//!
//! [`KernelSpec`] says what one kernel computes; `nest` reshapes its loops, and `reorder` brings
//! them into order; `emit` writes it as Cranelift IR, with `lanes` for the arithmetic of scalars
//! and vectors; `wide` is a generator of its own for vectors of 256 and 512 bits; `formulas` and
//! `powers` have the elementary functions of both; `jit` chooses between them and makes code
//! callable. Nothing here knows of graphs or values.

mod emit;
mod formulas;
mod host;
mod jit;
mod lanes;
mod math;
mod nest;
mod powers;
mod reorder;
mod spec;
mod wide;

pub(crate) use jit::{Code, Compiler, Dump, Kernel, Range};
pub(crate) use nest::{Cut, Nest, cut};
pub(crate) use spec::{
    Access, Binary, Expr, ExprId, FoldOrder, KernelSpec, Loop, Node, Store, Unary, accumulated,
    reduction,
};

#[cfg(test)]
mod tests;
