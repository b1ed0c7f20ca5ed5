//! Graphs as Graphviz draws them: values flow downwards, classes of ops have colors, edges are as
//! thick as what flows over them.
//!
//! Literals, constants and what only spreads them stand inside the ops that use them, where they
//! would otherwise draw most of the lines. The text is that of the graph and the groups alone, so
//! equal graphs draw equally.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::{Graph, NodeId, NodeKind};
use crate::op::Class;
use crate::units::bytes;

/// The beginning of every drawing: fonts, and the colors of outlines and edges.
pub const DOT_HEAD: &str = "digraph gt {
  graph [fontname=\"Helvetica\", fontsize=11, ranksep=0.35, nodesep=0.25, bgcolor=\"white\"];
  node [shape=box, style=\"rounded,filled\", color=\"#475569\", fontname=\"Helvetica\", \
                    fontsize=11, margin=\"0.12,0.06\"];
  edge [fontname=\"Helvetica\", fontsize=9, color=\"#64748b\", fontcolor=\"#64748b\", \
                    arrowsize=0.6];
";

/// What a drawing says that the graph does not know. What is missing is not said.
#[derive(Clone, Debug, Default)]
pub struct Legend {
    /// The kernel of each node; those of one kernel are framed.
    pub kernels: Vec<Option<u32>>,
    /// Names of the inputs, by position.
    pub inputs: Vec<Option<Arc<str>>>,
    /// Names of the outputs, by position.
    pub outputs: Vec<Option<Arc<str>>>,
}

impl Graph {
    /// The graph in Graphviz's language.
    ///
    /// ```
    /// use gt_ir::graph::{Legend, lower};
    /// let text = "gt tape 1\n%0 = input : f32[2]\n%1 = exp %0\noutput %1\n";
    /// let graph = lower(&gt_ir::text::load(text).unwrap().tape)?;
    /// let dot = graph.to_dot(&Legend::default());
    /// assert!(dot.starts_with("digraph gt {") && dot.contains("n0 -> n1"));
    /// # Ok::<(), gt_ir::graph::LowerError>(())
    /// ```
    pub fn to_dot(&self, legend: &Legend) -> String {
        let drawing = Drawing { graph: self, small: self.small(), legend };
        let mut frames: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        let mut out = String::from(DOT_HEAD);
        for id in self.ids().filter(|id| !drawing.is_hidden(*id)) {
            match drawing.kernel(id) {
                Some(group) => frames.entry(group).or_default().push(id),
                None => drawing.node(&mut out, "  ", id),
            }
        }
        for (group, members) in &frames {
            drawing.frame(&mut out, *group, members);
        }
        let is_inner =
            |from, to| drawing.kernel(from).is_some_and(|k| Some(k) == drawing.kernel(to));
        self.ids().for_each(|id| drawing.edges(&mut out, "  ", id, |from| !is_inner(from, id)));
        out.push_str("}\n");
        out
    }

    /// For each node, whether it is a literal, a constant, or one of those in another shape.
    fn small(&self) -> Vec<bool> {
        let mut small = vec![false; self.len()];
        for id in self.ids().filter(|id| !self.outputs().contains(id)) {
            small[id.index()] = match &self.node(id).kind {
                NodeKind::Input(_) => false,
                NodeKind::Scalar(_) | NodeKind::Const(_) => true,
                NodeKind::Op(op) => {
                    let operands = self.operands(id);
                    let spread = op.spec().class == Class::Move && !operands.is_empty();
                    spread && operands.iter().all(|o| small[o.index()])
                }
            };
        }
        small
    }
}

/// A graph that is being drawn.
struct Drawing<'a> {
    graph: &'a Graph,
    /// Nodes that stand inside others.
    small: Vec<bool>,
    legend: &'a Legend,
}

impl Drawing<'_> {
    /// Whether a node is drawn inside others, or is an input without uses.
    fn is_hidden(&self, id: NodeId) -> bool {
        let is_input = matches!(self.graph.node(id).kind, NodeKind::Input(_));
        let unused = self.graph.users(id).is_empty() && !self.graph.outputs().contains(&id);
        self.small[id.index()] || (is_input && unused)
    }

    fn kernel(&self, id: NodeId) -> Option<u32> {
        self.legend.kernels.get(id.index()).copied().flatten()
    }

    /// What the user calls an input or an output.
    fn name(&self, id: NodeId) -> Option<String> {
        let given = |names: &[Option<Arc<str>>], k: usize| names.get(k).cloned().flatten();
        let input = match self.graph.node(id).kind {
            NodeKind::Input(k) => given(&self.legend.inputs, k as usize),
            NodeKind::Scalar(_) | NodeKind::Const(_) | NodeKind::Op(_) => None,
        };
        let output = || {
            let k = self.graph.outputs().iter().position(|output| *output == id)?;
            given(&self.legend.outputs, k)
        };
        input.or_else(output).map(|name| format!("{}\\n", name.escape_default()))
    }

    /// Writes the nodes of a kernel inside a frame with its number, and the edges between them, so
    /// that their labels have room in it. Graphviz draws a subgraph with a frame only if its name
    /// begins with `cluster`.
    fn frame(&self, out: &mut String, group: u32, members: &[NodeId]) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "  subgraph cluster_{group} {{\n    label=\"kernel {group}\"; labeljust=l; \
             labelloc=b; margin=18; style=\"rounded,filled\"; color=\"#cbd5e1\"; \
             fillcolor=\"#f8fafc\"; fontcolor=\"#64748b\";"
        );
        members.iter().for_each(|id| self.node(out, "    ", *id));
        let is_inner = |from: NodeId| self.kernel(from) == Some(group);
        members.iter().for_each(|id| self.edges(out, "    ", *id, is_inner));
        out.push_str("  }\n");
    }

    /// Writes a node: what the user calls it, its op, its type and its signal. Inputs are ellipses,
    /// and outputs have a bold border.
    fn node(&self, out: &mut String, indent: &str, id: NodeId) {
        let node = self.graph.node(id);
        let scope = node.signal.as_deref().map(|s| format!("\\n{}", s.escape_default()));
        let (is_input, is_output) =
            (matches!(node.kind, NodeKind::Input(_)), self.graph.outputs().contains(&id));
        let shape = if is_input { ", shape=ellipse, style=filled" } else { "" };
        let bold = if is_output { ", penwidth=2.5, color=\"#0f172a\"" } else { "" };
        let _ = writeln!(
            out,
            "{indent}{id} [label=\"{}{}\\n{}{}\", fillcolor=\"{}\"{shape}{bold}];",
            self.name(id).unwrap_or_default(),
            self.call(id),
            node.ty,
            scope.unwrap_or_default(),
            self.color(id)
        );
    }

    /// The op, with the operands that stand inside it.
    fn call(&self, id: NodeId) -> String {
        let label = self.graph.label(id);
        let operands = self.graph.operands(id);
        if !operands.iter().any(|o| self.small[o.index()]) {
            return label;
        }
        let words: Vec<String> = operands
            .iter()
            .map(|o| if self.small[o.index()] { self.literal(*o) } else { "\u{b7}".into() })
            .collect();
        format!("{label} ({})", words.join(", "))
    }

    /// What is behind a literal in whatever shape.
    fn literal(&self, mut id: NodeId) -> String {
        while let (NodeKind::Op(_), Some(first)) =
            (&self.graph.node(id).kind, self.graph.operands(id).first().copied())
        {
            id = first;
        }
        match &self.graph.node(id).kind {
            NodeKind::Const(value) => value.to_string(),
            NodeKind::Scalar(slot) => format!("slot {slot}"),
            NodeKind::Input(_) | NodeKind::Op(_) => id.to_string(),
        }
    }

    /// The color of a node: by its class, so that products and reductions stand out.
    fn color(&self, id: NodeId) -> &'static str {
        match &self.graph.node(id).kind {
            NodeKind::Input(_) => "#dbeafe",
            NodeKind::Scalar(_) | NodeKind::Const(_) => "#f1f5f9",
            NodeKind::Op(op) => match op.spec().class {
                Class::Pointwise => "#dcfce7",
                Class::Reduce => "#fef9c3",
                Class::Contract | Class::Matrix => "#fecaca",
                Class::Move => "#ede9fe",
                Class::Gather => "#ffedd5",
                Class::Source => "#e0f2fe",
            },
        }
    }

    /// Writes the edges into a node from the operands that are wanted, one for each different one.
    /// The width grows with the
    /// logarithm of the bytes: 0.3 points for a factor of ten.
    fn edges(&self, out: &mut String, indent: &str, id: NodeId, wanted: impl Fn(NodeId) -> bool) {
        if self.small[id.index()] {
            return;
        }
        let mut operands = self.graph.operands(id);
        operands.sort_unstable();
        operands.dedup();
        for from in operands.into_iter().filter(|o| !self.small[o.index()] && wanted(*o)) {
            let n_bytes = self.graph.node(from).ty.bytes();
            let width = 0.6 + (n_bytes.max(1) as f64).log10() * 0.3;
            let _ = writeln!(
                out,
                "{indent}{from} -> {id} [label=\"  {}\", penwidth={width:.1}];",
                bytes(n_bytes as u64)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Legend;

    const TAPE: &str = "gt tape 1
%0 = input \"x\" : f32[1000,3]
enter \"loss\"
%1 = mul %0, 2.0
exit \"loss\"
%2 = sum[1] %1
output %2
";

    #[test]
    fn literals_stand_in_their_ops_and_groups_in_frames() {
        let tape = crate::text::load(TAPE).unwrap().tape;
        let graph = crate::lower(&tape).unwrap();
        let kernels = graph.ids().map(|id| (graph.operands(id).len() == 2).then_some(7)).collect();
        let legend = Legend { kernels, inputs: vec![Some("x".into())], outputs: vec![None] };
        let dot = graph.to_dot(&legend);
        assert!(dot.contains("[label=\"x\\ninput 0"), "{dot}");
        assert!(dot.contains("[label=\"mul (\u{b7}, slot 0)\\nf32[1000,3]\\nloss\""), "{dot}");
        assert!(dot.contains("subgraph cluster_7 {\n    label=\"kernel 7\""), "{dot}");
        assert_eq!(dot.matches("label=\"  12.0 kB\", penwidth=1.8").count(), 2, "{dot}");
        assert_eq!(dot.matches(" -> ").count(), 2, "{dot}");
        assert!(!graph.to_dot(&Legend::default()).contains("subgraph"));
        // Edges within a kernel stand in its frame, and only there.
        let one = Legend { kernels: vec![Some(1); graph.len()], ..Legend::default() };
        let dot = graph.to_dot(&one);
        let frame = dot.split("subgraph").nth(1).and_then(|rest| rest.split("  }").next());
        assert_eq!(frame.map(|frame| frame.matches(" -> ").count()), Some(2), "{dot}");
        assert_eq!(dot.matches(" -> ").count(), 2, "{dot}");
    }
}
