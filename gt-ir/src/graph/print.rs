//! Graphs as people read them, one node a line.
//!
//! The text is for filetests and dumps, and cannot be parsed. It shows the values that the scalar
//! slots had where the graph was made; a run may give them others.

use std::fmt;

use super::{Graph, NodeId, NodeKind};

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Graph {
    /// What a node is, without its operands.
    pub(super) fn label(&self, id: NodeId) -> String {
        match &self.node(id).kind {
            NodeKind::Input(k) => format!("input {k}"),
            NodeKind::Scalar(k) => format!("scalar {k} = {}", self.slots()[*k as usize]),
            NodeKind::Const(s) => format!("const {s}"),
            NodeKind::Op(op) => op.to_string(),
        }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut scope: Option<&str> = None;
        for id in self.ids() {
            let node = self.node(id);
            if node.signal.as_deref() != scope {
                scope = node.signal.as_deref();
                writeln!(f, "# signal {}", scope.unwrap_or("none"))?;
            }
            write!(f, "{id} = {}", self.label(id))?;
            for (i, operand) in self.operands(id).into_iter().enumerate() {
                write!(f, "{}{operand}", if i == 0 { " " } else { ", " })?;
            }
            writeln!(f, " : {}", node.ty)?;
        }
        for (i, output) in self.outputs().iter().enumerate() {
            writeln!(f, "output {i} {output}")?;
        }
        Ok(())
    }
}
