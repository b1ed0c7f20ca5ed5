//! What one kernel computes: loops, an expression DAG over affine loads, and affine stores.
//!
//! Guarantees by construction in `native::schedule`: expressions refer to earlier ones only; accesses have one stride a loop and stay inside
//! their buffers; operands of an operation agree in dtype where the operation asks for it. With reduce loops, each store's value is
//! combined over them and stored once. It says nothing of vectors, threads or registers.

use gt_ir::{DType, MAX_RANK};
use smallvec::SmallVec;

/// Per loop, outermost first; room for every dimension of an operand twice (parallel and reduced).
pub(crate) type PerLoop<T> = SmallVec<[T; MAX_RANK]>;

/// One kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelSpec {
    /// The iteration space: parallel loops first, then reduce loops.
    pub(crate) loops: PerLoop<Loop>,
    /// How values are combined over the reduce loops; a kernel without reduce loops has none.
    pub(crate) reduce: Option<Binary>,
    /// Element types of the buffers, in argument order.
    pub(crate) buffers: Vec<DType>,
    /// Types of the scalar slots, in argument order.
    pub(crate) scalars: Vec<DType>,
    /// The DAG, operands first.
    pub(crate) nodes: Vec<Node>,
    /// What is kept.
    pub(crate) stores: Vec<Store>,
}

/// One loop of the nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) extent: usize,
    pub(crate) reduce: bool,
}

/// An index that is affine in the loop variables, in elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub(crate) offset: i64,
    pub(crate) strides: PerLoop<i64>,
}

/// Names a node of the DAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExprId(pub(crate) u32);

/// An expression and its element type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) expr: Expr,
    pub(crate) dtype: DType,
}

/// One operation on elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Expr {
    /// An element of a buffer, in the buffer's dtype.
    Load {
        buffer: u16,
        access: Access,
    },
    /// A scalar argument, in its slot's dtype.
    Scalar(u16),
    /// The value of the affine function itself, as `i64`.
    Index(Access),
    Unary(Unary, ExprId),
    Binary(Binary, ExprId, ExprId),
    /// The second where the first (a `bool`) holds, else the third.
    Select(ExprId, ExprId, ExprId),
    /// The operand's value in the node's dtype.
    Cast(ExprId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    Sin,
    Cos,
    Tanh,
    Erf,
    /// Of a `bool`.
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    /// On `bool`, or.
    Add,
    Sub,
    /// On `bool`, and.
    Mul,
    Div,
    Pow,
    /// NaN if either is.
    Max,
    /// NaN if either is.
    Min,
    /// Gives `bool`, as `Lt` does.
    Eq,
    Lt,
    /// Of `bool`s, as are `Or` and `Xor`.
    And,
    Or,
    Xor,
}

/// A value to keep.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) buffer: u16,
    /// Strides of reduce loops are 0.
    pub(crate) access: Access,
    pub(crate) value: ExprId,
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

    fn access_mut(&mut self) -> Option<&mut Access> {
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

    /// Number of elements of the parallel loops together.
    pub(crate) fn parallel_len(&self) -> usize {
        self.loops.iter().filter(|l| !l.reduce).map(|l| l.extent).product()
    }

    /// Number of elements of the reduce loops together.
    pub(crate) fn reduce_len(&self) -> usize {
        self.loops.iter().filter(|l| l.reduce).map(|l| l.extent).product()
    }
}
