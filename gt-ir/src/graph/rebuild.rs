//! Making a graph of primitives out of another: what passes are written with.
//!
//! The new graph takes inputs and scalar slots as they are; nodes are added in any order that
//! defines before use, and say where the user wrote what they stand for. [`Rebuild::finish`] drops
//! what no output needs and refuses a graph that is not an expanded one. It does not merge equal
//! nodes: that is a pass.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Graph, Node, NodeId, NodeKind, Stage, build::compact};
use crate::{
    error::OpError,
    intern::Loc,
    op::{Op, OperandType, infer},
    shape::Type,
};

/// A graph of primitives in the making.
#[derive(Debug)]
pub struct Rebuild {
    graph: Graph,
    loc: Loc,
    signal: Option<Arc<str>>,
    origin: u32,
}

impl Rebuild {
    /// A graph with the inputs and slots of another, and nothing else yet.
    pub fn of(graph: &Graph) -> Rebuild {
        let mut new = Graph {
            slots: graph.slots.clone(),
            calls: graph.calls.clone(),
            stage: Stage::Expanded,
            ..Graph::default()
        };
        new.dag.reserve_nodes(graph.len());
        new.dag.reserve_edges(graph.dag.edge_count());
        for &input in graph.inputs() {
            let id = new.dag.add_node(graph.node(input).clone()).into();
            new.inputs.push(id);
        }
        Rebuild { graph: new, loc: Loc::NONE, signal: None, origin: 0 }
    }

    /// From now on nodes stand for what this node does.
    pub fn at(&mut self, node: &Node) {
        self.loc = node.loc;
        self.signal.clone_from(&node.signal);
        self.origin = node.origin;
    }

    /// The k-th input.
    ///
    /// # Errors
    /// There are not so many.
    pub fn input(&self, k: u32) -> Result<NodeId, OpError> {
        let id = self.graph.inputs.get(k as usize).copied();
        id.ok_or_else(|| OpError::new(format!("graph: there is no input {k}")))
    }

    /// A scalar slot or a constant, in a dtype.
    pub fn leaf(&mut self, kind: NodeKind, ty: Type) -> NodeId {
        self.push(kind, ty, &[])
    }

    /// A primitive, of the type its rule gives.
    ///
    /// # Errors
    /// The op's type rule refuses the operands.
    pub fn op(&mut self, op: Op, operands: &[NodeId]) -> Result<NodeId, OpError> {
        let types: SmallVec<[OperandType; 3]> =
            operands.iter().map(|o| OperandType::Tensor(self.ty(*o))).collect();
        let ty = infer(&op, &types)?;
        Ok(self.push(NodeKind::Op(op), ty, operands))
    }

    /// A node of another graph on other operands; its type is taken over and checked in the end.
    ///
    /// # Errors
    /// An input that there is not.
    pub fn copy(&mut self, node: &Node, operands: &[NodeId]) -> Result<NodeId, OpError> {
        if let NodeKind::Input(k) = node.kind {
            return self.input(k);
        }
        self.at(node);
        Ok(self.push(node.kind, node.ty, operands))
    }

    /// Gives the dimensions of a node made so far the names they have in a type of equal sizes;
    /// inputs keep theirs.
    pub fn name(&mut self, id: NodeId, like: &Type) {
        let node = &mut self.graph.dag[id.raw()];
        if node.ty.same_layout(like) && !matches!(node.kind, NodeKind::Input(_)) {
            node.ty = *like;
        }
    }

    /// The type of a node made so far.
    pub fn ty(&self, id: NodeId) -> Type {
        self.graph.node(id).ty
    }

    /// The nodes made so far.
    pub const fn made(&self) -> &Graph {
        &self.graph
    }

    fn push(&mut self, kind: NodeKind, ty: Type, operands: &[NodeId]) -> NodeId {
        let (signal, origin) = (self.signal.clone(), self.origin);
        let node = Node { kind, ty, loc: self.loc, signal, origin };
        let id = self.graph.dag.add_node(node);
        for (port, operand) in operands.iter().enumerate() {
            self.graph.dag.add_edge(operand.raw(), id, port as u32);
        }
        id.into()
    }

    /// The graph of these results. What no result needs is dropped, except inputs.
    ///
    /// # Errors
    /// A node that an expanded graph does not have: a bug in what made it.
    pub fn finish(self, outputs: &[NodeId]) -> Result<Graph, OpError> {
        let graph = compact(self.graph, outputs, Stage::Expanded);
        graph.validate_expanded().map_err(|e| OpError::new(format!("graph: {e}")))?;
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dtype::DType, graph::expand, scalar::Scalar};

    fn graph() -> Graph {
        let ty = OperandType::Tensor("f32[2,3]".parse().unwrap());
        expand(&Op::Mul, &[ty, OperandType::Scalar(Scalar::F64(2.0))]).unwrap()
    }

    #[test]
    fn a_copy_is_equal_and_dead_nodes_go() {
        let old = graph();
        let mut new = Rebuild::of(&old);
        let mut map: Vec<NodeId> = Vec::new();
        for id in old.ids() {
            let operands: Vec<NodeId> = old.operands(id).iter().map(|o| map[o.index()]).collect();
            new.op(Op::Neg, &[new.input(0).unwrap()]).unwrap();
            map.push(new.copy(old.node(id), &operands).unwrap());
        }
        let outputs: Vec<NodeId> = old.outputs().iter().map(|o| map[o.index()]).collect();
        assert_eq!(new.finish(&outputs).unwrap().to_string(), old.to_string());
    }

    #[test]
    fn what_is_no_expanded_graph_is_refused() {
        let old = graph();
        let mut new = Rebuild::of(&old);
        let one = new.leaf(NodeKind::Const(Scalar::F64(1.0)), Type::scalar(DType::F32));
        let input = new.input(0).unwrap();
        let sum = new.op(Op::Add, &[input, one]).unwrap();
        assert!(new.finish(&[sum]).is_err_and(|e| e.to_string().contains("broadcast")));
        assert!(Rebuild::of(&old).input(1).is_err());
    }

    #[test]
    fn only_calls_that_the_expansion_kept_may_stand() {
        let inputs = (0..3).map(|i| format!("%{i} = input : f32[1,1,2,8]\n")).collect::<String>();
        let op: Op = "scaled_dot_product_attention[full]".parse().unwrap();
        let call = format!("%3 = {op} %0, %1, %2, 0.5 : f32[1,1,2,8]\noutput %3\n");
        let (tape, _) = crate::text::parse(&format!("gt tape 1\n{inputs}{call}")).unwrap();
        let traced = crate::graph::lower(&tape).unwrap();
        let again = |graph: &Graph| {
            let mut new = Rebuild::of(graph);
            let scale = new.leaf(NodeKind::Scalar(0), Type::scalar(DType::F32));
            let inputs = [0, 1, 2].map(|k| new.input(k).unwrap());
            let call = new.op(op, &[inputs[0], inputs[1], inputs[2], scale]).unwrap();
            new.finish(&[call])
        };
        assert!(again(&traced.expanded_with(|_, _| true).unwrap()).is_ok());
        let refused = again(&traced.expanded().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("neither a primitive nor a call"), "{refused}");
    }
}
