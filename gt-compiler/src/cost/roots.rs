//! Which values of a graph get memory of their own: the scheduler's rule, as the cost model sees it.
//!
//! Inputs, outputs, results of reductions, products and routines and the operands of the latter two are materialized; so is a shared value
//! that would cost more to compute again than to read. Everything else is computed inside the kernels that use it.

use gt_ir::{Class, Graph, NodeId, NodeKind, Op, OpKind};

/// Most operations fused into one value.
const MAX_FUSED: u32 = 96;
/// A shared value up to this cost is computed again by each kernel that uses it.
const CHEAP: u32 = 4;

/// Whether an op only says where elements are found.
fn is_movement(kind: OpKind) -> bool {
    matches!(kind, OpKind::Reshape | OpKind::Permute | OpKind::Expand | OpKind::Slice)
}

fn is_view(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.node(id).kind, NodeKind::Op(op) if is_movement(op.kind()))
}

/// What a chain of views looks at.
fn base(graph: &Graph, mut id: NodeId) -> NodeId {
    while is_view(graph, id) {
        id = graph.operands(id)[0];
    }
    id
}

/// For each node, whether it is materialized.
pub(crate) fn materialized(graph: &Graph) -> Vec<bool> {
    let mut roots = vec![false; graph.len()];
    graph.outputs().iter().for_each(|id| roots[id.index()] = true);
    for id in graph.ids() {
        match graph.node(id).kind {
            NodeKind::Input(_) => roots[id.index()] = true,
            NodeKind::Scalar(_) | NodeKind::Const(_) => (),
            NodeKind::Op(op) => own(graph, id, &op, &mut roots),
        }
    }
    let costs = costs(graph, &mut roots);
    shared(graph, &costs, &mut roots);
    roots
}

/// What an op materializes by itself.
fn own(graph: &Graph, id: NodeId, op: &Op, roots: &mut [bool]) {
    let random = matches!(op, Op::Rand(_) | Op::Randn(_) | Op::Randint(_));
    let routine = random || matches!(op, Op::Argmax(_)) || op.spec().class == Class::Gather;
    let product = matches!(op, Op::MatMul);
    if routine || product {
        for operand in graph.operands(id) {
            roots[if product { base(graph, operand) } else { operand }.index()] = true;
        }
    }
    let kernel = matches!(op, Op::Cat(_) | Op::Pad(_)) || op.spec().class == Class::Reduce;
    roots[id.index()] |= routine || product || kernel;
}

/// Operations it takes to compute an element of each node from materialized ones; breaks chains that grow too large.
fn costs(graph: &Graph, roots: &mut [bool]) -> Vec<u32> {
    let mut costs: Vec<u32> = Vec::with_capacity(graph.len());
    let mut sizes: Vec<u32> = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        let operands = graph.operands(id);
        let (mut cost, mut size) = (own_cost(&graph.node(id).kind), 1_u32);
        for operand in operands.iter().filter(|o| !roots[o.index()]) {
            cost = cost.saturating_add(costs[operand.index()]);
            size = size.saturating_add(sizes[operand.index()]);
        }
        roots[id.index()] |= size > MAX_FUSED;
        if let (NodeKind::Op(Op::Expand(to)), Some(from)) = (graph.node(id).kind, operands.first())
        {
            // Computing it for every repetition would cost more than a buffer of the smaller size.
            let n = graph.node(*from).ty.shape.numel();
            let at = base(graph, *from);
            let repeats = n > 1 && to.numel() >= 4 * n && costs[from.index()] > CHEAP;
            roots[at.index()] |= repeats && matches!(graph.node(at).kind, NodeKind::Op(_));
        }
        costs.push(cost);
        sizes.push(size);
    }
    costs
}

fn own_cost(kind: &NodeKind) -> u32 {
    let NodeKind::Op(op) = kind else { return 0 };
    match op.spec().class {
        Class::Pointwise => match op {
            Op::Sqrt | Op::Div => 3,
            Op::Exp | Op::Log | Op::Sin | Op::Cos | Op::Tanh | Op::Erf | Op::Pow => 10,
            _ => 1,
        },
        Class::Source => 1,
        Class::Reduce | Class::Contract | Class::Move | Class::Gather => 0,
    }
}

/// Materializes what several kernels use, where that is cheaper than computing it in each.
fn shared(graph: &Graph, costs: &[u32], roots: &mut [bool]) {
    // The kernel a lazy node ends up in, by the root it is for; `None` when it is in several.
    let mut home: Vec<Option<NodeId>> = vec![None; graph.len()];
    for id in graph.ids().rev() {
        let users = graph.users(id);
        let home_of = |u: &NodeId| if roots[u.index()] { Some(*u) } else { home[u.index()] };
        let first = users.first().and_then(home_of);
        let one = first.is_some() && users.iter().all(|u| home_of(u) == first);
        if roots[id.index()] {
            continue;
        }
        home[id.index()] = if one { first } else { None };
        // One element is never worth a buffer, and of a view it is the operand that gets one.
        let many = graph.node(id).ty.shape.numel() > 1;
        roots[id.index()] |= !one && costs[id.index()] > CHEAP && many && !is_view(graph, id);
    }
}

/// The kernel each node is computed in, numbered from 0 in the order of their results; of several kernels the first. Inputs, literals and
/// constants are in none.
pub fn kernels(graph: &Graph) -> Vec<Option<u32>> {
    let roots = materialized(graph);
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
