//! Products with what a library's multiplication can do to its result on the way: a row added to
//! every row, and an activation of the sums.
//!
//! A kernel that does just this, and is the only one to read the product, goes into the product.
//! The library may then multiply in another order and round once where the kernel rounded twice, so
//! it is for who allows sums in another order; an activation may lose a `nan` or be rounded in
//! another way, so it is for who allows that. Activations are known by what the op table makes of
//! them ([`Formula`]).

use std::collections::BTreeMap;

use gt_ir::{DType, Op};

use super::formula::Formula;
use crate::{
    kernel::{Access, Binary, Expr, ExprId, KernelSpec, Loop, Store},
    options::Numerics,
    schedule::{BufferId, KernelPiece, MatMul, Piece, Schedule},
};

/// The work on each row of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Affine {
    /// A row to be added, as long as those of the product.
    pub(crate) bias: BufferId,
    /// The function of the sums.
    pub(crate) activation: Option<Activation>,
}

/// A function that a product can apply to its elements before they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Relu,
    /// By the tanh formula, which is the one that cuBLASLt has.
    Gelu,
}

impl Activation {
    const ALL: [Activation; 2] = [Activation::Relu, Activation::Gelu];

    fn op(self) -> Op {
        match self {
            Activation::Relu => Op::Relu,
            Activation::Gelu => Op::GeluTanh,
        }
    }
}

/// The activations of the dtypes of a schedule's products.
struct Formulas(Vec<(DType, Activation, Formula)>);

impl Formulas {
    fn of(schedule: &Schedule) -> Formulas {
        let is_there = |dtype: &DType| {
            let is_one =
                |piece: &Piece| matches!(piece, Piece::MatMul(work) if work.dtype == *dtype);
            dtype.is_float() && schedule.pieces.iter().any(is_one)
        };
        let dtypes = DType::ALL.into_iter().filter(is_there);
        let all = dtypes.flat_map(|dtype| Activation::ALL.map(|activation| (dtype, activation)));
        // cuBLASLt computes that of `f64` to nine digits.
        let all = all.filter(|of| *of != (DType::F64, Activation::Gelu));
        let formula = |(dtype, activation): (DType, Activation)| {
            Some((dtype, activation, Formula::of(&activation.op(), dtype)?))
        };
        Formulas(all.filter_map(formula).collect())
    }

    /// What is activated, and how.
    fn divide(&self, kernel: &KernelPiece, value: ExprId) -> (ExprId, Option<Activation>) {
        let dtype = kernel.spec.node(value).dtype;
        let mut all = self.0.iter().filter(|(of, ..)| *of == dtype);
        let found = all.find_map(|(_, activation, formula)| {
            Some((formula.operand(kernel, value)?, Some(*activation)))
        });
        found.unwrap_or((value, None))
    }
}

/// Takes kernels into the products they belong to: what is left of a pair is the product, with the
/// kernel's result, in the kernel's place.
pub(super) fn take(
    schedule: &mut Schedule,
    n_inputs: usize,
    numerics: Numerics,
) -> BTreeMap<BufferId, Affine> {
    let mut taken = BTreeMap::new();
    if numerics == Numerics::Exact {
        return taken;
    }
    let formulas = Formulas::of(schedule);
    let mut gone = vec![false; schedule.pieces.len()];
    for k in 0..schedule.pieces.len() {
        let Some((p, mut work, affine)) = pair(schedule, &formulas, k, n_inputs) else { continue };
        if affine.activation.is_some() && numerics < Numerics::Approximate {
            continue;
        }
        let Some(&out) = schedule.pieces[k].writes().first() else { continue };
        work.out = out;
        taken.insert(out, affine);
        schedule.pieces[k] = Piece::MatMul(Box::new(work));
        gone[p] = true;
    }
    let mut gone = gone.into_iter();
    schedule.pieces.retain(|_| gone.next() != Some(true));
    taken
}

/// The product a kernel belongs to.
fn pair(
    schedule: &Schedule,
    formulas: &Formulas,
    k: usize,
    n_inputs: usize,
) -> Option<(usize, MatMul, Affine)> {
    let Piece::Kernel(kernel) = &schedule.pieces[k] else { return None };
    let found = schedule.pieces[..k].iter().enumerate().find_map(|(p, piece)| match piece {
        Piece::MatMul(work) => Some((p, work, affine(kernel, formulas, work, n_inputs)?)),
        Piece::Kernel(_) | Piece::Fold(_) | Piece::Routine(_) | Piece::Attention(_) => None,
    });
    let (p, work, affine) = found?;
    let is_read = |piece: &Piece| piece.reads().contains(&work.out);
    let n_readers = schedule.pieces.iter().filter(|piece| is_read(piece)).count();
    let is_output = schedule.outputs.iter().any(|(b, _)| *b == work.out);
    (n_readers == 1 && !is_output).then(|| (p, MatMul::clone(work), affine))
}

/// What a kernel does, if it is that.
fn affine(
    kernel: &KernelPiece,
    formulas: &Formulas,
    work: &MatMul,
    n_inputs: usize,
) -> Option<Affine> {
    let KernelPiece { spec, .. } = kernel;
    let [Store { value, access, buffer, fold: None }] = &spec.stores[..] else { return None };
    let is_plain = work.dtype.is_float()
        && work.batch.iter().product::<usize>() == 1
        && kernel.cut.is_none()
        && spec.loops.iter().all(|l| !l.reduce)
        && spec.buffers[usize::from(*buffer)] == work.dtype
        && spec.parallel_len() == work.m * work.n
        && is_dense(&spec.loops, access);
    let expr = |id: ExprId| &spec.node(id).expr;
    let (sum, activation) = formulas.divide(kernel, *value);
    let Expr::Binary(Binary::Add, a, b) = expr(sum) else { return None };
    let is_product = |of: &Expr| {
        let Expr::Load { buffer, access } = of else { return false };
        kernel.buffer(*buffer) == work.out && is_dense(&spec.loops, access)
    };
    let bias = match (expr(*a), expr(*b)) {
        (a, b) if is_product(a) => b,
        (a, b) if is_product(b) => a,
        _ => return None,
    };
    let Expr::Load { buffer, access } = bias else { return None };
    let bias = kernel.buffer(*buffer);
    // Operands of a sum agree in dtype, so the product's and the row's are the sum's.
    let fits = is_plain && spec.node(sum).dtype == work.dtype && is_row(spec, access, work.n);
    (fits && bias.index() < n_inputs).then_some(Affine { bias, activation })
}

/// Whether an access goes from element to element.
fn is_dense(loops: &[Loop], access: &Access) -> bool {
    let mut step = 1;
    let dense = loops.iter().zip(&access.strides).rev().all(|(l, stride)| {
        let fits = l.extent == 1 || *stride == step;
        step *= l.extent as i64;
        fits
    });
    dense && access.offset == 0
}

/// Whether an access reads a row of `n` elements again and again.
fn is_row(spec: &KernelSpec, access: &Access, n: usize) -> bool {
    let mut inner = 1;
    for (l, &stride) in spec.loops.iter().zip(&access.strides).rev() {
        let wanted = if inner < n { inner as i64 } else { 0 };
        if l.extent != 1 && stride != wanted {
            return false;
        }
        inner *= l.extent;
        if inner > n && inner / l.extent < n {
            return false; // a loop that is no part of a row, nor whole rows
        }
    }
    access.offset == 0
}
