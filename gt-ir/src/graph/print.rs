//! Graphs as people read them: one node a line, or Graphviz.

use std::fmt::{self, Write as _};

use super::{Graph, NodeId, NodeKind};
use crate::op::Class;

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
    fn label(&self, id: NodeId) -> String {
        match &self.node(id).kind {
            NodeKind::Input(k) => format!("input {k}"),
            NodeKind::Scalar(k) => format!("scalar {k} = {}", self.slots()[*k as usize]),
            NodeKind::Const(s) => format!("const {s}"),
            NodeKind::Op(op) => op.to_string(),
        }
    }

    /// The graph in Graphviz's language: values flow downwards, edges carry types, colors tell classes of ops apart.
    pub fn to_dot(&self) -> String {
        let mut out = String::from(
            "digraph gt {\n  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11];\n  edge [fontname=\"Helvetica\", fontsize=9];\n",
        );
        for id in self.ids() {
            let color = match &self.node(id).kind {
                NodeKind::Input(_) => "#dbeafe",
                NodeKind::Scalar(_) | NodeKind::Const(_) => "#f1f5f9",
                NodeKind::Op(op) => match op.spec().class {
                    Class::Pointwise => "#dcfce7",
                    Class::Reduce => "#fef9c3",
                    Class::Contract => "#fecaca",
                    Class::Move => "#ede9fe",
                    Class::Gather => "#ffedd5",
                    Class::Source => "#e0f2fe",
                },
            };
            let bold = if self.outputs().contains(&id) { ", penwidth=2.5" } else { "" };
            let scope = self
                .node(id)
                .signal
                .as_deref()
                .map(|s| format!("\\n{}", s.escape_default()))
                .unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "  {id} [label=\"{}{scope}\", fillcolor=\"{color}\"{bold}];",
                self.label(id)
            );
            for from in self.operands(id) {
                let _ = writeln!(out, "  {from} -> {id} [label=\"{}\"];", self.node(from).ty);
            }
        }
        out.push_str("}\n");
        out
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
