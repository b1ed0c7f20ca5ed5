//! The new graph, put together from the solutions of blocks.
//!
//! A node that a solution leaves as it was keeps its source location and the names of its
//! dimensions. A new node takes the location of the value that it replaces.

use gt_ir::{Graph, NodeId, NodeKind, Op, OpError, Type, graph::Rebuild};
use smallvec::SmallVec;

use super::{
    block::{Block, Cut, Part},
    language::Uniform,
};

/// A value of a solved block.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A node of the block that is there already.
    Local(u32),
    /// One number in some shape; a slot by its number in the block.
    Number(Uniform, Type),
    /// An op on earlier steps.
    Op {
        op: Op,
        operands: SmallVec<[u32; 3]>,
        /// A node of the block that this stands for.
        like: Option<u32>,
        /// Whether it is that very node.
        same: bool,
    },
}

/// How a block is computed more cheaply.
pub(super) struct Solution {
    pub(super) steps: Vec<Step>,
    /// For each local that is wanted, its step.
    pub(super) wanted: Vec<(u32, u32)>,
}

/// The graph being put together from solved blocks.
pub(super) struct Assembly<'g> {
    graph: &'g Graph,
    cut: &'g Cut,
    new: Rebuild,
    /// The new node of each old node, once it is made.
    map: Vec<Option<NodeId>>,
}

impl<'g> Assembly<'g> {
    pub(super) fn new(graph: &'g Graph, cut: &'g Cut) -> Self {
        Assembly { graph, cut, new: Rebuild::of(graph), map: vec![None; graph.len()] }
    }

    pub(super) fn add(
        &mut self,
        range: (u32, u32),
        block: &Block,
        solution: Option<&Solution>,
    ) -> Result<(), OpError> {
        for node in range.0..range.1 {
            if solution.is_none() || self.cut.terms[node as usize].part != Part::Op {
                self.copy(node)?;
            }
        }
        let Some(solution) = solution else { return Ok(()) };
        let mut made: Vec<NodeId> = Vec::with_capacity(solution.steps.len());
        let first =
            solution.wanted.first().map_or(range.0, |(at, _)| block.locals[*at as usize].node);
        self.new.at(self.graph.node(self.graph.id(first as usize)));
        for step in &solution.steps {
            let id = self.step(step, block, &made)?;
            made.push(id);
        }
        for (at, step) in &solution.wanted {
            let node = block.locals[*at as usize].node as usize;
            let id = made[*step as usize];
            self.new.name(id, &self.graph.node(self.graph.id(node)).ty);
            self.map[node] = Some(id);
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, block: &Block, made: &[NodeId]) -> Result<NodeId, OpError> {
        match step {
            Step::Local(at) => self.known(block.locals[*at as usize].node),
            Step::Number(uniform, ty) => {
                let kind = match uniform {
                    Uniform::Slot(k) => NodeKind::Scalar(block.slots[*k as usize]),
                    Uniform::Const(c) => NodeKind::Const(*c),
                };
                let scalar = self.new.leaf(kind, Type::scalar(ty.dtype));
                if ty.shape.rank() == 0 {
                    Ok(scalar)
                } else {
                    self.new.op(Op::Expand(ty.shape), &[scalar])
                }
            }
            Step::Op { op, operands, like, same } => {
                let operands: SmallVec<[NodeId; 3]> =
                    operands.iter().map(|o| made[*o as usize]).collect();
                let like = like.map(|at| {
                    self.graph.node(self.graph.id(block.locals[at as usize].node as usize))
                });
                match like {
                    Some(node) if *same => self.new.copy(node, &operands),
                    Some(node) => {
                        self.new.at(node);
                        self.new.op(*op, &operands)
                    }
                    None => self.new.op(*op, &operands),
                }
            }
        }
    }

    fn known(&self, node: u32) -> Result<NodeId, OpError> {
        self.map[node as usize]
            .ok_or_else(|| OpError::new(format!("egraph: nothing stands for n{node}")))
    }

    fn copy(&mut self, node: u32) -> Result<(), OpError> {
        let id = self.graph.id(node as usize);
        let operands = self.graph.operands(id);
        let operands = operands
            .iter()
            .map(|o| self.known(o.index() as u32))
            .collect::<Result<SmallVec<[_; 3]>, _>>()?;
        self.map[node as usize] = Some(self.new.copy(self.graph.node(id), &operands)?);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Graph, OpError> {
        let outputs = self.graph.outputs().iter().map(|o| self.known(o.index() as u32));
        let outputs = outputs.collect::<Result<Vec<NodeId>, _>>()?;
        self.new.finish(&outputs)
    }
}
