//! The description of a kernel: loops, an expression DAG over affine loads, and affine stores.
//!
//! Guarantees by construction in `schedule`: expressions refer to earlier ones only;
//! accesses have one stride a loop and stay inside their buffers; operands of an operation agree in
//! dtype where the operation asks for it. It says nothing of vectors, threads or registers.
//!
//! A reduction has one order of adding, decided by the shape of what is reduced and by nothing
//! else, so that its bits depend neither on how operands are laid out nor on what else a kernel
//! computes: see [`FoldOrder`].

pub(crate) use gt_ir::op::{Binary, Unary};
use gt_ir::{DType, MAX_RANK};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Per loop, outermost first; room for every dimension of an operand twice (parallel and reduced).
pub(crate) type PerLoop<T> = SmallVec<[T; MAX_RANK]>;

/// One kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KernelSpec {
    /// The iteration space: parallel loops first, then reduce loops, both in the logical order of
    /// the dims they stand for.
    pub(crate) loops: PerLoop<Loop>,
    pub(crate) fold_order: FoldOrder,
    /// Whether loop 0 is the row loop: it stays as it is, whatever its extent, and its range is the
    /// parallel range of a call.
    pub(crate) rows: bool,
    /// Element types of the buffers, in argument order.
    pub(crate) buffers: Vec<DType>,
    /// Types of the scalar slots, in argument order.
    pub(crate) scalars: Vec<DType>,
    /// The DAG, operands first.
    pub(crate) nodes: Vec<Node>,
    /// The values that are kept.
    pub(crate) stores: Vec<Store>,
    /// Buffers that nobody reads before they are out of the caches.
    pub(crate) streams: SmallVec<[u16; 2]>,
}

/// The order in which a fold combines elements. With dims of extent 1 left out and neighboring dims
/// merged where both are reduced:
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum FoldOrder {
    /// The last dim is reduced. Element `i` along it goes to accumulator `i % ACCUMULATORS` (half
    /// as many of eight bytes), the outer reduced dims in order to the same ones; at the end the
    /// upper half of the accumulators is folded onto the lower until one is left.
    #[default]
    Rows,
    /// The last dim is kept. Each result combines its elements one after the other.
    Columns,
}

/// Accumulators of four bytes in [`FoldOrder::Rows`].
pub(crate) const ACCUMULATORS: usize = 32;

/// One loop of the nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loop {
    pub(crate) extent: usize,
    pub(crate) reduce: bool,
    /// Whether a reduce loop goes on where the reduce loop before it ends: their dims are neighbors
    /// in the logical shape.
    pub(crate) joined: bool,
}

impl Loop {
    pub(crate) fn parallel(extent: usize) -> Loop {
        Loop { extent, reduce: false, joined: false }
    }
}

/// The dtype in which elements of a dtype are folded: halves add up in `f32`.
pub(crate) fn accumulated(dtype: DType) -> DType {
    match dtype {
        DType::Bf16 | DType::F16 => DType::F32,
        DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => dtype,
    }
}

/// How a shape is reduced: the order of its dims in the loops, the loops, and the order of folding.
pub(crate) fn reduction(
    sizes: &[usize],
    is_reduced: impl Fn(usize) -> bool,
) -> (PerLoop<usize>, PerLoop<Loop>, FoldOrder) {
    let all = 0..sizes.len();
    let kept: PerLoop<usize> = all.clone().filter(|&d| !is_reduced(d)).collect();
    let reduced: PerLoop<usize> = all.clone().filter(|&d| is_reduced(d)).collect();
    let mut loops: PerLoop<Loop> = kept.iter().map(|&d| Loop::parallel(sizes[d])).collect();
    for (i, &d) in reduced.iter().enumerate() {
        let between = if i == 0 { 0..0 } else { reduced[i - 1] + 1..d };
        let joined = i > 0 && between.into_iter().all(|k| sizes[k] == 1);
        loops.push(Loop { extent: sizes[d], reduce: true, joined });
    }
    let last = all.rev().find(|&d| sizes[d] != 1);
    let order = if last.is_none_or(&is_reduced) { FoldOrder::Rows } else { FoldOrder::Columns };
    (kept.into_iter().chain(reduced).collect(), loops, order)
}

/// An index that is affine in the loop variables, in elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Access {
    pub(crate) offset: i64,
    pub(crate) strides: PerLoop<i64>,
}

/// Names a node of the DAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ExprId(pub(crate) u32);

/// An expression and its element type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) expr: Expr,
    pub(crate) dtype: DType,
}

/// One operation on elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Expr {
    /// An element of a buffer, in the buffer's dtype.
    Load {
        buffer: u16,
        access: Access,
    },
    /// A scalar argument, in its slot's dtype.
    Scalar(u16),
    /// The value of the affine function itself, as `i64`, or its low half as `i32`.
    Index(Access),
    Unary(Unary, ExprId),
    Binary(Binary, ExprId, ExprId),
    /// The second where the first (a `bool`) holds, else the third.
    Select(ExprId, ExprId, ExprId),
    /// The operand's value in the node's dtype.
    Cast(ExprId),
}

/// A value to keep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Store {
    pub(crate) buffer: u16,
    /// With `fold`, strides of reduce loops are 0.
    pub(crate) access: Access,
    pub(crate) value: ExprId,
    /// Combines the value over the reduce loops, to be stored once; without it, it is stored in
    /// every iteration.
    pub(crate) fold: Option<Binary>,
}

impl Expr {
    /// The expressions this one computes from.
    pub(crate) fn operands(&self) -> SmallVec<[ExprId; 3]> {
        match *self {
            Expr::Load { .. } | Expr::Scalar(_) | Expr::Index(_) => SmallVec::new(),
            Expr::Unary(_, a) | Expr::Cast(a) => SmallVec::from_slice(&[a]),
            Expr::Binary(_, a, b) => SmallVec::from_slice(&[a, b]),
            Expr::Select(c, a, b) => SmallVec::from_slice(&[c, a, b]),
        }
    }

    /// Roughly the instructions it is compiled to: an operation that the processor has is one.
    pub(crate) fn instructions(&self) -> u32 {
        const LARGEST_SINGLE: u32 = 3;
        let weight = match self {
            Expr::Unary(op, _) => op.spec().marks.weight,
            Expr::Binary(op, ..) => op.spec().marks.weight,
            Expr::Load { .. }
            | Expr::Scalar(_)
            | Expr::Index(_)
            | Expr::Select(..)
            | Expr::Cast(_) => 1,
        };
        if weight <= LARGEST_SINGLE { 1 } else { weight }
    }

    /// Renames the expressions this one computes from.
    pub(crate) fn rename(&mut self, name: impl Fn(ExprId) -> ExprId) {
        match self {
            Expr::Load { .. } | Expr::Scalar(_) | Expr::Index(_) => (),
            Expr::Unary(_, a) | Expr::Cast(a) => *a = name(*a),
            Expr::Binary(_, a, b) => (*a, *b) = (name(*a), name(*b)),
            Expr::Select(c, a, b) => (*c, *a, *b) = (name(*c), name(*a), name(*b)),
        }
    }

    /// The buffer argument it loads from.
    pub(crate) fn buffer_mut(&mut self) -> Option<&mut u16> {
        if let Expr::Load { buffer, .. } = self { Some(buffer) } else { None }
    }

    pub(crate) fn access_mut(&mut self) -> Option<&mut Access> {
        match self {
            Expr::Load { access, .. } | Expr::Index(access) => Some(access),
            Expr::Scalar(_)
            | Expr::Unary(..)
            | Expr::Cast(_)
            | Expr::Binary(..)
            | Expr::Select(..) => None,
        }
    }

    fn access(&self) -> Option<&Access> {
        match self {
            Expr::Load { access, .. } | Expr::Index(access) => Some(access),
            Expr::Scalar(_)
            | Expr::Unary(..)
            | Expr::Cast(_)
            | Expr::Binary(..)
            | Expr::Select(..) => None,
        }
    }
}

impl KernelSpec {
    pub(crate) fn node(&self, id: ExprId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Every access of the kernel.
    pub(crate) fn accesses(&self) -> impl Iterator<Item = &Access> {
        self.nodes
            .iter()
            .filter_map(|n| n.expr.access())
            .chain(self.stores.iter().map(|s| &s.access))
    }

    pub(crate) fn accesses_mut(&mut self) -> impl Iterator<Item = &mut Access> {
        self.nodes
            .iter_mut()
            .filter_map(|n| n.expr.access_mut())
            .chain(self.stores.iter_mut().map(|s| &mut s.access))
    }

    /// Every load: its buffer argument and where it reads.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (u16, &Access)> {
        self.nodes.iter().filter_map(|n| match &n.expr {
            Expr::Load { buffer, access } => Some((*buffer, access)),
            Expr::Scalar(_)
            | Expr::Index(_)
            | Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Select(..)
            | Expr::Cast(_) => None,
        })
    }

    /// Number of elements of the parallel loops together.
    pub(crate) fn parallel_len(&self) -> usize {
        self.loops.iter().filter(|l| !l.reduce).map(|l| l.extent).product()
    }

    /// Extents of the reduced dims, neighbors merged and those of one element left out.
    pub(crate) fn reduced_extents(&self) -> PerLoop<usize> {
        let mut extents = PerLoop::new();
        for l in self.loops.iter().filter(|l| l.reduce) {
            match extents.last_mut() {
                Some(last) if l.joined => *last *= l.extent,
                _ => extents.push(l.extent),
            }
        }
        extents.retain(|e| *e != 1);
        extents
    }
}
