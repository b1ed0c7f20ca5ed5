//! The analysis of e-classes: the type of each, and facts that make rules legal. Facts only grow.
//!
//! Equal values have equal types. Merging two classes of different types would be a bug of a rule,
//! which an assertion finds.

use egg::{Analysis, DidMerge, EGraph, Id};
use gt_ir::{Class, Op, OperandType, Type, infer};
use smallvec::SmallVec;

use super::language::{Children, Node, Sig, Signatures, Uniform, What};

/// The e-graph of a block.
pub(crate) type Graph = EGraph<Node, Facts>;

/// The analysis; it owns the signatures.
#[derive(Default, Debug)]
pub(crate) struct Facts {
    pub(crate) sigs: Signatures,
}

/// The facts of a class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Data {
    pub(crate) ty: Type,
    /// The number it is everywhere.
    pub(crate) uniform: Option<Uniform>,
    /// Whether no element is below zero (NaN and -0 may be there).
    pub(crate) nonnegative: bool,
}

impl Analysis<Node> for Facts {
    type Data = Data;

    fn make(graph: &mut Graph, node: &Node, _: Id) -> Data {
        let sig = *graph.analysis.sigs.get(node.sig);
        let uniform = match sig.what {
            What::Uniform(uniform) => Some(uniform),
            What::External(_) | What::Op(_) => None,
        };
        Data { ty: sig.ty, uniform, nonnegative: is_nonnegative(graph, &sig, &node.children) }
    }

    fn merge(&mut self, a: &mut Data, b: Data) -> DidMerge {
        debug_assert!(
            a.ty.same_layout(&b.ty),
            "classes of types {} and {} are no equals",
            a.ty,
            b.ty
        );
        let uniform = match (a.uniform, b.uniform) {
            (Some(Uniform::Const(c)), _) | (_, Some(Uniform::Const(c))) => Some(Uniform::Const(c)),
            (x, y) => x.or(y),
        };
        let merged = Data { ty: a.ty, uniform, nonnegative: a.nonnegative || b.nonnegative };
        let did = DidMerge(merged != *a, merged != b);
        *a = merged;
        did
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "an op that is not named may be negative")]
fn is_nonnegative(graph: &Graph, sig: &Sig, children: &[Id]) -> bool {
    let child = |i: usize| graph[children[i]].data.nonnegative;
    let op = match sig.what {
        What::Op(op) => op,
        What::Uniform(Uniform::Const(c)) => return c.as_f64() >= 0.0,
        What::External(_) | What::Uniform(Uniform::Slot(_)) => return false,
    };
    match op {
        Op::Exp | Op::Sqrt => true,
        Op::Abs => sig.ty.dtype.is_float(),
        Op::Mul if sig.ty.dtype.is_float() => {
            graph.find(children[0]) == graph.find(children[1]) || child(0) && child(1)
        }
        Op::Add | Op::Div if sig.ty.dtype.is_float() => child(0) && child(1),
        Op::Where => child(1) && child(2),
        Op::Maximum => child(0) || child(1),
        Op::Minimum => child(0) && child(1),
        Op::Sum(_) => sig.ty.dtype.is_float() && child(0),
        Op::Reshape(_)
        | Op::Permute(_)
        | Op::Expand(_)
        | Op::Slice(_)
        | Op::Unfold(_)
        | Op::Max(_)
        | Op::Min(_) => child(0),
        _ => false,
    }
}

/// The type a primitive gives these operands if an expanded graph may hold it on them.
pub(crate) fn legal(op: &Op, operands: &[Type]) -> Option<Type> {
    let seen: SmallVec<[OperandType; 3]> =
        operands.iter().map(|t| OperandType::Tensor(*t)).collect();
    let ty = infer(op, &seen).ok()?;
    let same = |of: &[Type]| of.iter().all(|t| t.dtype == of[0].dtype);
    let fits = match op.spec().class {
        Class::Pointwise => {
            let like = if *op == Op::Where { &operands[1..] } else { operands };
            operands.iter().all(|t| t.shape.same_sizes(&ty.shape)) && same(like)
        }
        Class::Contract | Class::Matrix => {
            operands.iter().all(|t| t.shape.same_batch(&operands[0].shape)) && same(operands)
        }
        Class::Move => same(operands),
        Class::Reduce | Class::Gather | Class::Source => true,
    };
    fits.then_some(ty)
}

/// Adds an op, if it is legal on these classes. A movement of one number everywhere is a leaf
/// again.
pub(crate) fn add_op(graph: &mut Graph, op: Op, children: &[Id]) -> Option<Id> {
    let types: SmallVec<[Type; 3]> = children.iter().map(|c| graph[*c].data.ty).collect();
    let ty = legal(&op, &types)?;
    if let (
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Unfold(_),
        Some(uniform),
    ) = (op, graph[children[0]].data.uniform)
    {
        return Some(add_uniform(graph, uniform, ty));
    }
    let children: Children = children.iter().map(|c| graph.find(*c)).collect();
    let sig = graph.analysis.sigs.intern(Sig { what: What::Op(op), ty });
    Some(graph.add(Node { kind: Some(op.kind()), sig, children }))
}

/// The class of an op on these classes, if the e-graph holds it.
pub(crate) fn find_op(graph: &Graph, op: Op, children: &[Id]) -> Option<Id> {
    let types: SmallVec<[Type; 3]> = children.iter().map(|c| graph[*c].data.ty).collect();
    let sig = graph.analysis.sigs.find(&Sig { what: What::Op(op), ty: legal(&op, &types)? })?;
    let children: Children = children.iter().map(|c| graph.find(*c)).collect();
    graph.lookup(Node { kind: Some(op.kind()), sig, children })
}

/// Adds one number everywhere.
pub(crate) fn add_uniform(graph: &mut Graph, uniform: Uniform, ty: Type) -> Id {
    let sig = graph.analysis.sigs.intern(Sig { what: What::Uniform(uniform), ty });
    graph.add(Node { kind: None, sig, children: Children::new() })
}

/// The op of an e-node, if it is one.
pub(crate) fn op_of(graph: &Graph, node: &Node) -> Option<Op> {
    match graph.analysis.sigs.get(node.sig).what {
        What::Op(op) => Some(op),
        What::External(_) | What::Uniform(_) => None,
    }
}
