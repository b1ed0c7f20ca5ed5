//! What a graph costs: seconds of the whole graph, shared values counted once.
//!
//! The model is that of the scheduler: some values are materialized, everything else is computed inside the kernels that use it. A kernel
//! takes its launch and the longer of moving its bytes and doing its operations. Absolute numbers are rough; what counts is that of two
//! graphs the cheaper one is cheaper.

mod roots;

use gt_ir::{Graph, NodeId, NodeKind, Op, OpKind};
use serde::{Deserialize, Serialize};

use crate::report::Cost;
pub use roots::kernels;
pub(crate) use roots::materialized;

/// What a machine can do, for estimates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Bytes a second from and to memory.
    pub bandwidth: f64,
    /// Bytes a second from and to caches.
    pub cache_bandwidth: f64,
    /// Bytes a kernel may touch and find in the caches afterwards.
    pub cache_bytes: f64,
    /// Elementary operations a second inside loops.
    pub flops: f64,
    /// Multiplications and additions a second inside matrix products.
    pub matmul_flops: f64,
    /// Seconds to start a kernel.
    pub launch: f64,
}

impl Default for Machine {
    /// Two cores of a server of the 2020s.
    fn default() -> Machine {
        Machine {
            bandwidth: 12e9,
            cache_bandwidth: 60e9,
            cache_bytes: 4e6,
            flops: 40e9,
            matmul_flops: 180e9,
            launch: 1e-6,
        }
    }
}

impl Machine {
    /// Seconds of one kernel.
    pub(crate) fn kernel(&self, bytes: f64, flops: f64, peak: f64) -> f64 {
        let bandwidth =
            if bytes <= self.cache_bytes { self.cache_bandwidth } else { self.bandwidth };
        self.launch + (bytes / bandwidth).max(flops / peak)
    }
}

/// Elementary operations an element of an op's result takes.
pub(crate) fn weight(kind: OpKind) -> f64 {
    match kind {
        OpKind::Exp | OpKind::Log | OpKind::Sin | OpKind::Cos | OpKind::Tanh | OpKind::Erf => 12.0,
        OpKind::Pow => 30.0,
        OpKind::Div | OpKind::Sqrt => 4.0,
        OpKind::Reshape | OpKind::Permute | OpKind::Expand | OpKind::Slice => 0.0,
        OpKind::Rand | OpKind::Randint => 20.0,
        OpKind::Randn => 40.0,
        _ => 1.0,
    }
}

/// Operations of the op of one node, and whether it is a matrix product.
fn work(graph: &Graph, id: NodeId) -> (f64, bool) {
    let node = graph.node(id);
    let numel = node.ty.shape.numel() as f64;
    let NodeKind::Op(op) = node.kind else { return (0.0, false) };
    let first = || graph.node(graph.operands(id)[0]).ty.shape;
    match op {
        Op::MatMul => {
            let k = first().sizes().last().copied().unwrap_or(1);
            (2.0 * k as f64 * numel, true)
        }
        Op::Sum(_) | Op::Max(_) | Op::Min(_) | Op::Argmax(_) => (first().numel() as f64, false),
        Op::ScatterAdd(_) | Op::IndexAdd(_) => {
            let source = graph.node(graph.operands(id)[2]).ty.shape.numel();
            (numel + source as f64, false)
        }
        _ => (weight(op.kind()) * numel, false),
    }
}

/// What one run of a graph of primitives costs.
pub fn cost(graph: &Graph, machine: &Machine) -> Cost {
    let roots = materialized(graph);
    let mut walk =
        Walk { graph, roots: &roots, seen: vec![0; graph.len()], kernel: 0, stack: Vec::new() };
    let mut total = Cost::default();
    for id in graph.ids().filter(|id| roots[id.index()]) {
        let NodeKind::Op(op) = graph.node(id).kind else { continue };
        // A reshape of something materialized is the same memory.
        if matches!(op, Op::Reshape(_)) {
            continue;
        }
        let (bytes, flops, is_product) = walk.kernel(id);
        let peak = if is_product { machine.matmul_flops } else { machine.flops };
        total.bytes += bytes as u64;
        total.flops += flops as u64;
        total.launches += 1;
        total.seconds += machine.kernel(bytes, flops, peak);
    }
    total
}

/// Collects what the kernel of one materialized value reads and does.
struct Walk<'g> {
    graph: &'g Graph,
    roots: &'g [bool],
    /// The last kernel each node was seen in.
    seen: Vec<u32>,
    kernel: u32,
    stack: Vec<NodeId>,
}

impl Walk<'_> {
    /// Bytes, operations and whether it is a matrix product.
    fn kernel(&mut self, root: NodeId) -> (f64, f64, bool) {
        self.kernel += 1;
        let (mut flops, is_product) = work(self.graph, root);
        let mut bytes = self.graph.node(root).ty.bytes() as f64;
        self.stack.extend(self.graph.operands(root));
        while let Some(id) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[id.index()], self.kernel) == self.kernel {
                continue;
            }
            if self.roots[id.index()] {
                bytes += self.graph.node(id).ty.bytes() as f64;
                continue;
            }
            flops += work(self.graph, id).0;
            self.stack.extend(self.graph.operands(id));
        }
        (bytes, flops, is_product)
    }
}

/// The most bytes of materialized values alive at once, in the order of the nodes: inputs live from the start to their last use,
/// outputs to the end.
pub fn peak(graph: &Graph) -> u64 {
    let roots = materialized(graph);
    let mut last: Vec<usize> = (0..graph.len()).collect();
    // What a value computed inside kernels is made of lives until the last of those kernels.
    for id in graph.ids().rev() {
        let until = last[id.index()];
        for operand in graph.operands(id) {
            let at = if roots[id.index()] { id.index() } else { until };
            last[operand.index()] = last[operand.index()].max(at);
        }
    }
    graph.outputs().iter().for_each(|o| last[o.index()] = graph.len());
    let held = |id: NodeId| {
        let shares = matches!(graph.node(id).kind, NodeKind::Op(Op::Reshape(_)));
        if roots[id.index()] && !shares { graph.node(id).ty.bytes() as u64 } else { 0 }
    };
    let mut ends: Vec<Vec<NodeId>> = vec![Vec::new(); graph.len() + 1];
    graph.ids().for_each(|id| ends[last[id.index()]].push(id));
    let is_input = |id: NodeId| matches!(graph.node(id).kind, NodeKind::Input(_));
    let mut alive: u64 = graph.inputs().iter().map(|id| held(*id)).sum();
    let mut peak = alive;
    for id in graph.ids() {
        if !is_input(id) {
            alive += held(id);
        }
        peak = peak.max(alive);
        alive -= ends[id.index()].iter().map(|id| held(*id)).sum::<u64>();
    }
    peak
}

#[cfg(test)]
mod tests {
    use gt_ir::{lower, text};

    use super::*;

    fn graph(tape: &str) -> Graph {
        let (tape, _) = text::parse(&format!("gt tape 1\n{tape}")).unwrap();
        lower(&tape).unwrap().expanded().unwrap()
    }

    #[test]
    fn pointwise_work_in_one_kernel_moves_no_bytes_between() {
        let head = "%0 = input : f32[1024,1024]\n%1 = exp %0 : f32[1024,1024]\n";
        let one = cost(&graph(&format!("{head}output %1\n")), &Machine::default());
        let two = cost(
            &graph(&format!("{head}%2 = neg %1 : f32[1024,1024]\noutput %2\n")),
            &Machine::default(),
        );
        assert_eq!((one.bytes, one.launches), (8 << 20, 1));
        assert_eq!((two.bytes, two.launches), (8 << 20, 1));
        assert!(two.flops > one.flops);
    }

    #[test]
    fn the_peak_counts_what_lives_together() {
        let text = "%0 = input : f32[256]\n%1 = sum[0,keep] %0 : f32[1]\n%2 = sub %0, %1 : f32[256]\n%3 = sum[0] %2 : f32[]\noutput %3\n";
        assert_eq!(peak(&graph(text)), 1024 + 4 + 4);
    }
}
