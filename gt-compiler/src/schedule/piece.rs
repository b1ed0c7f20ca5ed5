//! What a schedule consists of before it is cut into tiles: one piece of work for each materialized
//! value, in order.
//!
//! A piece names the buffers it reads and writes; the order of pieces respects them. Nothing here
//! says which pieces run together.

use std::ops::Range;

use gt_ir::{DType, Op, Scalar, Type};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::kernel::{Access, Binary, Cut, KernelSpec};

/// Elements of a right side from which on packing it counts.
const PACKING: usize = 1 << 18;

/// Names a buffer of a plan; inputs come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct BufferId(pub(crate) u32);

impl BufferId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where the bits of a scalar argument come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ScalarArg {
    /// The k-th scalar of the call, in this dtype.
    Slot(u32, DType),
    /// These bits.
    Bits(u64),
}

/// One piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Kernel(Box<KernelPiece>),
    MatMul(Box<MatMul>),
    Fold(Fold),
    Routine(Box<Routine>),
    /// On devices only: see `attention`.
    Attention(Box<Attention>),
}

/// A loop nest and what it works on.
#[derive(Clone, Debug)]
pub(crate) struct KernelPiece {
    /// Its loops are those of the logical dimensions: nothing is merged yet, but for adjacent
    /// dimensions that are reduced together.
    pub(crate) spec: KernelSpec,
    pub(crate) buffers: SmallVec<[BufferId; 4]>,
    pub(crate) scalars: SmallVec<[ScalarArg; 2]>,
    /// How a long reduction is done in pieces: then its result has one row of partial results each.
    pub(crate) cut: Option<Cut>,
    /// Whether no piece that is apart, too, stores an element that this one stores.
    pub(crate) apart: bool,
}

/// A strided operand of a matrix product: strides of the batch dimensions, rows and columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Matrix {
    pub(crate) buffer: BufferId,
    pub(crate) access: Access,
}

/// `out[b] = lhs[b] * rhs[b]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MatMul {
    pub(crate) dtype: DType,
    pub(crate) batch: SmallVec<[usize; 6]>,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) lhs: Matrix,
    pub(crate) rhs: Matrix,
    pub(crate) out: BufferId,
    pub(crate) by: Multiplier,
}

/// Who computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Multiplier {
    /// The engine, some rows at a time where they can be a stage of a tile.
    Rows,
    /// The engine, as a step of its own.
    Whole,
    /// The engine's library.
    Library,
}

/// The rows of partial results of a long reduction, folded in `f64` where they are floats.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fold {
    pub(crate) op: Binary,
    pub(crate) from: BufferId,
    /// Of the partial results.
    pub(crate) dtype: DType,
    /// Of the result.
    pub(crate) out_dtype: DType,
    pub(crate) n_chunks: usize,
    pub(crate) len: usize,
    pub(crate) out: BufferId,
}

/// A step in plain Rust.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Routine {
    pub(crate) op: Op,
    pub(crate) inputs: SmallVec<[(BufferId, Type); 3]>,
    /// The operands, where all of them are literals; then there are no inputs. Of an update the
    /// number and the scale, if there is one.
    pub(crate) scalars: SmallVec<[ScalarArg; 3]>,
    pub(crate) out: BufferId,
    pub(crate) out_ty: Type,
    /// The positions that anybody reads, of an order along its axis, of random numbers along their
    /// first axis. The others may be left as they are.
    pub(crate) read: Range<usize>,
    /// Whether it changes some rows of a table by what an `index_add` to a number makes.
    pub(crate) update: Option<RowUpdate>,
}

/// `table - scale * index_add(number, index, rows)`; the inputs are the table, index and rows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RowUpdate {
    pub(crate) kind: UpdateKind,
    /// Whether a routine before it has found every index to be inside the table.
    pub(crate) is_checked: bool,
}

/// What becomes of the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum UpdateKind {
    Add,
    Sub,
}

impl MatMul {
    /// The loops over the rows of the result: the batch, then the rows of one matrix.
    pub(crate) fn row_loops(&self) -> SmallVec<[usize; 6]> {
        self.batch.iter().copied().chain([self.m]).collect()
    }

    /// Rows of the result, all matrices together.
    pub(crate) fn n_rows(&self) -> usize {
        self.row_loops().iter().product()
    }

    /// Strides along the row loops of the left side, the right side and the result.
    pub(crate) fn row_strides(&self) -> [SmallVec<[i64; 6]>; 3] {
        let n = self.batch.len();
        let lhs = self.lhs.access.strides[..=n].iter().copied().collect();
        let rhs = self.rhs.access.strides[..n].iter().copied().chain([0]).collect();
        let mut step = self.n as i64;
        let mut out: SmallVec<[i64; 6]> = SmallVec::from_elem(0, n + 1);
        for (stride, extent) in out.iter_mut().zip(self.row_loops()).rev() {
            *stride = step;
            step *= extent as i64;
        }
        [lhs, rhs, out]
    }

    /// Whether it can be a stage of a tile: not where each row meets another right side, since rows
    /// of one tile share it; and not where the right side is so large beside the rows that every
    /// thread packing all of it costs more than passing over the result once more.
    pub(crate) fn is_tiled(&self) -> bool {
        let batched = self.batch.iter().any(|&b| b != 1);
        let packing = !batched && self.n >= 2 * self.m && self.n * self.k >= PACKING;
        self.by == Multiplier::Rows
            && !packing
            && self.k > 0
            && self.n > 0
            && self.m > usize::from(batched)
            && !self.batch.contains(&0)
    }
}

impl Routine {
    /// Whether it may find its data unfit: such a step comes before anything is overwritten.
    pub(crate) fn can_fail(&self) -> bool {
        self.op.spec().can_fail() && !self.update.is_some_and(|update| update.is_checked)
    }
}

impl KernelPiece {
    /// Leaves out parallel loops of one iteration and makes one of two neighbors wherever every
    /// access walks them as one.
    pub(crate) fn merge_loops(&mut self) {
        for l in (0..self.n_parallel()).rev() {
            let (inner, spec) = (self.spec.loops[l], &mut self.spec);
            let is_unit = inner.extent == 1;
            let fits = |x: &Access| x.strides[l - 1] == x.strides[l] * inner.extent as i64;
            if is_unit || l > 0 && spec.accesses().all(fits) {
                let gone = if is_unit { l } else { l - 1 };
                if !is_unit {
                    spec.loops[l].extent *= spec.loops[gone].extent;
                }
                spec.loops.remove(gone);
                for access in spec.accesses_mut() {
                    access.strides.remove(gone);
                }
            }
        }
    }

    /// The buffer argument numbers that are written.
    pub(crate) fn stored(&self) -> impl Iterator<Item = u16> + '_ {
        self.spec.stores.iter().map(|s| s.buffer)
    }

    pub(crate) fn buffer(&self, argument: u16) -> BufferId {
        self.buffers[usize::from(argument)]
    }

    /// Number of parallel loops; they come first.
    pub(crate) fn n_parallel(&self) -> usize {
        self.spec.loops.iter().filter(|l| !l.reduce).count()
    }
}

impl Piece {
    pub(crate) fn writes(&self) -> SmallVec<[BufferId; 2]> {
        match self {
            Piece::Kernel(k) => k.stored().map(|b| k.buffer(b)).collect(),
            Piece::MatMul(m) => SmallVec::from_slice(&[m.out]),
            Piece::Fold(f) => SmallVec::from_slice(&[f.out]),
            Piece::Routine(r) => SmallVec::from_slice(&[r.out]),
            Piece::Attention(a) => a.writes().collect(),
        }
    }

    pub(crate) fn reads(&self) -> SmallVec<[BufferId; 4]> {
        match self {
            Piece::Kernel(k) => k.spec.loads().map(|(b, _)| k.buffer(b)).collect(),
            Piece::MatMul(m) => SmallVec::from_slice(&[m.lhs.buffer, m.rhs.buffer]),
            Piece::Fold(f) => SmallVec::from_slice(&[f.from]),
            Piece::Routine(r) => r.inputs.iter().map(|(b, _)| *b).collect(),
            Piece::Attention(a) => a.reads().collect(),
        }
    }

    /// Gives each buffer another name.
    pub(crate) fn rename(&mut self, name: impl Fn(BufferId) -> BufferId) {
        let change = |b: &mut BufferId| *b = name(*b);
        match self {
            Piece::Kernel(k) => k.buffers.iter_mut().for_each(change),
            Piece::MatMul(m) => {
                [&mut m.lhs.buffer, &mut m.rhs.buffer, &mut m.out].into_iter().for_each(change);
            }
            Piece::Fold(f) => [&mut f.from, &mut f.out].into_iter().for_each(change),
            Piece::Routine(r) => {
                r.inputs.iter_mut().map(|(b, _)| b).chain([&mut r.out]).for_each(change);
            }
            Piece::Attention(a) => a.buffers_mut().for_each(change),
        }
    }
}

/// Rows of sums are this many or a multiple of them.
const SUMS: usize = 32;

/// The strides of `[batch, heads, rows, width]` where a row of all heads lies together, as a
/// projection makes and takes it: so are results.
pub(crate) const fn strides(heads: usize, rows: usize, width: usize) -> [i64; 4] {
    [(rows * heads * width) as i64, width as i64, (heads * width) as i64, 1]
}

/// Bytes of the logarithms of sums, in `f32`: `[batch, heads, length]`, the last one rounded up for
/// libraries that want it so.
pub(crate) const fn sums_bytes(batch: usize, heads: usize, length: usize) -> usize {
    4 * batch * heads * length.next_multiple_of(SUMS)
}

/// `softmax(query key^T * scale) value` over `[batch, heads, length, width]`, or its gradient.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "torch"), expect(dead_code, reason = "only devices ask for it"))]
pub(crate) struct Attention {
    pub(crate) dtype: DType,
    /// Whether no query sees a later position.
    pub(crate) causal: bool,
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    /// Queries.
    pub(crate) length: usize,
    /// Keys and values.
    pub(crate) positions: usize,
    pub(crate) width: usize,
    pub(crate) scale: ScalarArg,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    /// The result; as the gradients it lies as [`strides`] says.
    pub(crate) out: BufferId,
    /// What the backward call needs of the forward one: [`sums_bytes`].
    pub(crate) sums: BufferId,
    /// Of a backward call; it reads the result and the sums.
    pub(crate) back: Option<Back>,
}

/// A gradient of the result, and where those of query, key and value go.
#[derive(Clone, Debug)]
pub(crate) struct Back {
    pub(crate) grad: Matrix,
    pub(crate) grads: [BufferId; 3],
}

impl Attention {
    #[cfg(feature = "torch")]
    pub(crate) const fn sums_bytes(&self) -> usize {
        sums_bytes(self.batch, self.heads, self.length)
    }

    pub(crate) fn reads(&self) -> impl Iterator<Item = BufferId> {
        let back = self.back.as_ref().map(|back| [back.grad.buffer, self.out, self.sums]);
        let operands = [&self.query, &self.key, &self.value].map(|matrix| matrix.buffer);
        operands.into_iter().chain(back.into_iter().flatten())
    }

    fn buffers_mut(&mut self) -> impl Iterator<Item = &mut BufferId> {
        let operands = [&mut self.query, &mut self.key, &mut self.value].map(|m| &mut m.buffer);
        let back = self
            .back
            .iter_mut()
            .flat_map(|back| back.grads.iter_mut().chain([&mut back.grad.buffer]));
        operands.into_iter().chain([&mut self.out, &mut self.sums]).chain(back)
    }

    pub(crate) fn writes(&self) -> impl Iterator<Item = BufferId> {
        let (forward, back) = match &self.back {
            None => (Some([self.out, self.sums]), None),
            Some(back) => (None, Some(back.grads)),
        };
        forward.into_iter().flatten().chain(back.into_iter().flatten())
    }
}

/// The bits of a scalar argument in a call.
pub(crate) fn scalar(arg: ScalarArg, scalars: &[Scalar]) -> u64 {
    match arg {
        ScalarArg::Slot(k, dtype) => scalar_bits(scalars[k as usize], dtype),
        ScalarArg::Bits(bits) => bits,
    }
}

/// A scalar as kernels take it: the element in its register form, in the low bytes.
pub(crate) fn scalar_bits(s: Scalar, dtype: DType) -> u64 {
    match dtype {
        DType::F64 => s.as_f64().to_bits(),
        DType::F32 => u64::from((s.as_f64() as f32).to_bits()),
        DType::Bf16 => u64::from(half::bf16::from_f64(s.as_f64()).to_f32().to_bits()),
        DType::F16 => u64::from(half::f16::from_f64(s.as_f64()).to_f32().to_bits()),
        DType::I64 => s.as_i64() as u64,
        DType::I32 => u64::from(integer(s) as i32 as u32),
        DType::U8 => u64::from(integer_u8(s)),
        DType::Bool => u64::from(s.as_f64() != 0.0),
    }
}

/// Floats saturate to `i32`, integers wrap, as `cast` does.
fn integer(s: Scalar) -> i64 {
    match s {
        Scalar::F64(v) => i64::from(v as i32),
        Scalar::I64(_) | Scalar::Bool(_) => s.as_i64(),
    }
}

fn integer_u8(s: Scalar) -> u8 {
    match s {
        Scalar::F64(v) => v as u8,
        Scalar::I64(_) | Scalar::Bool(_) => s.as_i64() as u8,
    }
}
