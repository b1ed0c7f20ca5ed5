//! Kernels: loop nests over affine accesses, from their description to machine code.
//!
//! [`KernelSpec`] says what one kernel computes; `nest` reshapes its loops; `emit` writes it as Cranelift IR, with `lanes` for the
//! arithmetic of scalars and vectors and `math` for elementary functions; `jit` turns that into callable code. Nothing here knows of
//! graphs or values.

mod emit;
mod formulas;
mod jit;
mod lanes;
mod math;
mod nest;
mod spec;

pub(crate) use jit::{Compiler, Kernel, Range};
pub(crate) use nest::{Cut, Nest, cut};
pub(crate) use spec::{
    Access, Binary, Expr, ExprId, FoldOrder, KernelSpec, Loop, Node, Store, Unary, reduction,
};
