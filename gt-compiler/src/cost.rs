//! The cost model: estimated seconds of a whole graph, shared values counted once.
//!
//! The model schedules as the scheduler does: some values are materialized, every other value is
//! computed inside the kernels that use it. A kernel takes the time of its launch and the longer of
//! two times: moving its bytes, and doing its operations (the roofline model). The numbers are
//! rough; the model guarantees only an order among graphs of one machine.

mod dag;
mod roots;

use gt_ir::{Graph, Op, Type};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::report::Cost;
use dag::Role;
pub(crate) use dag::{Dag, is_padded_again};
pub use roots::kernels;
pub(crate) use roots::materialized;

/// The speeds of a kind of machine, for estimates. They are stated, not measured: a measurement
/// would make the choice between two graphs, and under loose numerics their bits, a matter of luck.
/// One statement serves every machine of its kind, because only ratios decide.
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

impl Machine {
    /// A processor: two cores of a server of the 2020s. More cores have more of everything.
    pub const PROCESSOR: Machine = Machine {
        bandwidth: 12e9,
        cache_bandwidth: 60e9,
        cache_bytes: 4e6,
        flops: 40e9,
        matmul_flops: 180e9,
        launch: 1e-6,
    };

    /// A GPU of a data center of the 2020s, its kernels launched by a captured graph.
    pub const GPU: Machine = Machine {
        bandwidth: 2e12,
        cache_bandwidth: 6e12,
        cache_bytes: 4e7,
        flops: 15e12,
        matmul_flops: 5e13,
        launch: 2e-6,
    };
}

/// The share of moving bytes that computing does not hide, or the other way around.
const HIDDEN: f64 = 0.1;

impl Machine {
    /// Seconds of one kernel.
    pub(crate) fn kernel(&self, bytes: f64, flops: f64, peak: f64) -> f64 {
        let bandwidth =
            if bytes <= self.cache_bytes { self.cache_bandwidth } else { self.bandwidth };
        let (moving, computing) = (bytes / bandwidth, flops / peak);
        // Most of the shorter one is hidden behind the longer one.
        self.launch + moving.max(computing) + HIDDEN * moving.min(computing)
    }
}

/// The cost of one run of a graph of primitives.
pub fn cost(graph: &Graph, machine: &Machine) -> Cost {
    cost_of(&Dag::of(graph), machine)
}

/// The cost of one run of these values.
pub(crate) fn cost_of(dag: &Dag, machine: &Machine) -> Cost {
    let roots = materialized(dag);
    let n = dag.values.len();
    let mut walk = Walk { dag, roots: &roots, seen: vec![0; n], kernel: 0, stack: Vec::new() };
    let mut total = Cost::default();
    for at in (0..n).filter(|at| roots[*at]) {
        // An input is there, and a reshape of a materialized value is the same memory.
        if matches!(dag.values[at].role, Role::Given | Role::Reshape) {
            continue;
        }
        let (bytes, flops) = walk.kernel(at);
        let is_product = dag.values[at].role == Role::Product;
        let peak = if is_product { machine.matmul_flops } else { machine.flops };
        total.bytes += bytes as u64;
        total.flops += flops as u64;
        total.launches += 1;
        total.seconds += machine.kernel(bytes, flops, peak);
    }
    total
}

/// Seconds of one op by itself, without regard to fusion: a pointwise op moves no bytes.
pub(crate) fn alone(op: &Op, ty: &Type, operands: &[&Type], machine: &Machine) -> f64 {
    let mut dag = Dag::default();
    let given: SmallVec<[usize; 3]> = operands.iter().map(|t| dag.given(t)).collect();
    let at = dag.op(op, ty, operands.first().copied(), given.iter().copied());
    let value = &dag.values[at];
    let moved = || value.bytes + given.iter().map(|g| dag.values[*g].bytes).sum::<u64>();
    match value.role {
        Role::Given | Role::Number | Role::View | Role::Reshape => 0.0,
        Role::Lazy => value.flops / machine.flops,
        Role::Kernel | Role::Routine => machine.kernel(moved() as f64, value.flops, machine.flops),
        Role::Product => machine.kernel(moved() as f64, value.flops, machine.matmul_flops),
    }
}

/// Collects the bytes and operations of the kernel of one materialized value.
struct Walk<'d> {
    dag: &'d Dag,
    roots: &'d [bool],
    /// The last kernel each value was seen in.
    seen: Vec<u32>,
    kernel: u32,
    stack: Vec<u32>,
}

impl Walk<'_> {
    /// Bytes and operations.
    fn kernel(&mut self, root: usize) -> (f64, f64) {
        self.kernel += 1;
        let value = &self.dag.values[root];
        let (mut bytes, mut flops) = (value.bytes as f64, value.flops);
        self.stack.extend(self.dag.operands(root));
        while let Some(at) = self.stack.pop() {
            let at = at as usize;
            if std::mem::replace(&mut self.seen[at], self.kernel) == self.kernel {
                continue;
            }
            let value = &self.dag.values[at];
            if self.roots[at] {
                bytes += value.bytes as f64;
                continue;
            }
            flops += value.flops;
            self.stack.extend(self.dag.operands(at));
        }
        (bytes, flops)
    }
}

/// The most bytes of materialized values alive at once, in the order of the nodes: inputs live from
/// the start to their last use, outputs to the end.
pub fn peak(graph: &Graph) -> u64 {
    let dag = Dag::of(graph);
    let (roots, n) = (materialized(&dag), dag.values.len());
    let mut last: Vec<usize> = (0..n).collect();
    // The operands of a value computed inside kernels live until the last of those kernels.
    for at in (0..n).rev() {
        let until = if roots[at] && dag.values[at].role != Role::Reshape { at } else { last[at] };
        for &operand in dag.operands(at) {
            last[operand as usize] = last[operand as usize].max(until);
        }
    }
    for &output in &dag.outputs {
        last[output as usize] = n;
    }
    let held = |at: usize| {
        let owns = roots[at] && dag.values[at].role != Role::Reshape;
        if owns { dag.values[at].bytes } else { 0 }
    };
    let mut ends = vec![0_u64; n + 1];
    (0..n).for_each(|at| ends[last[at]] += held(at));
    let given = |at: &usize| dag.values[*at].role == Role::Given;
    let mut alive: u64 = (0..n).filter(given).map(held).sum();
    let mut peak = alive;
    for (at, ended) in ends.iter().take(n).enumerate() {
        if !given(&at) {
            alive += held(at);
        }
        peak = peak.max(alive);
        alive -= ended;
    }
    peak
}
