//! The shape of a nest: which loops there are after merging, in which order they run, which one is vectorized and which ones are split.
//!
//! Guarantees: the choice depends on the spec alone (never on the number of threads), so that the same program gives the same bits
//! anywhere. It does not write code.

use gt_ir::DType;

use super::spec::{Access, Binary, Expr, KernelSpec, Loop, Node, PerLoop, Unary};

/// A spec with its loops brought into shape.
#[derive(Clone, Debug)]
pub(crate) struct Nest {
    pub(crate) spec: KernelSpec,
    /// Loops of `spec` from the outermost to the innermost.
    pub(crate) order: PerLoop<usize>,
    /// Position in `order` of the vectorized loop; the loops after it are reduce loops.
    pub(crate) vector: Option<usize>,
    /// Lanes of a vector; 1 when this kernel runs on scalars.
    pub(crate) lanes: usize,
    /// Vectors handled together.
    pub(crate) unroll: usize,
    /// The parallel loop whose range is an argument.
    pub(crate) split_parallel: Option<usize>,
    /// The reduce loop whose range is an argument.
    pub(crate) split_reduce: Option<usize>,
}

impl Nest {
    pub(crate) fn new(mut spec: KernelSpec) -> Nest {
        drop_unit_loops(&mut spec);
        merge_loops(&mut spec);
        if spec.loops.iter().all(|l| !l.reduce) {
            spec.reduce = None; // one element each is its own sum
        }
        let (order, vector) = arrange(&spec);
        let lanes = vector.map_or(1, |v| lanes(&spec, order[v]));
        let unroll = vector.map_or(1, |v| unroll(&spec, spec.loops[order[v]].extent / lanes));
        let split_parallel = widest(&spec, false);
        let split_reduce = widest(&spec, true);
        Nest { spec, order, vector, lanes, unroll, split_parallel, split_reduce }
    }

    pub(crate) fn split_extent(&self, split: Option<usize>) -> usize {
        split.map_or(1, |l| self.spec.loops[l].extent)
    }
}

fn drop_unit_loops(spec: &mut KernelSpec) {
    for l in (0..spec.loops.len())
        .rev()
        .filter(|&l| spec.loops[l].extent == 1)
        .collect::<PerLoop<usize>>()
    {
        spec.loops.remove(l);
        for access in spec.accesses_mut() {
            access.strides.remove(l);
        }
    }
}

/// Makes one loop of two neighbors wherever every access walks them as one.
fn merge_loops(spec: &mut KernelSpec) {
    for inner in (1..spec.loops.len()).rev() {
        let (a, b) = (spec.loops[inner - 1], spec.loops[inner]);
        let fits = |x: &Access| x.strides[inner - 1] == x.strides[inner] * b.extent as i64;
        if a.reduce != b.reduce || !spec.accesses().all(fits) {
            continue;
        }
        spec.loops[inner - 1] = Loop { extent: a.extent * b.extent, reduce: a.reduce };
        spec.loops.remove(inner);
        for access in spec.accesses_mut() {
            access.strides.remove(inner - 1);
        }
    }
}

/// The order of the loops and the position of the vectorized one.
fn arrange(spec: &KernelSpec) -> (PerLoop<usize>, Option<usize>) {
    let parallel: PerLoop<usize> =
        (0..spec.loops.len()).filter(|&l| !spec.loops[l].reduce).collect();
    let reduce: PerLoop<usize> = (0..spec.loops.len()).filter(|&l| spec.loops[l].reduce).collect();
    let contiguous = |l: usize| spec.accesses().filter(|a| a.strides[l] == 1).count();
    let mut order = parallel.clone();
    order.extend(reduce.iter().copied());
    let vector = match (parallel.last(), reduce.last()) {
        (None, None) => None,
        (_, None) | (None, _) => Some(order.len() - 1),
        // A store walks the last parallel loop, never a reduce loop: at equal counts the loads decide for the reduce loop.
        (Some(&p), Some(&r))
            if contiguous(r) >= 1
                && contiguous(r) + 1 >= contiguous(p)
                && spec.loops[r].extent >= 8 =>
        {
            Some(order.len() - 1)
        }
        (Some(_), Some(_)) => Some(parallel.len() - 1),
    };
    (order, vector)
}

/// Lanes of a 128-bit vector over loop `l` that fit every value computed in it.
fn lanes(spec: &KernelSpec, l: usize) -> usize {
    let varying = varying(spec, l);
    let (mut wide, mut narrow) = (false, false);
    let computed = spec.nodes.iter().zip(&varying).filter(|(_, v)| **v).map(|(node, _)| node);
    for node in computed.chain(spec.stores.iter().map(|s| spec.node(s.value))) {
        match node.dtype {
            DType::F64 | DType::I64 => wide = true,
            DType::F32 | DType::I32 | DType::Bf16 | DType::F16 | DType::U8 => narrow = true,
            DType::Bool => (),
        }
    }
    let lanes = match (wide, narrow) {
        (true, true) => 1,
        (true, false) => 2,
        (false, _) => 4,
    };
    if spec.loops[l].extent < lanes { 1 } else { lanes }
}

/// Which nodes change along loop `l`.
fn varying(spec: &KernelSpec, l: usize) -> Vec<bool> {
    let mut varying: Vec<bool> = Vec::with_capacity(spec.nodes.len());
    for node in &spec.nodes {
        let own = match &node.expr {
            Expr::Load { access, .. } | Expr::Index(access) => access.strides[l] != 0,
            other => other.operands().iter().any(|o| varying[o.0 as usize]),
        };
        varying.push(own);
    }
    varying
}

/// How many vectors to handle together: enough to hide latency, few enough to keep short loops and large bodies small.
fn unroll(spec: &KernelSpec, vectors: usize) -> usize {
    let weight = |n: &Node| match n.expr {
        Expr::Unary(
            Unary::Exp | Unary::Log | Unary::Sin | Unary::Cos | Unary::Tanh | Unary::Erf,
            _,
        )
        | Expr::Binary(Binary::Pow, ..) => 12,
        Expr::Load { .. }
        | Expr::Scalar(_)
        | Expr::Index(_)
        | Expr::Unary(..)
        | Expr::Binary(..)
        | Expr::Select(..)
        | Expr::Cast(_) => 1,
    };
    let most = match spec.nodes.iter().map(weight).sum::<usize>() {
        0..24 => 4,
        24..64 => 2,
        _ => 1,
    };
    match vectors {
        0..4 => 1,
        4..8 => most.min(2),
        _ => most,
    }
}

/// The loop of a kind to cut into pieces: the outermost that has enough iterations, else the longest.
fn widest(spec: &KernelSpec, reduce: bool) -> Option<usize> {
    let of_kind = || (0..spec.loops.len()).filter(|&l| spec.loops[l].reduce == reduce);
    of_kind()
        .find(|&l| spec.loops[l].extent >= 16)
        .or_else(|| of_kind().max_by_key(|&l| (spec.loops[l].extent, std::cmp::Reverse(l))))
}
