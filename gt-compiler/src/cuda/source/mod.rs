//! Kernels as CUDA C++ text.
//!
//! Guarantees: the text depends on what is computed alone, so that equal kernels have equal texts;
//! every access stays inside its buffer, indices that come from data included; the order in which a
//! fold combines elements is decided by the reduced extents alone (never by layout, by what is kept
//! beside them, or by what else the kernel computes), so that a program gives the bits its
//! instructions give one by one; there are no atomic operations on data. It does not compile
//! anything, and knows no device: `space` brings the loops into shape, `expression` and `body`
//! write what happens at a point, `pointwise` (with `turn`) and `reduce` (with `lane`) the two
//! kinds of kernel, `joint` several of them as one, `routine` the rest.
//!
//! The texts are also C++ for a host, where `GT_HOST_EMULATION` is defined: `NAME_launch(grid,
//! arguments)` then runs the blocks one after the other, with threads that take turns at barriers.

mod body;
mod expression;
mod joint;
mod lane;
mod pointwise;
mod product;
mod reduce;
mod routine;
mod space;
mod text;
mod turn;

use gt_ir::DType;
use smallvec::smallvec;

use crate::{
    device::Joint,
    kernel::{Access, Cut, Expr, ExprId, FoldOrder, KernelSpec, Loop, Node, Store},
    schedule::{Fold, MatMul, Routine},
};
use space::Space;

/// What every text begins with.
const PRELUDE: &str = concat!(include_str!("emulation.h"), "\n", include_str!("prelude.cuh"));

/// A kernel as CUDA C++, and how to launch it. `text` is one translation unit.
///
/// A kernel takes the addresses of its buffers (in the order of [`KernelSpec::buffers`]), of its
/// scalars (eight bytes each, as `native::schedule::scalar_bits` gives them, in the order of
/// [`KernelSpec::scalars`]), and of the error words: always all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) grid: u32,
    pub(crate) block: u32,
}

/// A kernel as text. With `cut` it writes rows of partial results.
pub(crate) fn kernel(name: &str, spec: &KernelSpec, cut: Option<Cut>) -> Source {
    let space = Space::new(spec, cut);
    if space.folds { reduce::write(name, &space) } else { pointwise::write(name, &space) }
}

/// Several kernels as one.
pub(crate) fn joint(name: &str, joint: &Joint) -> Source {
    joint::write(name, joint)
}

/// The kernel of a matrix product of integers or booleans; its buffers are both operands and the
/// result.
pub(crate) fn product(name: &str, work: &MatMul) -> Source {
    product::write(name, work)
}

/// The kernel that folds rows of partial results; its buffers are the partial results and the
/// result. Floats add up in `f64`.
pub(crate) fn fold(name: &str, fold: &Fold) -> Source {
    kernel(name, &partials(fold), None)
}

/// A fold of partial results as a spec.
fn partials(fold: &Fold) -> KernelSpec {
    let kept = Loop::parallel(fold.len);
    let folded = Loop { extent: fold.n_chunks, reduce: true, joined: false };
    let load = Access { offset: 0, strides: smallvec![1, fold.len as i64] };
    let to = Access { offset: 0, strides: smallvec![1, 0] };
    let wide = if fold.dtype.is_float() { DType::F64 } else { fold.dtype };
    let mut nodes = vec![Node { expr: Expr::Load { buffer: 0, access: load }, dtype: fold.dtype }];
    if wide != fold.dtype {
        nodes.push(Node { expr: Expr::Cast(ExprId(0)), dtype: wide });
    }
    let value = ExprId(nodes.len() as u32 - 1);
    KernelSpec {
        loops: smallvec![kept, folded],
        fold_order: FoldOrder::Columns,
        buffers: vec![fold.dtype, fold.out_dtype],
        nodes,
        stores: vec![Store { buffer: 1, access: to, value, fold: Some(fold.op) }],
        ..KernelSpec::default()
    }
}

/// The kernels of a routine, to be launched one after the other; the buffers are its inputs, then
/// its result. An index out of range is noted in the error words, which are 0 before: 1, and the
/// index.
pub(crate) fn routine(name: &str, routine: &Routine) -> Vec<Source> {
    routine::write(name, routine)
}

/// Kernels of different names as one translation unit.
pub(crate) fn unit(sources: &[Source]) -> String {
    let mut text = PRELUDE.to_owned();
    for Source { name, text: whole, .. } in sources {
        let own = whole.strip_prefix(PRELUDE).unwrap_or(whole);
        text += &format!("\nnamespace in_{name} {{\n{own}}}\n");
    }
    text
}

#[cfg(test)]
pub(crate) mod tests;
