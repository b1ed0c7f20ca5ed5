//! The values of a graph that get memory of their own (are *materialized*): one rule for the
//! scheduler and the cost model.
//!
//! Materialized are inputs, outputs, the results of reductions, products and routines, and the
//! operands of products and routines; also a shared value that costs more to compute again than to
//! read. Every other value is computed inside the kernels that use it. Padding that is padded again
//! is stored with the larger value.

use gt_ir::{Graph, NodeId, NodeKind};

use super::dag::{Dag, Role};

/// Most operations fused into one value.
const MAX_FUSED: u32 = 96;
/// A shared value up to this cost is computed again by each kernel that uses it.
const CHEAP: u32 = 4;

/// For each value, whether it is materialized.
pub(crate) fn materialized(dag: &Dag) -> Vec<bool> {
    let mut roots = vec![false; dag.values.len()];
    dag.outputs.iter().for_each(|o| roots[*o as usize] = true);
    for (at, value) in dag.values.iter().enumerate() {
        match value.role {
            Role::Given | Role::Kernel => roots[at] = true,
            Role::Product | Role::Routine => {
                roots[at] = true;
                for &operand in dag.operands(at) {
                    let operand = operand as usize;
                    let held =
                        if value.role == Role::Product { base(dag, operand) } else { operand };
                    // A number goes along with the call.
                    roots[held] |= dag.values[held].role != Role::Number;
                }
            }
            Role::Number | Role::Lazy | Role::View | Role::Reshape => (),
        }
    }
    let costs = costs(dag, &mut roots);
    shared(dag, &costs, &mut roots);
    roots
}

fn is_view(dag: &Dag, at: usize) -> bool {
    matches!(dag.values[at].role, Role::View | Role::Reshape)
}

/// The value that a chain of views looks at.
fn base(dag: &Dag, mut at: usize) -> usize {
    while is_view(dag, at) {
        at = dag.operands(at)[0] as usize;
    }
    at
}

/// Operations it takes to compute an element of each value from materialized ones; breaks chains
/// that grow too large.
fn costs(dag: &Dag, roots: &mut [bool]) -> Vec<u32> {
    let mut costs: Vec<u32> = Vec::with_capacity(roots.len());
    let mut sizes: Vec<u32> = Vec::with_capacity(roots.len());
    for (at, value) in dag.values.iter().enumerate() {
        let (mut cost, mut size) = (value.own, 1_u32);
        for &operand in dag.operands(at).iter().filter(|o| !roots[**o as usize]) {
            cost = cost.saturating_add(costs[operand as usize]);
            size = size.saturating_add(sizes[operand as usize]);
        }
        roots[at] |= size > MAX_FUSED;
        if value.expands {
            // Computing it for every repetition would cost more than a buffer of the smaller size.
            let from = dag.operands(at)[0] as usize;
            let n = dag.values[from].numel;
            let held = base(dag, from);
            let repeats = n > 1 && value.numel >= 4 * n && costs[from] > CHEAP;
            roots[held] |= repeats && dag.values[held].role != Role::Number;
        }
        costs.push(cost);
        sizes.push(size);
    }
    costs
}

/// The kernel a value ends up in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    None,
    One(usize),
    Several,
}

/// Materializes values that several kernels use, where that is cheaper than computing them in each.
fn shared(dag: &Dag, costs: &[u32], roots: &mut [bool]) {
    let mut homes = vec![Home::None; dag.values.len()];
    for at in (0..dag.values.len()).rev() {
        // All users have been here and said where they end up.
        let alone = matches!(homes[at], Home::One(_));
        let many = dag.values[at].numel > 1;
        roots[at] |= !alone && costs[at] > CHEAP && many && !is_view(dag, at);
        let home = if roots[at] { Home::One(at) } else { homes[at] };
        for &operand in dag.operands(at) {
            let known = &mut homes[operand as usize];
            *known = match (*known, home) {
                (Home::None, home) => home,
                (known, home) if known == home => known,
                _ => Home::Several,
            };
        }
    }
}

/// The kernel each node is computed in, numbered from 0 in the order of their results; of several
/// kernels the first. Inputs, literals and constants are in none.
pub fn kernels(graph: &Graph) -> Vec<Option<u32>> {
    let roots = materialized(&Dag::of(graph));
    let is_op = |id: NodeId| matches!(graph.node(id).kind, NodeKind::Op(_));
    let mut home: Vec<Option<NodeId>> = vec![None; graph.len()];
    for id in graph.ids().rev().filter(|id| is_op(*id)) {
        let first = graph.users(id).first().and_then(|user| home[user.index()]);
        home[id.index()] = if roots[id.index()] { Some(id) } else { first };
    }
    let mut order: Vec<NodeId> = home.iter().flatten().copied().collect();
    order.sort_unstable();
    order.dedup();
    let number = |id: NodeId| order.binary_search(&id).ok().map(|n| n as u32);
    home.into_iter().map(|id| id.and_then(number)).collect()
}
