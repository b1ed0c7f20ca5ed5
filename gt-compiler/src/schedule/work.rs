//! What it takes to materialize a node: kernels, a product or a routine, by its op and its shapes
//! alone.
//!
//! A kernel is described by its loops, the values that it starts from and where its result goes.
//! What it computes on the way is found later, when it is known which other values are in memory.

use gt_ir::{DType, Graph, NodeId, NodeKind, Op, Type, attr};
use smallvec::{SmallVec, smallvec};

use crate::{
    action::{Action, action},
    cost::is_padded_again,
    kernel::{Access, Binary, Cut, FoldOrder, KernelSpec, Loop, cut, reduction},
};

/// The loops of a kernel.
pub(super) type Loops = SmallVec<[Loop; 8]>;
/// The loop that each dimension of a value walks along.
type Along = SmallVec<[usize; 8]>;

/// How a node is computed.
pub(super) enum Work {
    /// Kernels that run one after the other, each of which stores a part of the result.
    Kernels(Vec<Kernel>),
    /// A matrix product of these two.
    Product(NodeId, NodeId),
    Routine(Op),
    /// The node is this one with another shape.
    Alias(NodeId),
}

/// A kernel before it is built.
pub(super) struct Kernel {
    pub(super) loops: Loops,
    /// The values it starts from; of two it stores the product.
    pub(super) values: SmallVec<[(NodeId, Along); 2]>,
    /// Of the result.
    pub(super) dtype: DType,
    /// Where an iteration stores.
    pub(super) to: Access,
    pub(super) fold: Option<(Binary, FoldOrder)>,
    /// Whether no kernel that is apart, too, stores an element that this one stores.
    pub(super) apart: bool,
}

impl Kernel {
    /// How its reduction is done in pieces, if it is long.
    pub(super) fn cut(&self) -> Option<Cut> {
        let (_, order) = self.fold?;
        let spec = KernelSpec { loops: self.loops.clone(), ..KernelSpec::default() };
        cut(&spec.reduced_extents(), order)
    }

    /// Elements of the result.
    pub(super) fn len(&self) -> usize {
        self.loops.iter().filter(|l| !l.reduce).map(|l| l.extent).product()
    }
}

/// How a node is computed where it has to be in memory, if those are there that `is_there` names.
pub(super) fn work(graph: &Graph, id: NodeId, is_there: &dyn Fn(NodeId) -> bool) -> Work {
    let ty = graph.node(id).ty;
    let NodeKind::Op(op) = graph.node(id).kind else { return pointwise(graph, id) };
    let operands = graph.operands(id);
    match action(&op) {
        Action::Reshape => Work::Alias(operands[0]),
        Action::Reduce(combine, reduce) => reduced(graph, combine, &reduce, operands[0], &ty),
        Action::MatMul => product(graph, operands[0], operands[1], &ty),
        Action::Cat(axis) => cat(graph, usize::from(axis.0), &operands, &ty),
        Action::Pad => {
            let mut kernels = Vec::new();
            padded(graph, id, access(0, contiguous(&ty)), is_there, &mut kernels);
            Work::Kernels(kernels)
        }
        Action::Routine => Work::Routine(op),
        Action::Unary(_)
        | Action::Binary(_)
        | Action::Where
        | Action::Cast
        | Action::View
        | Action::Iota
        | Action::Call => pointwise(graph, id),
    }
}

/// A kernel that computes a node at every position and stores it contiguously.
fn pointwise(graph: &Graph, id: NodeId) -> Work {
    let to = access(0, contiguous(&graph.node(id).ty));
    Work::Kernels(stored(graph, id, to).into_iter().collect())
}

/// A kernel that stores a node's elements by an access over its dimensions.
fn stored(graph: &Graph, id: NodeId, to: Access) -> Option<Kernel> {
    let ty = graph.node(id).ty;
    if ty.shape.numel() == 0 {
        return None;
    }
    Some(Kernel {
        loops: parallel(ty.shape.sizes()),
        values: smallvec![(id, (0..ty.shape.rank()).collect())],
        dtype: ty.dtype,
        to,
        fold: None,
        apart: true,
    })
}

fn reduced(graph: &Graph, op: Binary, reduce: &attr::Reduce, x: NodeId, out: &Type) -> Work {
    if out.shape.numel() == 0 {
        return Work::Kernels(Vec::new());
    }
    let shape = graph.node(x).ty.shape;
    let (order, loops, fold_order) = reduction(shape.sizes(), |d| reduce.axes.contains(d));
    // Dimension d walks along the loop that stands for it.
    let mut loop_of: Along = SmallVec::from_elem(0, shape.rank());
    order.iter().enumerate().for_each(|(l, &d)| loop_of[d] = l);
    let mut strides: SmallVec<[i64; 8]> = SmallVec::from_elem(0, order.len());
    let mut step = 1;
    let n_kept = loops.iter().filter(|l| !l.reduce).count();
    for (l, &d) in order[..n_kept].iter().enumerate().rev() {
        strides[l] = step;
        step *= shape.sizes()[d] as i64;
    }
    let fold = (order.len() > n_kept).then_some((op, fold_order));
    let values = smallvec![(x, loop_of)];
    let (dtype, to) = (out.dtype, access(0, strides));
    Work::Kernels(vec![Kernel { loops, values, dtype, to, fold, apart: true }])
}

fn cat(graph: &Graph, axis: usize, operands: &[NodeId], ty: &Type) -> Work {
    let stride = ty.shape.strides()[axis] as i64;
    let mut start = 0;
    let part = |&operand: &NodeId| {
        let to = access(start * stride, contiguous(ty));
        start += graph.node(operand).ty.shape.sizes()[axis] as i64;
        stored(graph, operand, to)
    };
    Work::Kernels(operands.iter().filter_map(part).collect())
}

/// The padding around the operand, and the operand; with padding between its elements the padding
/// everywhere, then the operand over it. An operand that is padding itself is not made first.
fn padded(
    graph: &Graph,
    id: NodeId,
    to: Access,
    is_there: &dyn Fn(NodeId) -> bool,
    out: &mut Vec<Kernel>,
) {
    let NodeKind::Op(Op::Pad(pad)) = graph.node(id).kind else { return };
    let (ty, operands) = (graph.node(id).ty, graph.operands(id));
    let (axis, inside) = (usize::from(pad.axis), graph.node(operands[0]).ty.shape);
    let filler = |from: usize, len: usize, apart: bool| {
        let mut sizes: SmallVec<[usize; 8]> = SmallVec::from_slice(ty.shape.sizes());
        sizes[axis] = len;
        let offset = to.offset + from as i64 * to.strides[axis];
        let kernel = Kernel {
            loops: parallel(&sizes),
            values: smallvec![(operands[1], Along::new())],
            dtype: ty.dtype,
            to: Access { offset, strides: to.strides.clone() },
            fold: None,
            apart,
        };
        Some(kernel).filter(|kernel| kernel.len() > 0)
    };
    match pad.interior {
        0 => {
            let (lo, hi) = (pad.lo as usize, pad.hi as usize);
            out.extend(filler(0, lo, true));
            out.extend(filler(lo + inside.sizes()[axis], hi, true));
        }
        _ => out.extend(filler(0, ty.shape.sizes()[axis], false)),
    }
    let mut inner = to;
    inner.offset += pad.lo as i64 * inner.strides[axis];
    inner.strides[axis] *= pad.interior as i64 + 1;
    match is_padded_again(graph, operands[0]) && !is_there(operands[0]) {
        true => padded(graph, operands[0], inner, is_there, out),
        false => out.extend(stored(graph, operands[0], inner)),
    }
}

fn product(graph: &Graph, a: NodeId, b: NodeId, ty: &Type) -> Work {
    let rank = ty.shape.rank();
    let sizes = ty.shape.sizes();
    let is_vector = sizes[rank - 2] == 1 || sizes[rank - 1] == 1;
    if is_vector && matches!(ty.dtype, DType::F32 | DType::F64) && ty.shape.numel() > 0 {
        return Work::Kernels(vec![vector(graph, a, b, ty)]);
    }
    Work::Product(a, b)
}

/// A product with a vector: memory is what it costs, which a kernel that takes its operands as they
/// are uses best. Multiplication routines choose their order of adding by strides here, a fold does
/// not; in the order of rows it is fast along either axis of a matrix.
fn vector(graph: &Graph, a: NodeId, b: NodeId, ty: &Type) -> Kernel {
    let rank = ty.shape.rank();
    let k = graph.node(a).ty.shape.sizes()[rank - 1];
    let mut loops = parallel(ty.shape.sizes());
    loops.push(Loop { extent: k, reduce: true, joined: false });
    let batch = 0..rank - 2;
    let row = batch.clone().chain([rank - 2, rank]).collect();
    let column = batch.chain([rank, rank - 1]).collect();
    Kernel {
        loops,
        values: smallvec![(a, row), (b, column)],
        dtype: ty.dtype,
        to: access(0, contiguous(ty).chain([0])),
        fold: Some((Binary::Add, FoldOrder::Rows)),
        apart: true,
    }
}

pub(super) fn parallel(sizes: &[usize]) -> Loops {
    sizes.iter().map(|&extent| Loop::parallel(extent)).collect()
}

/// The strides of a contiguous value.
pub(super) fn contiguous(ty: &Type) -> impl Iterator<Item = i64> + use<> {
    ty.shape.strides().into_iter().take(ty.shape.rank()).map(|stride| stride as i64)
}

fn access(offset: i64, strides: impl IntoIterator<Item = i64>) -> Access {
    Access { offset, strides: strides.into_iter().collect() }
}
